//! The audit log: one JSON line per node whose delivered config changed.
//!
//! A thread of its own writes, so that no actor waits for the disk. When it cannot keep up, or the disk
//! refuses, lines are lost; the log and the next line that is written say how many.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use multinic_actors::boundary::{ChangedNode, ChangesDelivered, Witness};
use serde_json::json;

/// A file that is as large gets the suffix `.1`, and a new one is begun.
const MAX_BYTES: u64 = 64 << 20;
/// How many earlier files are kept: `.1` is the newest.
const KEPT: u32 = 5;
/// So many lines may wait for the disk; a line is about 2 KiB.
const MAX_WAITING: usize = 4096;

/// Writes who changed which node's config from what to what.
#[derive(Debug)]
pub struct AuditLog {
    lines: Mutex<Option<SyncSender<String>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
    lost: Arc<AtomicU64>,
}

impl AuditLog {
    /// Appends to the file, which is made when it is not there.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::open_with(path, MAX_BYTES)
    }

    fn open_with(path: &Path, max_bytes: u64) -> io::Result<Self> {
        let (lines, waiting) = sync_channel(MAX_WAITING);
        let lost = Arc::new(AtomicU64::new(0));
        let file = RotatedFile::open(path.to_owned(), max_bytes)?;
        let counted = Arc::clone(&lost);
        let write = move || write_all(file, &waiting, &counted);
        let writer = std::thread::Builder::new().name("audit-log".to_owned()).spawn(write)?;
        Ok(Self { lines: Mutex::new(Some(lines)), writer: Mutex::new(Some(writer)), lost })
    }

    /// Waits until everything that was told is written. What is told afterwards is not.
    pub fn close(&self) {
        self.lines.lock().unwrap_or_else(PoisonError::into_inner).take();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if writer.is_some_and(|writer| writer.join().is_err()) {
            tracing::error!("the audit log failed while it was closed");
        }
    }
}

