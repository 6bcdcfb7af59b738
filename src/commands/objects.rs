//! Every object that there is, for a command that looks once.

use std::any::Any;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use multinic_actors::boundary::SystemClock;
use multinic_actors::domain::config::Declared;
use multinic_actors::domain::inventory::Snapshot;

use crate::kube::client::connect;
use crate::kube::secrets::KubeSecrets;
use crate::kube::watch::KubeSource;
use crate::secrets::SecretSource;
use crate::settings::Settings;
use crate::source::{SourceEvent, SourceEvents};
use crate::source_dir::{FolderOptions, FolderSource};

/// How long the first complete list from a cluster may take.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a folder may take until all its files can be read.
const FOLDER_TIMEOUT: Duration = Duration::from_secs(5);

/// Objects, the Secrets they may name, and what keeps both alive.
pub(super) struct Objects {
    pub(super) declared: Vec<Declared>,
    pub(super) secrets: Arc<dyn SecretSource>,
    pub(super) _source: Option<Box<dyn Any + Send>>,
}

/// Every object of the cluster or folder.
pub(super) async fn all(settings: &Settings, known: &Snapshot) -> Result<Objects, String> {
    match &settings.config_dir {
        Some(folder) => from_folder(settings, folder, known).await,
        None => from_cluster(settings).await,
    }
}

async fn from_folder(settings: &Settings, folder: &Path, known: &Snapshot) -> Result<Objects, String> {
    let first_seen: BTreeMap<_, _> =
        known.configs.iter().filter_map(|(name, state)| Some((name.clone(), state.first_seen?))).collect();
    let (source, events) = FolderSource::start(
        folder,
        FolderOptions::default(),
        settings.defaults.clone(),
        Some(first_seen),
        Arc::new(SystemClock),
    )
    .await
    .map_err(|error| error.to_string())?;
    let all = tokio::time::timeout(FOLDER_TIMEOUT, until_synced(events)).await;
    let declared = all.map_err(|_| format!("{}: not every file can be read", folder.display()))?;
    let secrets = Arc::new(source.secrets());
    Ok(Objects { declared, secrets, _source: Some(Box::new(source)) })
}

async fn from_cluster(settings: &Settings) -> Result<Objects, String> {
    let client = connect(&settings.kube.kubeconfig).await.map_err(|error| error.to_string())?;
    let (source, events) =
        KubeSource::start(&client, &settings.kube, settings.defaults.clone(), rand::random());
    let listed = tokio::time::timeout(LIST_TIMEOUT, until_synced(events)).await;
    let declared = listed.map_err(|_| {
        let problem = source.health().check().problem.unwrap_or_default();
        format!("the OpenstackConfigs could not be listed: {problem}")
    })?;
    let secrets = Arc::new(KubeSecrets::new(client));
    Ok(Objects { declared, secrets, _source: Some(Box::new(source)) })
}

/// Every object that there is.
async fn until_synced(mut events: SourceEvents) -> Vec<Declared> {
    let mut declared = BTreeMap::new();
    while let Some(event) = events.recv().await {
        match event {
            SourceEvent::Apply(object) => drop(declared.insert(object.id().name.clone(), object)),
            SourceEvent::Delete(id) | SourceEvent::LetGo(id) => drop(declared.remove(&id.name)),
            SourceEvent::FileProblem { path, problem } => complain!("{}: {problem}", path.display()),
            SourceEvent::Synced => break,
            SourceEvent::FirstSeen { .. } | SourceEvent::FileRecovered { .. } => {}
        }
    }
    declared.into_values().collect()
}
