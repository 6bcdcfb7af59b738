//! Where the objects come from: a folder, or a cluster.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use multinic_actors::boundary::StatusSink;
use multinic_actors::domain::ids::ConfigName;

use super::{Options, StartError};
use crate::kube::client;
use crate::kube::status::KubeStatus;
use crate::kube::watch::KubeSource;
use crate::kube::watch_health::WatchHealth;
use crate::secrets::SecretSource;
use crate::settings::Settings;
use crate::source_dir::{FolderSource, SourceEvents};
use crate::store;

/// A source that is followed until it is dropped.
pub(super) enum Source {
    /// Files.
    Folder(FolderSource),
    /// An API server.
    Kube(KubeSource),
}

impl Source {
    /// The Secrets that stand beside the objects.
    pub(super) fn secrets(&self) -> Arc<dyn SecretSource> {
        match self {
            Self::Folder(source) => Arc::new(source.secrets()),
            Self::Kube(source) => Arc::new(source.secrets()),
        }
    }

    /// How the watch of a cluster is.
    pub(super) fn watch_health(&self) -> Option<WatchHealth> {
        match self {
            Self::Folder(_) => None,
            Self::Kube(source) => Some(source.health()),
        }
    }
}

/// A source, and what belongs to it.
pub(super) struct Opened {
    pub(super) source: Source,
    pub(super) events: SourceEvents,
    /// Where the state of a config is shown in its object.
    pub(super) status: Option<Arc<dyn StatusSink>>,
}

/// The folder if there is one, else the cluster.
pub(super) async fn open(settings: &Settings, options: &Options) -> Result<Opened, StartError> {
    match settings.config_dir.as_deref() {
        Some(folder) => open_folder(folder, settings, options).await,
        None => open_cluster(settings, options).await,
    }
}

async fn open_folder(folder: &Path, settings: &Settings, options: &Options) -> Result<Opened, StartError> {
    let first_seen = first_seen(&settings.inventory.db_path, settings.inventory.enabled);
    let (defaults, clock) = (settings.defaults.clone(), Arc::clone(&options.clock));
    let started = FolderSource::start(folder, options.folder, defaults, first_seen, clock).await;
    let (source, events) = started.map_err(StartError::new)?;
    Ok(Opened { source: Source::Folder(source), events, status: None })
}

async fn open_cluster(settings: &Settings, options: &Options) -> Result<Opened, StartError> {
    let client = client::connect(settings.kube.kubeconfig.as_deref()).await.map_err(StartError::new)?;
    let namespaces = &settings.kube.watch_namespaces;
    let (source, events) = KubeSource::start(&client, namespaces, settings.defaults.clone());
    let status = KubeStatus::start(client, Arc::clone(&options.clock));
    Ok(Opened { source: Source::Kube(source), events, status: Some(Arc::new(status)) })
}

/// When objects without a creation time were seen first. A file that cannot be read is reported by the
/// inventory actor, which reads it for good.
fn first_seen(path: &Path, is_enabled: bool) -> BTreeMap<ConfigName, Timestamp> {
    let read = || store::read(path).or_else(|_| store::read(&store::previous_of(path)));
    let loaded = if is_enabled { read().unwrap_or_default() } else { Default::default() };
    let configs = loaded.snapshot.configs.into_iter();
    configs.filter_map(|(name, state)| Some((name, state.first_seen?))).collect()
}
