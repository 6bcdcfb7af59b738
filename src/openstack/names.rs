//! Servers' names and metadata, read rarely. A Nova that fails leaves the last known names in use.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use multinic_actors::domain::ids::VmId;
use multinic_actors::domain::port::Server;
use reqwest::Url;
use tokio::time::Instant;

use super::api::Api;
use super::nova::{self, Looked};
use super::subnets::Freshness;

/// How long a 404 is kept: a server that Nova does not know yet is looked for again soon.
const KEEP_NOT_FOUND: Duration = Duration::from_secs(60);
/// After a failure, known names are not refreshed for this time: a hanging Nova must not slow down every
/// round that needs nothing from it.
const RETRY_KNOWN: Duration = Duration::from_secs(60);
/// A name that no config asked for in this time is forgotten.
const FORGET_AFTER: Duration = Duration::from_secs(3600);

/// The names of one project's servers, as one endpoint has them.
#[derive(Debug, Default)]
pub(super) struct Names {
    known: Mutex<HashMap<VmId, Known>>,
    refresh: tokio::sync::Mutex<Refresh>,
    landings: AtomicU64,
}

#[derive(Debug)]
struct Known {
    server: Server,
    read: Instant,
    used: Instant,
}

#[derive(Debug, Default)]
struct Refresh {
    /// The last refresh failed: when, and why.
    failed: Option<(Instant, String)>,
    /// How many pages the last list took.
    pages: usize,
}

impl Names {
    /// What Nova says of each of `vms`.
    pub(super) async fn servers(
        &self,
        api: &Api<'_>,
        root: &Url,
        vms: &[VmId],
        freshness: Freshness,
    ) -> BTreeMap<VmId, Server> {
        let failure = if self.stale(vms, freshness).is_empty() {
            None
        } else {
            self.refresh(api, root, vms, freshness).await
        };
        let now = Instant::now();
        let mut known = self.lock();
        let mut answer = |vm: &VmId| match known.get_mut(vm) {
            Some(entry) => {
                entry.used = now;
                entry.server.clone()
            }
            None => Server::Unknown(failure.clone().unwrap_or_else(|| "nova: no answer for it".to_owned())),
        };
        vms.iter().map(|vm| (vm.clone(), answer(vm))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<VmId, Known>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stale(&self, vms: &[VmId], freshness: Freshness) -> Vec<VmId> {
        let known = self.lock();
        let is_stale = |vm: &&VmId| match known.get(*vm) {
            None => true,
            Some(Known { server: Server::NotFound, read, .. }) => {
                !freshness.is_fresh(*read) || read.elapsed() >= KEEP_NOT_FOUND
            }
            Some(Known { read, .. }) => !freshness.is_fresh(*read),
        };
        vms.iter().filter(is_stale).cloned().collect()
    }

    fn has_names_of(&self, vms: &[VmId]) -> bool {
        let known = self.lock();
        let is_named = |vm: &VmId| known.get(vm).is_some_and(|entry| entry.server != Server::NotFound);
        vms.iter().all(is_named)
    }

    /// Reads what is stale, one refresh at a time. Gives what went wrong, if something did.
    async fn refresh(&self, api: &Api<'_>, root: &Url, vms: &[VmId], freshness: Freshness) -> Option<String> {
        let seen = self.landings.load(Ordering::Acquire);
        let mut refresh = self.refresh.lock().await;
        let waited = self.landings.load(Ordering::Acquire) != seen;
        let stale = self.stale(vms, freshness);
        if stale.is_empty() {
            return None;
        }
        if let Some((at, problem)) = &refresh.failed {
            let is_recent = at.elapsed() < RETRY_KNOWN && freshness.not_before.is_none();
            if waited || (is_recent && self.has_names_of(&stale)) {
                return Some(problem.clone());
            }
        }
        let looked = nova::look_up(api, root, stale, refresh.pages).await;
        let failure = looked.failure.clone();
        tell_change(root, refresh.failed.is_some(), failure.as_deref());
        refresh.failed = failure.clone().map(|problem| (Instant::now(), problem));
        refresh.pages = looked.pages.unwrap_or(refresh.pages);
        self.take_over(looked);
        self.landings.fetch_add(1, Ordering::AcqRel);
        failure
    }

    fn take_over(&self, looked: Looked) {
        let now = Instant::now();
        let mut known = self.lock();
        for (vm, server) in looked.servers {
            let used = known.get(&vm).map_or(now, |entry| entry.used);
            known.insert(vm, Known { server, read: now, used });
        }
        known.retain(|_, entry| entry.used.elapsed() < FORGET_AFTER);
    }
}

/// While all names are known an outage shows nowhere else. One line when it begins and one when it is over.
fn tell_change(root: &Url, was_failing: bool, failure: Option<&str>) {
    match failure {
        Some(problem) if !was_failing => {
            tracing::warn!(nova = %root, "{problem}; the server names that are known stay in use");
        }
        None if was_failing => tracing::info!(nova = %root, "server names are read again"),
        _ => {}
    }
}
