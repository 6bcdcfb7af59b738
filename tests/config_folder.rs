//! A folder of objects, with real files, links and accidents.

// clippy's own exception covers test functions, not the helpers beside them.
#![allow(clippy::unwrap_used, clippy::panic)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use multinic_actors::boundary::SystemClock;
use multinic_actors::domain::config::Declared;
use multinic_operator::kube::validate::Defaults;
use multinic_operator::secrets::SecretSource;
use multinic_operator::source_dir::{FolderOptions, FolderSecrets, FolderSource, SourceEvent, SourceEvents};
use secrecy::ExposeSecret;
use tempfile::TempDir;

/// Many times what any of it takes.
const DEADLINE: Duration = Duration::from_secs(20);

/// Quick, and without the rescan, so that what is seen was an event.
const BY_EVENT: FolderOptions = FolderOptions {
    debounce: Duration::from_millis(20),
    rescan: Duration::from_secs(3600),
    grace: Duration::from_millis(100),
};

/// Quick, with a rescan.
const BY_RESCAN: FolderOptions = FolderOptions { rescan: Duration::from_millis(50), ..BY_EVENT };

struct World {
    dir: TempDir,
    source: FolderSource,
    events: SourceEvents,
    seen: Vec<String>,
}

impl World {
    async fn start(files: &[(&str, String)], options: FolderOptions) -> Self {
        let dir = TempDir::new().unwrap();
        for (name, text) in files {
            fs::write(dir.path().join(name), text).unwrap();
        }
        Self::start_in(dir, "", options).await
    }

