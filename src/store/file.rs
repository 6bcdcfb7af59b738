//! The JSON file as a [`Store`].

use std::fmt;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jiff::Timestamp;
use multinic_actors::boundary::{BoxFuture, Loaded, Saved, Store, StoreError};
use multinic_actors::domain::inventory::Snapshot;

use super::disk::{Disk, Locking};
use super::format;

/// The inventory in a JSON file, written whole at each save. One process at a time.
///
/// A damaged file is set aside as `<file>.damaged-<time>` and the generation before
/// (`<file>.prev`) is used. A file that cannot be read is never overwritten.
pub struct JsonFileStore {
    inner: Arc<Inner>,
    saves: AtomicU64,
}

struct Inner {
    disk: Disk,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_loaded: bool,
    lock: Lock,
    obstacle: Option<Obstacle>,
    /// The newest save that is in the file: an older one that comes late has nothing to add.
    written: u64,
}

/// Whether nobody else writes.
#[derive(Default)]
enum Lock {
    /// Not asked yet, or the lock file could not be opened.
    #[default]
    Open,
    /// Ours for as long as the handle lives.
    Held { _file: File },
    /// The file system has no locks.
    Unsupported,
}

/// Why the file must not be replaced.
enum Obstacle {
    /// It could not be read, so what it holds is not known.
    Unreadable(String),
    /// It is damaged and could not be set aside.
    Damaged,
}

/// What a file turned out to be.
enum Reading {
    Missing,
    Unreadable(std::io::Error),
    Damaged(format::FormatError),
    Whole(Loaded),
}

fn read_one(path: &Path) -> Reading {
    match read_regular(path) {
        // Below something that is no folder there is no file either.
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Reading::Missing
        }
        Err(error) => Reading::Unreadable(error),
        Ok(bytes) => match format::decode(&bytes) {
            Ok(loaded) => Reading::Whole(loaded),
            Err(error) => Reading::Damaged(error),
        },
    }
}

/// A device must not be renamed as if it were a damaged file, and a pipe would be waited for.
fn read_regular(path: &Path) -> std::io::Result<Vec<u8>> {
    if !fs::metadata(path)?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    fs::read(path)
}

/// Reads an inventory file without touching anything: no lock, nothing set aside. Blocks.
///
/// # Errors
/// When it is not there, cannot be read, or is no inventory.
pub fn read(path: &Path) -> Result<Loaded, StoreError> {
    let problem = match read_one(path) {
        Reading::Whole(loaded) => return Ok(loaded),
        Reading::Missing => "there is no such file".to_owned(),
        Reading::Unreadable(error) => error.to_string(),
        Reading::Damaged(error) => error.to_string(),
    };
    Err(StoreError(format!("{}: {problem}", path.display())))
}

/// Where the generation before the inventory file `path` is kept.
pub fn previous_of(path: &Path) -> PathBuf {
    Disk::new(path).previous()
}

impl JsonFileStore {
    /// A store in the file `path`. Nothing is opened before [`Store::load`].
    pub fn new(path: impl AsRef<Path>) -> Self {
        Self::on(Disk::new(path.as_ref()))
    }

    fn on(disk: Disk) -> Self {
        Self { inner: Arc::new(Inner { disk, state: Mutex::default() }), saves: AtomicU64::new(0) }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.inner.disk.file()
    }
}

impl fmt::Debug for JsonFileStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("JsonFileStore").field("path", &self.path()).finish_non_exhaustive()
    }
}

impl Store for JsonFileStore {
    fn load(&self) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(blocking(move || inner.load()))
    }

    fn save(&self, snapshot: Arc<Snapshot>) -> BoxFuture<'_, Result<Saved, StoreError>> {
        let inner = Arc::clone(&self.inner);
        let number = self.saves.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(blocking(move || inner.save(number, &snapshot).map(|()| Saved::Everywhere)))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError(format!("the file task ended early: {error}"))))
}

impl Inner {
    fn load(&self) -> Result<Loaded, StoreError> {
        // A crash while the file was replaced leaves nothing half done in `State`.
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.load_with(&mut state)
    }

    fn load_with(&self, state: &mut State) -> Result<Loaded, StoreError> {
        let mut warnings = Vec::new();
        if let Err(error) = self.disk.create_folder() {
            warnings.push(self.text(format_args!("the folder cannot be created: {error}")));
        }
        match self.take_lock(state) {
            Ok(()) => self.disk.remove_leftovers(),
            Err(LockProblem::Busy(error)) => return Err(error),
            Err(LockProblem::NoFile(error)) => warnings.push(error.0),
        }
        if matches!(state.lock, Lock::Unsupported) {
            warnings
                .push(self.text("this file system has no locks: see that no second process uses the file"));
        }
        state.is_loaded = true;
        state.obstacle = None;
        let snapshot = self.read_generations(state, &mut warnings)?;
        Ok(Loaded { snapshot, warnings })
    }

