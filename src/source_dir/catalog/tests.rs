use multinic_actors::domain::config::{Baseline, Config, Declared};

use super::super::document::{Format, parse};
use super::super::reader::Seen;
use super::*;

const CREDENTIALS: &str = "credentials: {openstackProviderID: o, k8sProviderID: k, projectID: p}, \
                           settings: {contrabassEndpoint: 'https://c', violaEndpoint: 'http://v'}";

fn object(name: &str, metadata: &str, vm: &str) -> String {
    format!(
        "---\napiVersion: multinic.example.com/v1alpha1\nkind: OpenstackConfig\n\
         metadata: {{name: {name}{metadata}}}\nspec: {{subnetID: s, vmNames: [{vm}], {CREDENTIALS}}}\n"
    )
}

fn scan(files: &[(&str, String)]) -> Result<Scan, String> {
    let seen = |text: &String| {
        let parsed = parse(text, Format::Yaml);
        Seen { objects: Arc::new(parsed.objects), problem: parsed.problem }
    };
    Ok(Scan {
        files: files.iter().map(|(name, text)| (PathBuf::from(name), seen(text))).collect(),
        needs_second_look: false,
    })
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(second).unwrap()
}

fn catalog() -> Catalog {
    Catalog::new("dir".into(), Defaults::default(), Some(BTreeMap::new()))
}

/// Events in short: `+a g1 v` applied, `-a`, `?a` first seen, `!file`, `ok file`, `synced`.
fn short(events: Vec<SourceEvent>) -> Vec<String> {
    let short = |event| match event {
        SourceEvent::Apply(Declared::Valid(config)) => {
            format!("+{} g{} {}", config.id.name.name, config.generation, config.vms[0])
        }
        SourceEvent::Apply(Declared::Invalid(invalid)) => format!("x{}", invalid.id.name.name),
        SourceEvent::Delete(id) => format!("-{}", id.name.name),
        SourceEvent::LetGo(id) => format!("~{}", id.name.name),
        SourceEvent::FirstSeen { name, .. } => format!("?{}", name.name),
        SourceEvent::FileProblem { path, .. } => format!("!{}", path.display()),
        SourceEvent::FileRecovered { path } => format!("ok {}", path.display()),
        SourceEvent::Synced => "synced".to_owned(),
    };
    events.into_iter().map(short).collect()
}

fn applied(events: &[SourceEvent]) -> Arc<Config> {
    let config = events.iter().find_map(|event| match event {
        SourceEvent::Apply(Declared::Valid(config)) => Some(config.clone()),
        _ => None,
    });
    config.unwrap()
}

#[test]
fn objects_come_change_and_go() {
    let mut catalog = catalog();
    let mut look = |files: &[(&str, String)]| short(catalog.update(scan(files), at(1)));
    assert_eq!(
        look(&[("a", object("a", "", "v")), ("b", object("b", "", "v"))]),
        ["?a", "+a g1 v", "?b", "+b g1 v", "synced"]
    );
    assert_eq!(look(&[("a", object("a", "", "v")), ("b", object("b", "", "v"))]), [""; 0]);
    assert_eq!(look(&[("a", object("a", "", "w")), ("b", object("b", "", "v"))]), ["+a g2 w"]);
    assert_eq!(look(&[("b", object("a", "", "w"))]), ["-b"]);
}

#[test]
fn what_does_not_concern_us_is_no_change() {
    let mut catalog = catalog();
    catalog.update(scan(&[("a", object("a", "", "v"))]), at(1));
    let labelled = object("a", ", labels: {x: y}, annotations: {z: '1'}", "v");
    assert_eq!(short(catalog.update(scan(&[("a", labelled)]), at(1))), [""; 0]);
    let forced = object("a", ", annotations: {multinic.example.com/force-reconcile: '1'}", "v");
    assert_eq!(short(catalog.update(scan(&[("a", forced)]), at(1))), ["+a g1 v"]);
}

#[test]
fn an_object_that_comes_back_without_a_uid_continues_its_life() {
    let mut catalog = catalog();
    let first = catalog.update(scan(&[("a", object("a", "", "v"))]), at(100));
    catalog.update(scan(&[]), at(200));
    let events = catalog.update(scan(&[("b", object("a", "", "w"))]), at(300));
    assert_eq!(applied(&events).id, applied(&first).id);
    assert_eq!(applied(&events).created, at(100));
    assert_eq!(short(events), ["+a g2 w"]);
}

#[test]
fn another_uid_is_another_life() {
    let mut catalog = catalog();
    catalog.update(scan(&[("a", object("a", ", uid: one", "v"))]), at(1));
    let events = catalog.update(scan(&[("a", object("a", ", uid: two", "v"))]), at(1));
    assert_eq!(short(events), ["-a", "+a g1 v"]);
}

