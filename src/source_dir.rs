//! `OpenstackConfig` and `Secret` objects from a folder.
//!
//! The folder is watched and, as events can be lost, looked at every now and then as well. Whatever happens to
//! it, objects go only when their file, or their document in a readable file, is really gone: a broken file or
//! an unreadable folder leaves the last good state in force and is reported.

mod catalog;
mod document;
mod off_runtime;
mod reader;
mod watch;

pub(crate) use watch::Watch;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use multinic_actors::boundary::{BoxFuture, Clock};
use multinic_actors::domain::ids::ConfigName;
use tokio::task::JoinHandle;

pub use document::{Format, Objects, Parsed, Secret, parse};

pub use crate::source::{SourceEvent, SourceEvents, SourceSender, channel};

use crate::kube::validate::Defaults;
use crate::secrets::{SecretData, SecretError, SecretSource};
use catalog::Catalog;
use off_runtime::DEADLINE;
use reader::{FolderReader, Scan};

/// How the folder is watched.
#[derive(Clone, Copy, Debug)]
pub struct FolderOptions {
    /// How long it must be quiet before it is looked at: a copy is many events.
    pub debounce: Duration,
    /// How often it is looked at without any event.
    pub rescan: Duration,
    /// For how long a file must be gone before its objects are.
    pub grace: Duration,
}

impl Default for FolderOptions {
    fn default() -> Self {
        Self {
            debounce: Duration::from_millis(200),
            rescan: Duration::from_secs(30),
            grace: Duration::from_secs(1),
        }
    }
}

/// The folder cannot be used at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("config folder {}: {problem}", path.display())]
pub struct FolderError {
    /// The folder.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: String,
}

/// A watched folder. It is watched until this is dropped.
pub struct FolderSource {
    reader: SharedReader,
    task: JoinHandle<()>,
}

impl FolderSource {
    /// Reads the folder once and goes on watching it. `first_seen` are the moments that earlier runs noted for
    /// objects without a creation time; `None` where nobody will note them, and such objects are refused.
    ///
    /// # Errors
    /// When the folder cannot be read now. Later that is an event.
    pub async fn start(
        dir: &Path,
        options: FolderOptions,
        defaults: Defaults,
        first_seen: Option<BTreeMap<ConfigName, Timestamp>>,
        clock: Arc<dyn Clock>,
    ) -> Result<(Self, SourceEvents), FolderError> {
        let reader = SharedReader::new(dir, options.grace);
        // Watched before it is read: a change in between is an event then.
        let watch = watch::Watch::start(dir).await;
        let scan = reader.scan().await.map_err(|problem| FolderError { path: dir.to_owned(), problem })?;
        let (sender, events) = channel();
        let follower = Follower {
            reader: reader.clone(),
            catalog: Catalog::new(dir.to_owned(), defaults, first_seen),
            options,
            clock,
            sender,
        };
        let task = tokio::spawn(follower.run(watch, scan));
        Ok((Self { reader, task }, events))
    }

    /// The Secrets in the folder.
    pub fn secrets(&self) -> FolderSecrets {
        FolderSecrets(self.reader.clone())
    }
}

impl Drop for FolderSource {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Turns looks into events.
struct Follower {
    reader: SharedReader,
    catalog: Catalog,
    options: FolderOptions,
    clock: Arc<dyn Clock>,
    sender: SourceSender,
}

impl Follower {
    async fn run(mut self, mut watch: watch::Watch, first: Scan) {
        let mut needs_second_look = self.tell(Ok(first));
        loop {
            let patience = match needs_second_look {
                // A little more than the grace, so that it is over by then.
                true => self.options.grace + Duration::from_millis(20),
                false => self.options.rescan,
            };
            watch.wait(self.options.debounce, patience).await;
            watch.renew().await;
            let scan = self.reader.scan().await;
            if scan.is_err() {
                watch.lose();
            }
            needs_second_look = self.tell(scan);
        }
    }

    fn tell(&mut self, scan: Result<Scan, String>) -> bool {
        let needs_second_look = scan.as_ref().is_ok_and(|scan| scan.needs_second_look);
        for event in self.catalog.update(scan, self.clock.now()) {
            self.sender.send(event);
        }
        needs_second_look
    }
}

/// The reader, shared by the follower and the Secrets, so that a file is parsed once.
#[derive(Clone)]
struct SharedReader {
    reader: Arc<tokio::sync::Mutex<FolderReader>>,
    /// What the last good look saw: readable also while another look hangs.
    last: Arc<Mutex<Scan>>,
}

impl SharedReader {
    fn new(dir: &Path, grace: Duration) -> Self {
        let reader = FolderReader::new(dir.to_owned(), grace);
        Self { reader: Arc::new(tokio::sync::Mutex::new(reader)), last: Arc::default() }
    }

    /// No look begins before another has ended, also one that hangs.
    async fn scan(&self) -> Result<Scan, String> {
        let looked = tokio::time::timeout(DEADLINE, self.look()).await;
        let scan = looked.unwrap_or_else(|_| {
            Err(format!("could not be read within {}s, its file system hangs", DEADLINE.as_secs()))
        })?;
        *self.last() = scan.clone();
        Ok(scan)
    }

    async fn look(&self) -> Result<Scan, String> {
        let mut reader = Arc::clone(&self.reader).lock_owned().await;
        off_runtime::run(move || reader.scan()).await?
    }

    fn last(&self) -> MutexGuard<'_, Scan> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The Secret of that name as it stands in the folder now; while the folder cannot be read, as it last did.
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<SecretData>, String> {
        let scanned = self.scan().await;
        let found = self.last().secret(namespace, name).cloned();
        match (found, scanned) {
            (Some(data), _) => Ok(Some(data)),
            (None, Ok(_)) => Ok(None),
            (None, Err(problem)) => Err(problem),
        }
    }
}

/// The Secrets in a folder. Each look is a new one; while the folder cannot be read, the last good copy serves.
#[derive(Clone)]
pub struct FolderSecrets(SharedReader);

impl SecretSource for FolderSecrets {
    fn get(&self, namespace: &str, name: &str) -> BoxFuture<'_, Result<Option<SecretData>, SecretError>> {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Box::pin(async move {
            let found = self.0.secret(&namespace, &name).await;
            found.map_err(|problem| SecretError {
                namespace,
                name,
                problem: format!("the config folder {problem}"),
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::*;

    #[tokio::test]
    async fn a_look_that_hangs_is_given_up_and_the_last_secret_serves() {
        let dir = tempfile::tempdir().unwrap();
        let text = "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {k: v}\n";
        std::fs::write(dir.path().join("s.yaml"), text).unwrap();
        let reader = SharedReader::new(dir.path(), Duration::ZERO);
        reader.scan().await.unwrap();
        let hanging = reader.reader.lock().await;
        tokio::time::pause();
        let expect = "could not be read within 10s, its file system hangs";
        assert_eq!(reader.scan().await.unwrap_err(), expect);
        let data = reader.secret("default", "s").await.unwrap().unwrap();
        assert_eq!(data.text("k").unwrap().expose_secret(), "v");
        assert_eq!(reader.secret("default", "other").await.unwrap_err(), expect);
        tokio::time::resume();
        drop(hanging);
        assert!(reader.secret("default", "other").await.unwrap().is_none());
    }
}
