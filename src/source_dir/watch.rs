//! The kernel's notice that something in the folder may have changed.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout, timeout_at};

use super::off_runtime::{self, DEADLINE};

/// How often to look where the kernel gives no notice.
const UNWATCHED_RESCAN: Duration = Duration::from_secs(5);

/// A folder that never gets quiet is looked at after so many times the quiet that was asked for.
const MAX_DEBOUNCES: u32 = 10;

/// Notices of changes in one folder.
pub(crate) struct Watch {
    /// Absolute.
    dir: PathBuf,
    watcher: Option<Arc<Mutex<RecommendedWatcher>>>,
    is_watching: bool,
    /// The folder was moved or removed: what is watched is no longer what stands at its path.
    is_stale: Arc<AtomicBool>,
    changed: mpsc::Receiver<()>,
    /// Keeps `changed` open where there is no watcher.
    _sender: mpsc::Sender<()>,
}

impl Watch {
    pub(crate) async fn start(dir: &Path) -> Self {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        // One notice says all there is to say.
        let (sender, changed) = mpsc::channel(1);
        let is_stale = Arc::new(AtomicBool::new(false));
        let watcher = new_watcher(&dir, sender.clone(), is_stale.clone());
        if let Err(error) = &watcher {
            tracing::warn!(dir = %dir.display(), %error, "the folder cannot be watched, it is looked at every 5s instead");
        }
        let mut watch = Self {
            dir,
            watcher: watcher.ok().map(|watcher| Arc::new(Mutex::new(watcher))),
            is_watching: false,
            is_stale,
            changed,
            _sender: sender,
        };
        watch.watch_place().await;
        watch.renew().await;
        watch
    }

    /// Watches the folder that holds ours: another one may take its place, or a link may be turned. Where that
    /// cannot be watched, the rescan sees it.
    async fn watch_place(&self) {
        if let Some(parent) = self.dir.parent().map(Path::to_owned) {
            self.with_watcher(move |watcher| watcher.watch(&parent, RecursiveMode::NonRecursive).is_ok())
                .await;
        }
    }

    /// Lets `act` ask the watcher for something, which looks paths up and so may hang. False when it failed, or
    /// an earlier call still hangs.
    async fn with_watcher(&self, act: impl FnOnce(&mut RecommendedWatcher) -> bool + Send + 'static) -> bool {
        let Some(watcher) = self.watcher.clone() else { return false };
        let call = off_runtime::run(move || watcher.try_lock().is_ok_and(|mut watcher| act(&mut watcher)));
        matches!(timeout(DEADLINE, call).await, Ok(Ok(true)))
    }

    /// Waits for a change and then for quiet, but never longer than `patience` for a change.
    pub(crate) async fn wait(&mut self, debounce: Duration, patience: Duration) {
        let patience = match self.is_watching {
            true => patience,
            false => patience.min(UNWATCHED_RESCAN),
        };
        if timeout_at(Instant::now() + patience, self.changed.recv()).await.is_err() {
            // Nothing was heard for long: the path may lead to another folder by now.
            self.is_stale.store(true, Ordering::Relaxed);
            return;
        }
        let latest = Instant::now() + debounce * MAX_DEBOUNCES;
        while timeout_at(latest.min(Instant::now() + debounce), self.changed.recv()).await.is_ok() {
            if Instant::now() >= latest {
                return;
            }
        }
    }

    /// Watches what stands at the path now, if that may be something else than before. What happens between
    /// this and the next look is an event again.
    pub(crate) async fn renew(&mut self) {
        let was_stale = self.is_stale.swap(false, Ordering::Relaxed);
        if self.is_watching && !was_stale {
            return;
        }
        let dir = self.dir.clone();
        let renew = move |watcher: &mut RecommendedWatcher| {
            // Fails when it was never watched, or the kernel has dropped it already.
            let _ = watcher.unwatch(&dir);
            watcher.watch(&dir, RecursiveMode::NonRecursive).is_ok()
        };
        self.is_watching = self.with_watcher(renew).await;
    }

    /// The folder could not be read: watch it anew as soon as it is back.
    pub(super) fn lose(&mut self) {
        self.is_watching = false;
    }
}

fn new_watcher(
    dir: &Path,
    sender: mpsc::Sender<()>,
    is_stale: Arc<AtomicBool>,
) -> notify::Result<RecommendedWatcher> {
    let dir = dir.to_owned();
    notify::recommended_watcher(move |event: notify::Result<Event>| {
        // An error says that events were lost: look.
        let event = event.unwrap_or_else(|_| Event::new(EventKind::Any));
        if is_own_reading(event.kind) {
            return;
        }
        if event.paths.contains(&dir) {
            is_stale.store(true, Ordering::Relaxed);
        } else if !event.paths.is_empty() && !event.paths.iter().any(|path| path.starts_with(&dir)) {
            // A neighbour of the folder.
            return;
        }
        // Full: a notice is waiting already.
        let _ = sender.try_send(());
    })
}

/// Looking at the folder opens and closes its files: taken as a change, each look would cause the next.
fn is_own_reading(kind: EventKind) -> bool {
    match kind {
        EventKind::Access(access) => access != AccessKind::Close(AccessMode::Write),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether a notice came before the time was up.
    async fn is_noticed(watch: &mut Watch) -> bool {
        watch.is_stale.store(false, Ordering::Relaxed);
        watch.wait(Duration::from_millis(5), Duration::from_millis(200)).await;
        !watch.is_stale.load(Ordering::Relaxed)
    }

    #[tokio::test]
    async fn looking_at_the_folder_is_no_change_of_it() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.yaml");
        std::fs::write(&file, "a").unwrap();
        let mut watch = Watch::start(dir.path()).await;
        for _ in 0..3 {
            let listed = std::fs::read_dir(dir.path()).unwrap().count();
            let text = std::fs::read_to_string(&file).unwrap();
            assert_eq!((listed, text.as_str()), (1, "a"));
        }
        assert!(!is_noticed(&mut watch).await);
        std::fs::write(&file, "b").unwrap();
        assert!(is_noticed(&mut watch).await);
    }

    #[tokio::test]
    async fn a_watcher_that_hangs_holds_up_nobody_and_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut watch = Watch::start(dir.path()).await;
        assert!(watch.is_watching);
        let watcher = watch.watcher.clone().unwrap();
        let (hangs, begun) = tokio::sync::oneshot::channel();
        let (release, released) = std::sync::mpsc::channel::<()>();
        let hanging = std::thread::spawn(move || {
            let _guard = watcher.lock().unwrap();
            hangs.send(()).unwrap();
            released.recv().unwrap();
        });
        begun.await.unwrap();
        watch.lose();
        watch.renew().await;
        assert!(!watch.is_watching, "it is looked at more often instead");
        release.send(()).unwrap();
        hanging.join().unwrap();
        watch.renew().await;
        assert!(watch.is_watching);
        std::fs::write(dir.path().join("a.yaml"), "a").unwrap();
        assert!(is_noticed(&mut watch).await);
    }
}