#[test]
fn what_an_object_says_of_its_life_counts() {
    let metadata = ", uid: u, generation: 7, creationTimestamp: '2026-01-10T00:00:00Z'";
    let events = catalog().update(scan(&[("a", object("a", metadata, "v"))]), at(1));
    let config = applied(&events);
    assert_eq!((config.id.uid.as_ref(), config.generation), ("u", 7));
    assert_eq!(config.created.to_string(), "2026-01-10T00:00:00Z");
    assert_eq!(short(events), ["+a g7 v", "synced"]);
}

#[test]
fn a_moment_that_an_earlier_run_noted_is_the_creation() {
    let first_seen = BTreeMap::from([(ConfigName::new("default", "a"), at(5))]);
    let mut catalog = Catalog::new("dir".into(), Defaults::default(), Some(first_seen));
    let events = catalog.update(scan(&[("a", object("a", "", "v"))]), at(100));
    assert_eq!(applied(&events).created, at(5));
    assert_eq!(applied(&events).rules.baseline, Baseline::Since(at(5)));
    assert_eq!(short(events), ["+a g1 v", "synced"]);
}

#[test]
fn the_first_of_two_with_one_name_counts_and_the_other_takes_over() {
    let mut catalog = catalog();
    let both = [("1", object("a", "", "v")), ("2", object("a", "", "w"))];
    let events = catalog.update(scan(&both), at(1));
    let told = format!("{events:?}");
    assert!(told.contains("OpenstackConfig default/a is in 1 already"), "{told}");
    assert_eq!(short(events), ["?a", "+a g1 v", "!2", "synced"]);
    assert_eq!(short(catalog.update(scan(&both), at(1))), [""; 0]);
    assert_eq!(short(catalog.update(scan(&both[1..]), at(1))), ["+a g2 w", "ok 2"]);
}

#[test]
fn a_folder_that_cannot_be_read_takes_nothing_away() {
    let mut catalog = catalog();
    let files = [("a", object("a", "", "v"))];
    catalog.update(scan(&files), at(1));
    assert_eq!(short(catalog.update(Err("is away".into()), at(1))), ["!dir"]);
    assert_eq!(short(catalog.update(Err("is away".into()), at(1))), [""; 0]);
    assert_eq!(short(catalog.update(scan(&files), at(1))), ["ok dir"]);
}

#[test]
fn an_object_with_bad_values_is_told_as_invalid() {
    let mut catalog = catalog();
    let events = catalog.update(scan(&[("a", object("a", "", "x/y"))]), at(1));
    assert_eq!(short(events), ["?a", "xa", "synced"]);
    assert_eq!(short(catalog.update(scan(&[("a", object("a", "", "v"))]), at(9))), ["+a g2 v"]);
}

#[test]
fn a_baseline_that_nobody_remembers_is_refused_with_the_ways_out() {
    let mut catalog = Catalog::new("dir".into(), Defaults::default(), None);
    let events = catalog.update(scan(&[("a", object("a", "", "v"))]), at(1));
    let told = format!("{events:?}");
    for part in ["metadata.creationTimestamp: is needed", "--inventory-enabled=false", "portsCreatedAfter"] {
        assert!(told.contains(part), "{told}");
    }
    assert_eq!(short(events), ["xa", "synced"]);
    let ways_out = [
        object("a", ", creationTimestamp: '2026-01-10T00:00:00Z'", "v"),
        object("a", "", "v").replace("settings: {", "settings: {portsCreatedAfter: '2026-01-10', "),
        object("a", "", "v").replace("settings: {", "settings: {includeExistingPorts: true, "),
    ];
    for text in ways_out {
        let mut catalog = Catalog::new("dir".into(), Defaults::default(), None);
        assert_eq!(
            short(catalog.update(scan(&[("a", text.clone())]), at(1))),
            ["+a g1 v", "synced"],
            "{text}"
        );
    }
}

#[test]
fn a_file_that_is_broken_from_the_start_withholds_that_all_is_known() {
    let mut catalog = catalog();
    let files = |broken: &str| [("a", object("a", "", "v")), ("b", broken.to_owned())];
    assert_eq!(short(catalog.update(scan(&files("kind: [")), at(1))), ["?a", "+a g1 v", "!b"]);
    assert_eq!(short(catalog.update(scan(&files("kind: [")), at(2))), [""; 0]);
    let mended = catalog.update(scan(&files(&object("b", "", "w"))), at(3));
    assert_eq!(short(mended), ["?b", "+b g1 w", "ok b", "synced"]);
}

#[test]
fn a_made_up_uid_looks_like_a_uuid_and_depends_on_the_name_alone() {
    let uid = stable_uid(&ConfigName::new("n", "a"));
    assert_eq!(uid, stable_uid(&ConfigName::new("n", "a")));
    assert_ne!(uid, stable_uid(&ConfigName::new("n", "b")));
    let lengths: Vec<usize> = uid.split('-').map(str::len).collect();
    assert_eq!(lengths, [8, 4, 4, 4, 12]);
    assert_eq!(uid.as_bytes()[14], b'8');
}
