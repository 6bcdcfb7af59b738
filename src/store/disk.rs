//! How the file is replaced: at every moment there is a whole file, the old one or the new one.
//!
//! Write and fsync a temporary file in the same folder, keep the old file under a second name, rename
//! the new one into place, fsync the folder. Everything here blocks.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

/// How many damaged files are kept: enough to look into, too few to fill a volume.
const DAMAGED_KEPT: usize = 5;

/// Records are small: few system calls for thousands of them.
const WRITE_BUFFER: usize = 256 * 1024;

/// One step of replacing the file, for error texts and for the tests that crash in each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    CreateTemporary,
    Write,
    SyncTemporary,
    LinkOld,
    KeepOld,
    Publish,
    SyncFolder,
}

impl Step {
    #[cfg(test)]
    pub(super) const ALL: [Self; 7] = [
        Self::CreateTemporary,
        Self::Write,
        Self::SyncTemporary,
        Self::LinkOld,
        Self::KeepOld,
        Self::Publish,
        Self::SyncFolder,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::CreateTemporary => "create a temporary file",
            Self::Write => "write",
            Self::SyncTemporary => "fsync",
            Self::LinkOld | Self::KeepOld => "keep the previous generation",
            Self::Publish => "rename into place",
            Self::SyncFolder => "fsync the folder",
        }
    }
}

/// A step that failed, and how.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", step.as_str())]
pub(super) struct StepError {
    step: Step,
    error: io::Error,
}

/// What became of the attempt to be the only one who writes.
#[derive(Debug)]
pub(super) enum Locking {
    /// It is ours as long as this handle lives.
    Held(File),
    /// Another process has it; what it wrote about itself.
    Busy(String),
    /// This file system has no locks.
    Unsupported,
}

/// The file and its companions in the same folder.
#[derive(Debug)]
pub(super) struct Disk {
    file: PathBuf,
    folder: PathBuf,
    #[cfg(test)]
    fault: Option<(Step, Fault)>,
}

/// What goes wrong at a step.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// The step is refused, as on a full disk.
    Refused,
    /// The process ends before the step: nothing after it happens, no tidying up either.
    Crash,
}

