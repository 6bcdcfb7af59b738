//! What a source of objects tells, and the mailbox it tells it through.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;
use multinic_actors::domain::config::Declared;
use multinic_actors::domain::ids::{ConfigId, ConfigName};
use tokio::sync::Notify;

/// What a source of objects tells. Each event holds the whole state of what it is about.
#[derive(Clone, Debug)]
pub enum SourceEvent {
    /// An object is there, or has changed.
    Apply(Declared),
    /// An object is gone.
    Delete(ConfigId),
    /// An object is not told of any more and may be there still, in somebody else's hands.
    LetGo(ConfigId),
    /// Every object that was there at the start has been told.
    Synced,
    /// An object without a creation time was seen for the first time; that moment counts as its creation and
    /// must be remembered. Comes before the object itself.
    FirstSeen {
        /// The object.
        name: ConfigName,
        /// The moment, a whole second.
        at: Timestamp,
    },
    /// A file, or the folder itself, cannot be used as it is; the last good version of its objects goes on.
    FileProblem {
        /// The file or folder.
        path: PathBuf,
        /// What is wrong and what to do.
        problem: String,
    },
    /// Nothing is wrong with it any more.
    FileRecovered {
        /// The file or folder.
        path: PathBuf,
    },
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Key {
    Object(ConfigId),
    FirstSeen(ConfigName),
    Path(PathBuf),
    Synced,
}

impl SourceEvent {
    fn key(&self) -> Key {
        match self {
            Self::Apply(declared) => Key::Object(declared.id().clone()),
            Self::Delete(id) | Self::LetGo(id) => Key::Object(id.clone()),
            Self::FirstSeen { name, .. } => Key::FirstSeen(name.clone()),
            Self::FileProblem { path, .. } | Self::FileRecovered { path } => Key::Path(path.clone()),
            Self::Synced => Key::Synced,
        }
    }
}

/// A mailbox in which a newer event takes the place of an older one about the same thing. So however slow the
/// reader is, it holds no more than one event per object and file.
pub fn channel() -> (SourceSender, SourceEvents) {
    let shared = Arc::new(Shared::default());
    (SourceSender(shared.clone()), SourceEvents(shared))
}

#[derive(Default)]
struct Shared {
    pending: Mutex<Pending>,
    changed: Notify,
}

#[derive(Default)]
struct Pending {
    events: BTreeMap<u64, SourceEvent>,
    places: HashMap<Key, u64>,
    next: u64,
    is_closed: bool,
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The writing end.
pub struct SourceSender(Arc<Shared>);

impl SourceSender {
    /// Never waits.
    pub fn send(&self, event: SourceEvent) {
        let mut pending = self.0.pending();
        let next = pending.next;
        // It keeps the place of the event it replaces: one that came before `Synced` still does.
        let place = *pending.places.entry(event.key()).or_insert(next);
        pending.events.insert(place, event);
        pending.next += 1;
        drop(pending);
        self.0.changed.notify_one();
    }
}

impl Drop for SourceSender {
    fn drop(&mut self) {
        self.0.pending().is_closed = true;
        self.0.changed.notify_one();
    }
}

/// The reading end.
pub struct SourceEvents(Arc<Shared>);

impl SourceEvents {
    /// The next event; `None` when the source has ended. Nothing is lost when the future is dropped.
    pub async fn recv(&mut self) -> Option<SourceEvent> {
        loop {
            let changed = self.0.changed.notified();
            {
                let mut pending = self.0.pending();
                if let Some((_, event)) = pending.events.pop_first() {
                    pending.places.remove(&event.key());
                    return Some(event);
                }
                if pending.is_closed {
                    return None;
                }
            }
            changed.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(uid: &str) -> ConfigId {
        ConfigId::new("n", "a", uid)
    }

    fn problem(text: &str) -> SourceEvent {
        let (path, problem) = ("f".into(), text.into());
        SourceEvent::FileProblem { path, problem }
    }

    async fn drain(mut events: SourceEvents) -> Vec<String> {
        let mut all = Vec::new();
        while let Some(event) = events.recv().await {
            all.push(format!("{event:?}"));
        }
        all
    }

    #[tokio::test]
    async fn a_slow_reader_gets_the_newest_state_once_and_in_its_old_place() {
        let (sender, events) = channel();
        sender.send(problem("old"));
        sender.send(SourceEvent::Delete(id("1")));
        sender.send(SourceEvent::Synced);
        for _ in 0..1000 {
            sender.send(SourceEvent::Delete(id("2")));
            sender.send(problem("new"));
        }
        drop(sender);
        let expect =
            [problem("new"), SourceEvent::Delete(id("1")), SourceEvent::Synced, SourceEvent::Delete(id("2"))];
        assert_eq!(drain(events).await, expect.map(|event| format!("{event:?}")));
    }

    #[tokio::test]
    async fn a_waiting_reader_is_woken_by_an_event_and_by_the_end() {
        let (sender, mut events) = channel();
        let reader =
            tokio::spawn(async move { (events.recv().await.is_some(), events.recv().await.is_none()) });
        tokio::task::yield_now().await;
        sender.send(SourceEvent::Synced);
        tokio::task::yield_now().await;
        drop(sender);
        assert_eq!(reader.await.unwrap(), (true, true));
    }
}
