//! Where the objects come from: a folder or a cluster. The rest of the program sees no difference.

use std::path::Path;
use std::sync::Arc;

use super::{Options, StartError, first_seen};
use crate::http::Check;
use crate::kube::ObservedStatuses;
use crate::kube::client::connect;
use crate::kube::secrets::KubeSecrets;
use crate::kube::status::StatusWriter;
use crate::kube::watch::{KubeSource, WatchHealth};
use crate::secrets::SecretSource;
use crate::settings::Settings;
use crate::source::SourceEvents;
use crate::source_dir::FolderSource;

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

impl Objects {
    /// The source that the settings name, under way.
    pub(super) async fn start(settings: &Settings, options: &Options) -> Result<Self, StartError> {
        match &settings.config_dir {
            Some(folder) => Self::from_folder(settings, options, folder).await,
            None => Self::from_kube(settings).await,
        }
    }

    async fn from_folder(settings: &Settings, options: &Options, folder: &Path) -> Result<Self, StartError> {
        let first_seen = settings.inventory.enabled.then(|| first_seen(&settings.inventory.db_path));
        let clock = Arc::clone(&options.clock);
        let defaults = settings.defaults.clone();
        let started = FolderSource::start(folder, options.folder, defaults, first_seen, clock).await;
        let (source, events) = started.map_err(StartError::new)?;
        let secrets = Arc::new(source.secrets());
        Ok(Self { source: Source::Folder(source), events, secrets, statuses: None })
    }

    async fn from_kube(settings: &Settings) -> Result<Self, StartError> {
        let client = connect(&settings.kube.kubeconfig).await.map_err(StartError::new)?;
        let defaults = settings.defaults.clone();
        let (source, events) =
            KubeSource::start(&client, &settings.kube.namespaces, defaults, rand::random());
        let observed: Arc<ObservedStatuses> = source.observed();
        let statuses = StatusWriter::start(client.clone(), observed, rand::random());
        Ok(Self {
            source: Source::Kube(source),
            events,
            secrets: Arc::new(KubeSecrets::new(client)),
            statuses: Some(Arc::new(statuses)),
        })
    }
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