impl Disk {
    pub(super) fn new(path: &Path) -> Self {
        // A rename would replace a symbolic link by a file; what it points to is meant.
        let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = match file.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
            _ => PathBuf::from("."),
        };
        Self {
            file,
            folder,
            #[cfg(test)]
            fault: None,
        }
    }

    #[cfg(test)]
    pub(super) fn failing_at(mut self, step: Step, fault: Fault) -> Self {
        self.fault = Some((step, fault));
        self
    }

    #[cfg(test)]
    fn fail_at(&self, step: Step) -> io::Result<()> {
        match self.fault {
            Some((at, Fault::Refused)) if at == step => Err(ErrorKind::StorageFull.into()),
            Some((at, Fault::Crash)) if at == step => panic!("crash at {step:?}"),
            _ => Ok(()),
        }
    }

    pub(super) fn file(&self) -> &Path {
        &self.file
    }

    /// The generation before.
    pub(super) fn previous(&self) -> PathBuf {
        self.companion("prev")
    }

    fn companion(&self, suffix: &str) -> PathBuf {
        let mut name = self.name();
        name.push(".");
        name.push(suffix);
        self.folder.join(name)
    }

    fn name(&self) -> OsString {
        self.file.file_name().map_or_else(|| "inventory.json".into(), OsString::from)
    }

    fn temporary_prefix(&self) -> OsString {
        let mut prefix = OsString::from(".");
        prefix.push(self.name());
        prefix.push(".tmp-");
        prefix
    }

    /// A name that no other process and no other call uses.
    fn temporary(&self) -> PathBuf {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let mut name = self.temporary_prefix();
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        name.push(format!("{}-{n}", std::process::id()));
        self.folder.join(name)
    }

    pub(super) fn create_folder(&self) -> io::Result<()> {
        fs::create_dir_all(&self.folder)
    }

    /// Replaces the file by what `write` writes.
    pub(super) fn replace(
        &self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StepError> {
        let temporary = self.temporary();
        let result = self.write_temporary(&temporary, write).and_then(|()| {
            self.keep_old()?;
            self.step(Step::Publish, || fs::rename(&temporary, &self.file))
        });
        if result.is_err() {
            // What cannot be removed now is removed at the next load.
            let _ = fs::remove_file(&temporary);
        }
        result?;
        self.step(Step::SyncFolder, || self.sync_folder())
    }

    fn write_temporary(
        &self,
        path: &Path,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), StepError> {
        let file =
            self.step(Step::CreateTemporary, || OpenOptions::new().write(true).create_new(true).open(path))?;
        let mut out = BufWriter::with_capacity(WRITE_BUFFER, file);
        let failed = |error| StepError { step: Step::Write, error };
        write(&mut out).map_err(failed)?;
        self.step(Step::Write, || out.flush())?;
        self.step(Step::SyncTemporary, || out.get_ref().sync_all())
    }

    /// Gives the old file a second name, so that it stays whole whatever happens to the first.
    fn keep_old(&self) -> Result<(), StepError> {
        let link = self.temporary();
        let linked = self.step(Step::LinkOld, || match fs::hard_link(&self.file, &link) {
            Ok(()) => Ok(Some(true)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            // Not every file system has hard links.
            Err(_) => Ok(Some(false)),
        })?;
        let from = match linked {
            None => return Ok(()),
            Some(true) => &link,
            // Without links there is a moment with the second name only; `load` knows it.
            Some(false) => &self.file,
        };
        let kept = self.step(Step::KeepOld, || fs::rename(from, self.previous()));
        // If both names are one file already, the rename does nothing and leaves the link (POSIX).
        let _ = fs::remove_file(&link);
        kept
    }

    fn sync_folder(&self) -> io::Result<()> {
        match File::open(&self.folder)?.sync_all() {
            // Some network file systems cannot fsync a folder; the rename is then as durable as it gets.
            Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => Ok(()),
            result => result,
        }
    }

    /// Renames a damaged file, so that nothing overwrites it, and lets go of the oldest such files.
    pub(super) fn set_aside(&self, path: &Path, now: Timestamp) -> io::Result<PathBuf> {
        let stamp = now.strftime("%Y%m%dT%H%M%SZ");
        let mut target = self.companion(&format!("damaged-{stamp}"));
        let mut n = 0;
        while target.try_exists()? {
            n += 1;
            target = self.companion(&format!("damaged-{stamp}-{n}"));
        }
        fs::rename(path, &target)?;
        self.remove_old_damaged();
        Ok(target)
    }

    fn remove_old_damaged(&self) {
        let mut prefix = self.name();
        prefix.push(".damaged-");
        let mut found = self.companions(&prefix);
        found.sort();
        let surplus = found.len().saturating_sub(DAMAGED_KEPT);
        for path in &found[..surplus] {
            let _ = fs::remove_file(path);
        }
    }

    /// Removes what a process that died while it wrote has left.
    pub(super) fn remove_leftovers(&self) {
        for path in self.companions(&self.temporary_prefix()) {
            let _ = fs::remove_file(path);
        }
    }

    fn companions(&self, prefix: &OsString) -> Vec<PathBuf> {
        let starts = |name: &OsString| name.as_encoded_bytes().starts_with(prefix.as_encoded_bytes());
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter(|entry| starts(&entry.file_name())).map(|entry| entry.path()).collect()
    }

    /// Takes the advisory lock. It goes with the handle, so also with the process.
    pub(super) fn lock(&self) -> io::Result<Locking> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.companion("lock"))?;
        match file.try_lock() {
            Ok(()) => {
                // For the message that the other process shows; it works without.
                let _ = file.set_len(0);
                let _ = write!(file, "process {} on {}", std::process::id(), host_name());
                Ok(Locking::Held(file))
            }
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                let _ = file.take(200).read_to_string(&mut holder);
                Ok(Locking::Busy(holder))
            }
            Err(TryLockError::Error(_)) => Ok(Locking::Unsupported),
        }
    }

    fn step<T>(&self, step: Step, act: impl FnOnce() -> io::Result<T>) -> Result<T, StepError> {
        #[cfg(test)]
        let act = || self.fail_at(step).and_then(|()| act());
        act().map_err(|error| StepError { step, error })
    }
}

fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname")
        .map_or_else(|_| "this host".to_owned(), |name| name.trim().to_owned())
}