    async fn start_in(dir: TempDir, below: &str, options: FolderOptions) -> Self {
        let path = dir.path().join(below);
        let (source, events) = start(&path, options).await.unwrap();
        let mut world = Self { dir, source, events, seen: Vec::new() };
        world.until("synced").await;
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    /// Waits until an event in short begins like this and returns it.
    async fn until(&mut self, expect: &str) -> String {
        let found = tokio::time::timeout(DEADLINE, async {
            loop {
                let event = short(self.events.recv().await.expect("the source has ended"));
                self.seen.push(event.clone());
                if event.starts_with(expect) {
                    return event;
                }
            }
        });
        match found.await {
            Ok(event) => event,
            Err(_) => panic!("waited for {expect:?}, saw {:#?}", self.seen),
        }
    }

    /// Everything seen after `mark` events.
    fn since(&self, mark: usize) -> &[String] {
        &self.seen[mark..]
    }

    async fn secret(&self) -> Option<String> {
        read(&self.source.secrets()).await
    }
}

async fn read(secrets: &FolderSecrets) -> Option<String> {
    let data = secrets.get("default", "s").await.unwrap()?;
    Some(data.text("k").unwrap().expose_secret().to_owned())
}

async fn start(path: &Path, options: FolderOptions) -> Result<(FolderSource, SourceEvents), String> {
    FolderSource::start(path, options, Defaults::default(), Some(BTreeMap::new()), Arc::new(SystemClock))
        .await
        .map_err(|error| error.to_string())
}

/// `+name generation vm`, `-name`, `? name`, `! file: problem`, `ok file`, `synced`.
fn short(event: SourceEvent) -> String {
    let file = |path: PathBuf| path.file_name().unwrap_or_default().display().to_string();
    match event {
        SourceEvent::Apply(Declared::Valid(config)) => {
            format!("+{} {} {}", config.id.name.name, config.generation, config.vms[0])
        }
        SourceEvent::Apply(Declared::Invalid(invalid)) => format!("x {}: {}", invalid.id, invalid.message),
        SourceEvent::Delete(id) => format!("-{}", id.name.name),
        SourceEvent::LetGo(id) => format!("~{}", id.name.name),
        SourceEvent::FirstSeen { name, .. } => format!("? {}", name.name),
        SourceEvent::FileProblem { path, problem } => format!("! {}: {problem}", file(path)),
        SourceEvent::FileRecovered { path } => format!("ok {}", file(path)),
        SourceEvent::Synced => "synced".to_owned(),
    }
}

fn config(name: &str, vm: &str) -> String {
    format!(
        "---\napiVersion: multinic.example.com/v1alpha1\nkind: OpenstackConfig\nmetadata: {{name: {name}}}\n\
         spec:\n  subnetID: s\n  vmNames: [{vm}]\n  \
         credentials: {{openstackProviderID: o, k8sProviderID: k, projectID: p}}\n  \
         settings: {{contrabassEndpoint: 'https://c', violaEndpoint: 'http://v'}}\n"
    )
}

fn secret(value: &str) -> String {
    format!("---\napiVersion: v1\nkind: Secret\nmetadata: {{name: s}}\nstringData: {{k: '{value}'}}\n")
}

#[tokio::test]
async fn a_file_that_is_added_changed_or_removed_is_an_event() {
    let mut world = World::start(&[("a.yaml", config("a", "v"))], BY_EVENT).await;
    assert_eq!(world.seen, ["? a", "+a 1 v", "synced"]);
    world.write("b.yml", &config("b", "v"));
    world.until("+b 1 v").await;
    world.write("a.yaml", &config("a", "w"));
    world.until("+a 2 w").await;
    fs::remove_file(world.path("a.yaml")).unwrap();
    world.until("-a").await;
    world.write("a.json", r#"{"apiVersion": "multinic.example.com/v1alpha1", "kind": "OpenstackConfig", "metadata": {"name": "a"}}"#);
    let told = world.until("x default/a/").await;
    assert!(told.contains("spec: is missing"), "{told}");
}

#[tokio::test]
async fn other_files_and_folders_are_passed_over() {
    let dir = TempDir::new().unwrap();
    for name in ["a.yaml~", ".a.yaml", "a.txt", "README"] {
        fs::write(dir.path().join(name), "{").unwrap();
    }
    fs::create_dir(dir.path().join("sub.yaml")).unwrap();
    let world = World::start_in(dir, "", BY_EVENT).await;
    assert_eq!(world.seen, ["synced"]);
}

#[tokio::test]
async fn a_broken_file_is_reported_and_its_objects_go_on() {
    let good = format!("{}{}", config("a", "v"), secret("old"));
    let mut world = World::start(&[("a.yaml", good.clone())], BY_EVENT).await;
    let mark = world.seen.len();
    world.write("a.yaml", "kind: [");
    let told = world.until("! a.yaml").await;
    assert!(told.contains("the last good version goes on"), "{told}");
    assert_eq!(world.secret().await.as_deref(), Some("old"));
    // One document of it alone cannot be read: which object it was, nobody knows.
    world.write("a.yaml", &format!("{}---\nkind: 7\n", secret("new")));
    world.until("! a.yaml: document 2").await;
    world.write("b.yaml", &config("b", "v"));
    world.until("+b").await;
    world.write("a.yaml", &good);
    world.until("ok a.yaml").await;
    let gone = world.since(mark).iter().find(|event| event.starts_with("-a"));
    assert_eq!(gone, None, "{:?}", world.seen);
}

#[tokio::test]
async fn an_editor_that_takes_the_file_away_first_deletes_nothing() {
    let slow_grace = FolderOptions { grace: Duration::from_secs(5), ..BY_EVENT };
    let mut world = World::start(&[("a.yaml", config("a", "v"))], slow_grace).await;
    let mark = world.seen.len();
    fs::rename(world.path("a.yaml"), world.path("a.yaml~")).unwrap();
    world.write("b.yaml", &config("b", "v"));
    world.until("+b").await;
    world.write("a.yaml", &config("a", "w"));
    world.until("+a 2 w").await;
    assert!(!world.since(mark).contains(&"-a".to_owned()), "{:?}", world.seen);
}

#[tokio::test]
async fn two_files_with_one_object_are_reported_and_the_first_counts() {
    let files = [("1.yaml", config("a", "v")), ("2.yaml", config("a", "w"))];
    let mut world = World::start(&files, BY_EVENT).await;
    assert_eq!(world.seen[..2], ["? a", "+a 1 v"]);
    assert!(world.seen[2].starts_with("! 2.yaml: OpenstackConfig default/a is in 1.yaml already"));
    fs::remove_file(world.path("1.yaml")).unwrap();
    world.until("+a 2 w").await;
    world.until("ok 2.yaml").await;
    assert!(!world.seen.contains(&"-a".to_owned()), "{:?}", world.seen);
}

/// As kubelet mounts a ConfigMap: files are links into `..data`, itself a link that is swapped.
#[tokio::test]
async fn the_swapped_links_of_a_mounted_configmap_are_seen() {
    let dir = TempDir::new().unwrap();
    let version = |number: u32, vm: &str| {
        let folder = dir.path().join(format!("..version_{number}"));
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.yaml"), config("a", vm)).unwrap();
        symlink(&folder, dir.path().join("..data_tmp")).unwrap();
        fs::rename(dir.path().join("..data_tmp"), dir.path().join("..data")).unwrap();
    };
    version(1, "v");
    symlink("..data/a.yaml", dir.path().join("a.yaml")).unwrap();
    let (_source, mut events) = start(dir.path(), BY_EVENT).await.unwrap();
    let mut next = async || {
        let event = tokio::time::timeout(DEADLINE, events.recv()).await;
        short(event.expect("nothing came").unwrap())
    };
    assert_eq!([next().await, next().await, next().await], ["? a", "+a 1 v", "synced"]);
    version(2, "w");
    assert_eq!(next().await, "+a 2 w");
}

#[tokio::test]
async fn a_folder_that_is_missing_at_the_start_is_an_error() {
    let dir = TempDir::new().unwrap();
    let missing = dir.path().join("missing");
    let error = start(&missing, BY_EVENT).await.err().unwrap();
    assert_eq!(error, format!("config folder {}: does not exist", missing.display()));
    fs::write(&missing, "").unwrap();
    let error = start(&missing, BY_EVENT).await.err().unwrap();
    assert!(error.ends_with("is not a folder"), "{error}");
}

#[tokio::test]
async fn a_folder_that_goes_away_takes_nothing_along_and_is_watched_again_when_it_is_back() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("configs");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.yaml"), format!("{}{}", config("a", "v"), secret("x"))).unwrap();
    let mut world = World::start_in(dir, "configs", BY_RESCAN).await;
    let mark = world.seen.len();
    fs::rename(&folder, world.path("away")).unwrap();
    world.until("! configs: does not exist").await;
    assert_eq!(world.secret().await.as_deref(), Some("x"));
    let unknown = world.source.secrets().get("default", "other").await;
    assert!(unknown.unwrap_err().to_string().contains("the config folder does not exist"));
    fs::rename(world.path("away"), &folder).unwrap();
    world.until("ok configs").await;
    world.write("configs/a.yaml", &config("a", "w"));
    world.until("+a 2 w").await;
    assert!(!world.since(mark).contains(&"-a".to_owned()), "{:?}", world.seen);
}

#[tokio::test]
async fn another_folder_at_the_same_path_is_watched_from_then_on() {
    let dir = TempDir::new().unwrap();
    for (folder, vm) in [("one", "v"), ("two", "w")] {
        fs::create_dir(dir.path().join(folder)).unwrap();
        fs::write(dir.path().join(folder).join("a.yaml"), config("a", vm)).unwrap();
    }
    symlink("one", dir.path().join("configs")).unwrap();
    let mut world = World::start_in(dir, "configs", BY_EVENT).await;
    symlink("two", world.path("next")).unwrap();
    fs::rename(world.path("next"), world.path("configs")).unwrap();
    world.until("+a 2 w").await;
    world.write("two/a.yaml", &config("a", "x"));
    world.until("+a 3 x").await;
}

#[tokio::test]
async fn a_changed_secret_is_read_at_the_next_get_and_kept_as_it_is() {
    let world = World::start(&[("s.yaml", secret(" one "))], BY_EVENT).await;
    assert_eq!(world.secret().await.as_deref(), Some(" one "));
    world.write("s.yaml", &secret("two"));
    assert_eq!(world.secret().await.as_deref(), Some("two"));
    world.write("s.yaml", &config("a", "v"));
    assert_eq!(world.secret().await, None);
    let elsewhere = world.source.secrets().get("other", "s").await.unwrap();
    assert!(elsewhere.is_none());
}

#[tokio::test]
async fn many_changes_reach_a_slow_reader_as_the_newest_state() {
    let mut world = World::start(&[("a.yaml", config("a", "v0"))], BY_EVENT).await;
    for n in 1..200 {
        world.write("a.yaml", &config("a", &format!("v{n}")));
        tokio::task::yield_now().await;
    }
    let mark = world.seen.len();
    loop {
        if world.until("+a ").await.ends_with(" v199") {
            break;
        }
    }
    assert!(world.since(mark).len() < 200, "{:?}", world.since(mark));
}

#[tokio::test]
async fn a_file_that_is_too_large_or_no_text_is_reported() {
    let mut world = World::start(&[], BY_EVENT).await;
    world.write("large.yaml", &"#".repeat(4 * 1024 * 1024 + 1));
    world.until("! large.yaml: cannot be read: it is larger than 4 MiB").await;
    fs::write(world.path("binary.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    world.until("! binary.yaml: cannot be read").await;
}

#[tokio::test]
async fn a_link_to_nothing_is_reported_and_its_objects_go_on() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("real"), config("a", "v")).unwrap();
    symlink("real", dir.path().join("a.yaml")).unwrap();
    let mut world = World::start_in(dir, "", BY_EVENT).await;
    let mark = world.seen.len();
    fs::rename(world.path("real"), world.path("gone")).unwrap();
    let told = world.until("! a.yaml").await;
    assert!(told.contains("it is a link to nothing"), "{told}");
    fs::rename(world.path("gone"), world.path("real")).unwrap();
    world.until("ok a.yaml").await;
    assert_eq!(world.since(mark).len(), 2, "{:?}", world.since(mark));
}

#[tokio::test]
async fn a_folder_that_is_made_anew_is_noticed_by_event() {
    let dir = TempDir::new().unwrap();
    let folder = dir.path().join("configs");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.yaml"), config("a", "v")).unwrap();
    let mut world = World::start_in(dir, "configs", BY_EVENT).await;
    fs::remove_dir_all(&folder).unwrap();
    world.until("! configs: does not exist").await;
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("a.yaml"), config("a", "w")).unwrap();
    world.until("+a 2 w").await;
    world.write("configs/a.yaml", &config("a", "x"));
    world.until("+a 3 x").await;
}

