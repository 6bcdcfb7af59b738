//! Where the objects come from: a folder or a cluster. The rest of the program sees no difference.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use multinic_actors::domain::ids::ConfigName;

use super::StartError;
use super::reign::Plan;
use super::state;
use crate::http::Check;
use crate::kube::ObservedStatuses;
use crate::kube::client::connect;
use crate::kube::secrets::KubeSecrets;
use crate::kube::state::StateMaps;
use crate::kube::status::StatusWriter;
use crate::kube::watch::{KubeSource, WatchHealth};
use crate::secrets::SecretSource;
use crate::settings::Settings;
use crate::source::SourceEvents;
use crate::source_dir::FolderSource;
use crate::store;

/// The objects, their Secrets, and where their state is written.
pub(super) struct Objects {
    /// Watched until it is dropped.
    pub(super) source: Source,
    /// What it tells.
    pub(super) events: SourceEvents,
    /// The Secrets that the objects name.
    pub(super) secrets: Arc<dyn SecretSource>,
    /// Writes into the objects' status, where objects have one.
    pub(super) statuses: Option<Arc<StatusWriter>>,
    /// What is kept of the objects beside them, where that is wanted.
    pub(super) states: Option<Arc<StateMaps>>,
}

/// What watches.
pub(super) enum Source {
    /// A folder.
    Folder(#[expect(dead_code, reason = "watched until it is dropped")] FolderSource),
    /// A cluster.
    Kube(KubeSource),
}

impl Source {
    /// How the watch of a cluster is.
    pub(super) fn watch_health(&self) -> Option<Arc<WatchHealth>> {
        match self {
            Self::Folder(_) => None,
            Self::Kube(source) => Some(source.health()),
        }
    }
}

/// The connection to the cluster, where objects come from one.
pub(super) async fn connect_if_needed(settings: &Settings) -> Result<Option<Client>, StartError> {
    match settings.config_dir {
        Some(_) => Ok(None),
        None => connect(&settings.kube.kubeconfig).await.map(Some).map_err(StartError::new),
    }
}

impl Objects {
    /// The source that the settings name, under way.
    pub(super) async fn start(plan: &Plan) -> Result<Self, StartError> {
        match (&plan.settings.config_dir, &plan.client) {
            (Some(folder), _) => Self::from_folder(plan, folder).await,
            (None, Some(client)) => Ok(Self::from_kube(&plan.settings, client.clone())),
            (None, None) => Err(StartError::new("there is neither a folder nor a cluster")),
        }
    }

    async fn from_folder(plan: &Plan, folder: &Path) -> Result<Self, StartError> {
        let settings = &plan.settings;
        let first_seen = settings.inventory.enabled.then(|| first_seen(&settings.inventory.db_path));
        let clock = Arc::clone(&plan.options.clock);
        let defaults = settings.defaults.clone();
        let started = FolderSource::start(folder, plan.options.folder, defaults, first_seen, clock).await;
        let (source, events) = started.map_err(StartError::new)?;
        let secrets = Arc::new(source.secrets());
        Ok(Self { source: Source::Folder(source), events, secrets, statuses: None, states: None })
    }

    fn from_kube(settings: &Settings, client: Client) -> Self {
        let defaults = settings.defaults.clone();
        let (source, events) = KubeSource::start(&client, &settings.kube, defaults, rand::random());
        let observed: Arc<ObservedStatuses> = source.observed();
        let states = settings.kube.state_configmap.then(|| state::start(&settings.kube, &client));
        let statuses = StatusWriter::start(client.clone(), observed, rand::random());
        Self {
            source: Source::Kube(source),
            events,
            secrets: Arc::new(KubeSecrets::new(client)),
            statuses: Some(Arc::new(statuses)),
            states,
        }
    }
}

/// When objects without a creation time were seen first. A file that cannot be read is reported by the
/// inventory actor, which reads it for good.
fn first_seen(path: &Path) -> BTreeMap<ConfigName, Timestamp> {
    let read = || store::read(path).or_else(|_| store::read(&store::previous_of(path)));
    let loaded = read().unwrap_or_default();
    let configs = loaded.snapshot.configs.into_iter();
    configs.filter_map(|(name, state)| Some((name, state.first_seen?))).collect()
}

/// The watch as a part of the readiness. Before the first complete list there is nothing to serve; later the
/// objects go on as they were known last, and so does the process.
pub(super) fn watch_check(health: &WatchHealth) -> Check {
    let check = health.check();
    Check {
        name: "watch".to_owned(),
        ok: check.problem.is_none(),
        required: !check.is_listed,
        message: check.problem,
    }
}