    /// # Errors
    /// When the file holds something that cannot be read now: to go on without it could rename interfaces.
    fn read_generations(
        &self,
        state: &mut State,
        warnings: &mut Vec<String>,
    ) -> Result<Snapshot, StoreError> {
        let file = self.disk.file();
        match read_one(file) {
            Reading::Whole(loaded) => {
                warnings.extend(loaded.warnings.iter().map(|warning| self.text(warning)));
                return Ok(loaded.snapshot);
            }
            Reading::Missing => {}
            Reading::Unreadable(error) => {
                state.obstacle = Some(Obstacle::Unreadable(error.to_string()));
                let problem =
                    format_args!("it is there and cannot be read: {error}; see to its owner and mode");
                return Err(StoreError(self.text(problem)));
            }
            Reading::Damaged(error @ format::FormatError::Newer(_)) => {
                state.obstacle = Some(Obstacle::Unreadable(error.to_string()));
                let problem =
                    format_args!("{error}; run that version, or move the file away to start with nothing");
                return Err(StoreError(self.text(problem)));
            }
            Reading::Damaged(error) => {
                if !self.set_aside(file, &error, warnings) {
                    state.obstacle = Some(Obstacle::Damaged);
                }
            }
        }
        Ok(self.read_previous(warnings))
    }

    fn read_previous(&self, warnings: &mut Vec<String>) -> Snapshot {
        let previous = self.disk.previous();
        match read_one(&previous) {
            Reading::Missing => {}
            Reading::Whole(loaded) => {
                warnings.push(self.text("the previous generation is used"));
                warnings.extend(loaded.warnings);
                return loaded.snapshot;
            }
            Reading::Unreadable(error) => {
                warnings.push(self.text(format_args!("the previous generation cannot be read: {error}")));
            }
            Reading::Damaged(error) => {
                self.set_aside(&previous, &error, warnings);
            }
        }
        if !warnings.is_empty() {
            warnings.push(self.text("it starts empty"));
        }
        Snapshot::default()
    }

    /// Sets a damaged file aside and says so; whether that worked.
    fn set_aside(&self, path: &Path, problem: &format::FormatError, warnings: &mut Vec<String>) -> bool {
        let name = path.file_name().map(PathBuf::from).unwrap_or_default();
        let name = name.display();
        let (text, is_aside) = match self.disk.set_aside(path, Timestamp::now()) {
            Ok(kept) => (format!("{name} is damaged ({problem}), kept as {}", kept.display()), true),
            Err(error) => (format!("{name} is damaged ({problem}) and cannot be set aside: {error}"), false),
        };
        warnings.push(self.text(text));
        is_aside
    }

    fn save(&self, number: u64, snapshot: &Snapshot) -> Result<(), StoreError> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if number <= state.written {
            return Ok(());
        }
        if !state.is_loaded {
            // What is there must be known to be whole before it becomes the previous generation.
            self.load_with(&mut state)?;
        }
        self.take_lock(&mut state).map_err(LockProblem::into_error)?;
        self.clear_obstacle(&mut state)?;
        self.disk
            .replace(|out| format::encode(snapshot, out))
            .map_err(|error| StoreError(self.text(error)))?;
        state.written = number;
        Ok(())
    }

    fn clear_obstacle(&self, state: &mut State) -> Result<(), StoreError> {
        let file = self.disk.file();
        let problem = match &state.obstacle {
            None => return Ok(()),
            Some(_) if !file.try_exists().unwrap_or(true) => None,
            Some(Obstacle::Unreadable(error)) => Some(format!(
                "it could not be read at the start ({error}) and is not overwritten: mend that, then restart"
            )),
            Some(Obstacle::Damaged) => self
                .disk
                .set_aside(file, Timestamp::now())
                .err()
                .map(|error| format!("it is damaged and cannot be set aside: {error}")),
        };
        if let Some(problem) = problem {
            return Err(StoreError(self.text(problem)));
        }
        state.obstacle = None;
        Ok(())
    }

    fn take_lock(&self, state: &mut State) -> Result<(), LockProblem> {
        if !matches!(state.lock, Lock::Open) {
            return Ok(());
        }
        // It may have been impossible at the start: a volume that comes late, a name that was taken.
        let _ = self.disk.create_folder();
        state.lock = match self.disk.lock() {
            Ok(Locking::Held(file)) => Lock::Held { _file: file },
            Ok(Locking::Unsupported) => Lock::Unsupported,
            Ok(Locking::Busy(holder)) => {
                let text = format!("another process uses it ({holder}); only one may");
                return Err(LockProblem::Busy(StoreError(self.text(text))));
            }
            Err(error) => {
                let text = format!("its lock file cannot be opened, nothing can be saved: {error}");
                return Err(LockProblem::NoFile(StoreError(self.text(text))));
            }
        };
        Ok(())
    }

    fn text(&self, problem: impl fmt::Display) -> String {
        format!("{}: {problem}", self.disk.file().display())
    }
}

enum LockProblem {
    Busy(StoreError),
    NoFile(StoreError),
}

impl LockProblem {
    fn into_error(self) -> StoreError {
        match self {
            Self::Busy(error) | Self::NoFile(error) => error,
        }
    }
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