#[tokio::test]
async fn a_partly_broken_file_that_gets_worse_takes_nothing_away() {
    let both = format!("{}{}", config("a", "v"), config("b", "v"));
    let mut world = World::start(&[("a.yaml", both)], BY_EVENT).await;
    let mark = world.seen.len();
    world.write("a.yaml", &format!("{}---\nkind: 7\n", config("a", "w")));
    world.until("! a.yaml: document 2").await;
    world.write("a.yaml", "---\nkind: 7\n---\nkind: 8\n");
    let told = world.until("! a.yaml: document 1").await;
    assert!(told.contains("document 2"), "{told}");
    world.write("a.yaml", "kind: [");
    world.until("! a.yaml: is not YAML").await;
    // The end of the tale: what is said by a readable file counts again, also that one of them is gone.
    world.write("a.yaml", &config("a", "x"));
    world.until("ok a.yaml").await;
    assert!(!world.since(mark).contains(&"-a".to_owned()), "{:?}", world.since(mark));
    assert!(world.since(mark).contains(&"-b".to_owned()), "{:?}", world.since(mark));
    let applied = world.since(mark).iter().filter(|event| event.starts_with('+')).collect::<Vec<_>>();
    assert_eq!(applied, ["+a 2 x"]);
}

#[tokio::test]
async fn the_events_end_with_the_source() {
    let World { source, mut events, dir: _dir, .. } = World::start(&[], BY_EVENT).await;
    drop(source);
    let end = tokio::time::timeout(DEADLINE, events.recv()).await;
    assert!(end.expect("it goes on").is_none());
}
