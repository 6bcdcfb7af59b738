use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::FutureExt as _;

use super::lock;
use super::script::{Script, defect};
use crate::boundary::{BoxFuture, Loaded, Saved, Store, StoreError};
use crate::domain::ids::{ConfigName, VmId};
use crate::domain::inventory::{Held, Snapshot};

/// A store in memory whose content outlives the tree. Clones are one store.
#[derive(Clone, Default)]
pub struct FakeStore(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    content: Snapshot,
    /// What it held before the last write.
    previous: Snapshot,
    keeps_nothing: bool,
    loads: usize,
    saves: usize,
    load: Script<Trouble>,
    save: Script<Trouble>,
    /// What a second store says to every write.
    second: Option<String>,
}

#[derive(Clone, Debug)]
enum Trouble {
    Fails(String),
    Hangs,
    Panics,
}

impl FakeStore {
    /// Puts `content` in, as if an earlier run had left it.
    pub fn holds(&self, content: Snapshot) {
        lock(&self.0).content = content;
    }

    /// What is kept durably.
    pub fn content(&self) -> Snapshot {
        lock(&self.0).content.clone()
    }

    /// The last write was damaged: what it held before that one is what is found.
    pub fn loses_the_last_write(&self) {
        let mut inner = lock(&self.0);
        inner.content = inner.previous.clone();
    }

    /// Which indices of a VM are kept durably.
    pub fn allocations(&self, config: &ConfigName, vm: &VmId) -> Vec<Held> {
        let state = lock(&self.0).content.configs.get(config).cloned();
        state.and_then(|state| state.allocations.get(vm).cloned()).unwrap_or_default()
    }

    /// Takes every write and keeps none, as the store of a disabled inventory.
    pub fn keeps_nothing(&self) {
        lock(&self.0).keeps_nothing = true;
    }

    /// How often it was read.
    pub fn loads(&self) -> usize {
        lock(&self.0).loads
    }

    /// How many writes succeeded.
    pub fn saves(&self) -> usize {
        lock(&self.0).saves
    }

    /// Every read fails, until [`Self::heals`].
    pub fn loads_fail(&self, problem: &str) {
        lock(&self.0).load.stand(Trouble::Fails(problem.to_owned()));
    }

    /// The next `times` reads fail.
    pub fn next_loads_fail(&self, times: usize, problem: &str) {
        lock(&self.0).load.push(times, Trouble::Fails(problem.to_owned()));
    }

    /// The next `times` writes fail.
    pub fn next_saves_fail(&self, times: usize, problem: &str) {
        lock(&self.0).save.push(times, Trouble::Fails(problem.to_owned()));
    }

    /// Every write fails, until [`Self::heals`].
    pub fn saves_fail(&self, problem: &str) {
        lock(&self.0).save.stand(Trouble::Fails(problem.to_owned()));
    }

    /// Every write is kept here, but not by a second store, until [`Self::heals`].
    pub fn saves_in_part(&self, problem: &str) {
        lock(&self.0).second = Some(problem.to_owned());
    }

    /// Every write takes this long.
    pub fn saves_take(&self, time: Duration) {
        lock(&self.0).save.takes = time;
    }

    /// The next write never ends.
    pub fn next_save_hangs(&self) {
        lock(&self.0).save.push(1, Trouble::Hangs);
    }

    /// The next write panics.
    pub fn next_save_panics(&self) {
        lock(&self.0).save.push(1, Trouble::Panics);
    }

    /// Everything works again, at once.
    pub fn heals(&self) {
        let mut inner = lock(&self.0);
        inner.load.heal();
        inner.save.heal();
        inner.second = None;
    }
}

async fn suffer(takes: Duration, trouble: Option<Trouble>) -> Result<(), StoreError> {
    tokio::time::sleep(takes).await;
    match trouble {
        None => Ok(()),
        Some(Trouble::Fails(problem)) => Err(StoreError(problem)),
        Some(Trouble::Hangs) => std::future::pending().await,
        Some(Trouble::Panics) => defect(),
    }
}

impl Store for FakeStore {
    fn load(&self) -> BoxFuture<'_, Result<Loaded, StoreError>> {
        let (takes, trouble) = {
            let mut inner = lock(&self.0);
            inner.loads += 1;
            inner.load.take()
        };
        async move {
            suffer(takes, trouble).await?;
            Ok(Loaded { snapshot: self.content(), warnings: Vec::new() })
        }
        .boxed()
    }

    fn save(&self, snapshot: Arc<Snapshot>) -> BoxFuture<'_, Result<Saved, StoreError>> {
        let (takes, trouble) = lock(&self.0).save.take();
        async move {
            suffer(takes, trouble).await?;
            let mut inner = lock(&self.0);
            if !inner.keeps_nothing {
                inner.previous = std::mem::replace(&mut inner.content, Snapshot::clone(&snapshot));
            }
            inner.saves += 1;
            Ok(inner.second.clone().map_or(Saved::Everywhere, Saved::InPart))
        }
        .boxed()
    }
}