impl Witness for AuditLog {
    fn changes_delivered(&self, delivered: &ChangesDelivered) {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(lines) = lines.as_ref() else { return };
        for node in &delivered.nodes {
            if let Err(TrySendError::Full(_)) = lines.try_send(line(delivered, node)) {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn line(delivered: &ChangesDelivered, node: &ChangedNode) -> String {
    let config = &delivered.config;
    json!({
        "time": delivered.at,
        "config": {
            "namespace": config.id.name.namespace,
            "name": config.id.name.name,
            "uid": config.id.uid,
            "generation": config.generation,
        },
        "providerId": config.provider,
        "node": node.after.node_name,
        "instanceId": node.after.instance_id,
        "before": node.before.as_ref().map(|before| &before.interfaces),
        "after": node.after.interfaces,
    })
    .to_string()
}

fn write_all(mut file: RotatedFile, waiting: &Receiver<String>, lost: &AtomicU64) {
    let mut has_failed = false;
    while let Ok(line) = waiting.recv() {
        let missing = lost.swap(0, Ordering::Relaxed);
        let note = if missing > 0 { format!("{}\n", json!({"linesLost": missing})) } else { String::new() };
        match file.write(&format!("{note}{line}\n")) {
            Ok(()) if has_failed => {
                has_failed = false;
                tracing::info!("the audit log is written again");
            }
            Ok(()) => {}
            Err(error) => {
                lost.fetch_add(missing + 1, Ordering::Relaxed);
                if !std::mem::replace(&mut has_failed, true) {
                    let path = file.path.display();
                    tracing::error!("the audit log {path} cannot be written, its lines are lost: {error}");
                }
            }
        }
    }
}

/// A file that gives way to a new one when it is large.
struct RotatedFile {
    path: PathBuf,
    max_bytes: u64,
    file: Option<File>,
    bytes: u64,
}

impl RotatedFile {
    fn open(path: PathBuf, max_bytes: u64) -> io::Result<Self> {
        let mut file = Self { path, max_bytes, file: None, bytes: 0 };
        file.opened()?;
        Ok(file)
    }

    fn opened(&mut self) -> io::Result<&mut File> {
        if self.file.is_none() {
            let file = OpenOptions::new().create(true).append(true).open(&self.path)?;
            self.bytes = file.metadata()?.len();
            self.file = Some(file);
        }
        self.file.as_mut().ok_or_else(|| io::Error::other("not open"))
    }

    /// In one piece: whoever reads along sees whole lines.
    fn write(&mut self, text: &str) -> io::Result<()> {
        if self.bytes > 0 && self.bytes + text.len() as u64 > self.max_bytes {
            self.rotate()?;
        }
        let written = self.opened()?.write_all(text.as_bytes());
        match written {
            Ok(()) => self.bytes += text.len() as u64,
            // A path that is valid again (a volume that came back) is opened anew.
            Err(_) => self.file = None,
        }
        written
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        for number in (1..KEPT).rev() {
            let earlier = self.numbered(number);
            if earlier.exists() {
                std::fs::rename(&earlier, self.numbered(number + 1))?;
            }
        }
        std::fs::rename(&self.path, self.numbered(1))
    }

    fn numbered(&self, number: u32) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(format!(".{number}"));
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use multinic_actors::domain::node::{Interface, NodeConfig};
    use multinic_actors::testing::config;
    use serde_json::Value;

    use super::*;

    fn node(interfaces: u8) -> Arc<NodeConfig> {
        let interface = |id: u8| Interface {
            id,
            name: Interface::name_of(id),
            mac_address: format!("fa:16:3e:00:00:{id:02x}").parse().unwrap(),
            address: "192.0.2.5".parse().unwrap(),
            cidr: "192.0.2.0/24".parse().unwrap(),
            mtu: 1450,
            port_id: None,
            device_id: None,
            network_id: None,
            subnet_id: None,
        };
        Arc::new(NodeConfig {
            node_name: multinic_actors::domain::ids::NodeName::new("node-1").unwrap(),
            instance_id: "vm-1".into(),
            interfaces: (0..interfaces).map(interface).collect(),
        })
    }

    fn told(log: &AuditLog, before: Option<u8>, after: u8) {
        log.changes_delivered(&ChangesDelivered {
            config: config("a").vms(1).build(),
            at: Timestamp::from_second(1_000).unwrap(),
            nodes: vec![ChangedNode { before: before.map(node), after: node(after) }],
            waits: Vec::new(),
        });
    }

    fn lines(path: &Path) -> Vec<Value> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn a_change_is_one_line_with_who_what_before_and_after() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        for (before, after) in [(None, 1), (Some(1), 2)] {
            // A restart appends.
            let log = AuditLog::open(&path).unwrap();
            told(&log, before, after);
            log.close();
        }
        let lines = lines(&path);
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[0]["time"], "1970-01-01T00:16:40Z");
        assert_eq!((&lines[0]["config"]["name"], &lines[0]["node"]), (&json!("a"), &json!("node-1")));
        assert_eq!((&lines[0]["before"], lines[0]["after"].as_array().unwrap().len()), (&Value::Null, 1));
        assert_eq!(lines[1]["before"][0]["macAddress"], "fa:16:3e:00:00:00");
        assert_eq!(lines[1]["after"][1]["name"], "multinic1");
    }

    #[test]
    fn a_large_file_gives_way_to_a_new_one_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let log = AuditLog::open_with(&path, 1_000).unwrap();
        let count = 40;
        (0..count).for_each(|_| told(&log, None, 1));
        log.close();
        let numbered = |number: u32| folder.path().join(format!("audit.jsonl.{number}"));
        for file in std::iter::once(path.clone()).chain((1..=KEPT).map(numbered)) {
            let size = std::fs::metadata(&file).unwrap().len();
            assert!(size > 0 && size <= 1_000, "{}: {size}", file.display());
        }
        assert!(!numbered(KEPT + 1).exists());
        assert!(lines(&path).len() + (1..=KEPT).map(|n| lines(&numbered(n)).len()).sum::<usize>() < count);
    }

    #[test]
    fn a_folder_that_is_not_there_is_told_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        assert!(AuditLog::open(&folder.path().join("no").join("audit.jsonl")).is_err());
    }

    #[test]
    fn lines_that_cannot_be_written_are_counted_in_the_next_one_that_can() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sub").join("audit.jsonl");
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let mut file = RotatedFile::open(path.clone(), 10).unwrap();
        file.write("first\n").unwrap();
        std::fs::remove_dir_all(folder.path().join("sub")).unwrap();
        assert!(file.write("second\n").is_err(), "it is to be rotated, and there is no folder");
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        let (send, receive) = sync_channel(4);
        send.send("{}".to_owned()).unwrap();
        drop(send);
        file.bytes = 0;
        write_all(file, &receive, &AtomicU64::new(3));
        assert_eq!(lines(&path), [json!({"linesLost": 3}), json!({})]);
    }
}
