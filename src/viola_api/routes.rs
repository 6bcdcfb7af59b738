//! Where requests go now. The routing file is read again when it changes; while a new one is no good, the last
//! good one counts.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::routing::Routing;
use super::settings::Settings;
use super::ssh::HostKeys;
use super::target::LiveTarget;
use crate::source_dir::Watch;

/// Kubernetes swaps a mounted Secret in several steps.
const DEBOUNCE: Duration = Duration::from_millis(100);
/// Files outside the watched folder, and notices that got lost, are seen within this time.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// The clusters that there are.
#[derive(Default)]
pub(super) struct Routes {
    default: Option<Arc<LiveTarget>>,
    targets: BTreeMap<String, Arc<LiveTarget>>,
}

/// Why a request goes nowhere.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRoute {
    #[error("the header x-provider-id is missing")]
    NoId,
    #[error("no target has the x-provider-id {0:?}")]
    Unknown(String),
    #[error("there is no routing: {0}")]
    NoRouting(String),
}

impl Routes {
    fn new(routing: Routing, host_keys: &HostKeys) -> Self {
        let live = |target| Arc::new(LiveTarget::new(target, host_keys));
        let targets = routing.targets.into_iter().filter_map(|mut target| {
            let id = target.provider_id.take()?;
            Some((id, live(target)))
        });
        Self { targets: targets.collect(), default: routing.default.map(live) }
    }
}

/// The clusters as they are now, for any number of readers.
#[derive(Clone)]
pub(super) struct Live(Arc<RwLock<State>>);

struct State {
    routes: Arc<Routes>,
    /// What is wrong with the routing file.
    problem: Option<String>,
    /// There was a good one.
    is_routed: bool,
}

impl Live {
    /// Without a routing file.
    pub(super) fn fixed(routing: Routing) -> Self {
        let routes = Arc::new(Routes::new(routing, &HostKeys::default()));
        Self(Arc::new(RwLock::new(State { routes, problem: None, is_routed: true })))
    }

    /// Which cluster a request goes to.
    pub(super) fn find(&self, provider_id: Option<&str>) -> Result<Arc<LiveTarget>, NoRoute> {
        let state = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if !state.is_routed {
            return Err(NoRoute::NoRouting(state.problem.clone().unwrap_or_default()));
        }
        let routes = &state.routes;
        let found = provider_id.and_then(|id| routes.targets.get(id)).or(routes.default.as_ref());
        found.cloned().ok_or_else(|| match provider_id {
            Some(id) => NoRoute::Unknown(id.to_owned()),
            None => NoRoute::NoId,
        })
    }

    /// What is wrong with the routing file, for people.
    pub(super) fn problem(&self) -> Option<String> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).problem.clone()
    }

    fn set(&self, routes: Result<Routes, String>) {
        let mut state = self.0.write().unwrap_or_else(PoisonError::into_inner);
        match routes {
            Ok(routes) => {
                tracing::info!(targets = routes.targets.len(), "the routing file was read");
                *state = State { routes: Arc::new(routes), problem: None, is_routed: true };
            }
            Err(problem) => {
                let last = if state.is_routed { "the last good one counts" } else { "nothing is routed" };
                tracing::error!("{problem}; {last}");
                state.problem = Some(problem);
            }
        }
    }
}

/// A routing file that is followed.
pub(super) struct RoutingFile {
    path: PathBuf,
    settings: Settings,
    host_keys: HostKeys,
    live: Live,
    /// What the files held when they were read last.
    seen: Option<Content>,
}

/// The file's text, or why there is none, with a digest of the files that it names.
type Content = (Result<String, String>, [u8; 32]);

impl RoutingFile {
    /// Reads it once. One that is not there (yet) is a problem but no reason not to start.
    ///
    /// # Errors
    /// When it is there and no good.
    pub(super) async fn open(path: &Path, settings: &Settings) -> Result<(Self, Live), String> {
        let none = State { routes: Arc::default(), problem: None, is_routed: false };
        let live = Live(Arc::new(RwLock::new(none)));
        let mut file = Self {
            path: path.to_owned(),
            settings: settings.clone(),
            host_keys: HostKeys::default(),
            live: live.clone(),
            seen: None,
        };
        file.look().await;
        let is_there = tokio::fs::try_exists(path).await.unwrap_or(true);
        match live.problem() {
            Some(problem) if is_there => Err(problem),
            _ => Ok((file, live)),
        }
    }

    /// Follows it until the end.
    pub(super) async fn follow(mut self, shutdown: CancellationToken) {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut watch = Watch::start(folder.unwrap_or(Path::new("."))).await;
        let following = async {
            loop {
                // Looked at first: it may have changed before it was watched.
                self.look().await;
                watch.wait(DEBOUNCE, LOOK_AGAIN).await;
                watch.renew().await;
            }
        };
        shutdown.run_until_cancelled(following).await;
    }

    async fn look(&mut self) {
        let text = tokio::fs::read_to_string(&self.path).await.map_err(|error| error.to_string());
        let routing = match &text {
            Ok(text) => Routing::parse(text, &self.settings).map_err(|problems| problems.join("; ")),
            Err(error) => Err(error.clone()),
        };
        let named = routing.as_ref().map(Routing::files).unwrap_or_default();
        let content = (text, digest(&named).await);
        // A client that was made from an old kubeconfig is made anew, one whose files are as before stays.
        if self.seen.as_ref() == Some(&content) {
            return;
        }
        self.seen = Some(content);
        let routes = routing.map(|routing| Routes::new(routing, &self.host_keys));
        self.live.set(routes.map_err(|problem| format!("ROUTING_CONFIG {}: {problem}", self.path.display())));
    }
}

async fn digest(files: &[PathBuf]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for file in files {
        let content = tokio::fs::read(file).await.unwrap_or_default();
        hash.update(content.len().to_le_bytes());
        hash.update(content);
    }
    hash.finalize().into()
}
