//! `inventory export|import|prune`: what is remembered, in a person's hands.

mod gone;
mod merge;
#[cfg(test)]
#[path = "inventory/inventory_tests.rs"]
mod tests;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use kube::Client;
use multinic_actors::boundary::Store as _;
use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::inventory::Snapshot;

use super::objects;
use crate::kube::client::connect;
use crate::kube::state::{Listed, StateApi, Stored};
use crate::settings::{InventoryAction, Settings, Stores};
use crate::store::{self, JsonFileStore};
use gone::{Objects, find, forget, table};

pub(super) async fn inventory(settings: Settings, stores: Stores, action: InventoryAction) -> ExitCode {
    // Whoever started us may have installed it before: then that one serves.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let (word, done) = match action {
        InventoryAction::Export(output) => ("export", export(&settings, stores, output.as_deref()).await),
        InventoryAction::Import { file, force } => ("import", import(&settings, stores, &file, force).await),
        InventoryAction::Prune { yes } => ("prune", prune(&settings, stores, yes).await),
    };
    match done {
        Ok(text) => super::print_out(&text),
        Err(problem) => {
            complain!("inventory {word}: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn client(settings: &Settings) -> Result<Client, String> {
    connect(&settings.kube.kubeconfig).await.map_err(|error| error.to_string())
}

async fn list(client: &Client, settings: &Settings) -> Result<Listed, String> {
    let listed = StateApi::list(client, &settings.kube.namespaces).await;
    let listed = listed.map_err(|error| format!("the state ConfigMaps cannot be listed: {error}"))?;
    for problem in &listed.problems {
        complain!("{problem}");
    }
    Ok(listed)
}

async fn export(settings: &Settings, stores: Stores, output: Option<&Path>) -> Result<String, String> {
    let path = &settings.inventory.db_path;
    let mut snapshot = match stores.file {
        true if stores.cluster && !path.exists() => Snapshot::default(),
        true => store::read(path).map_err(|error| error.to_string())?.snapshot,
        false => Snapshot::default(),
    };
    if stores.cluster {
        for (_, stored) in list(&client(settings).await?, settings).await?.states {
            merge::take_newer(&mut snapshot, &stored.snapshot);
        }
    }
    let mut json = Vec::new();
    store::encode(&snapshot, &mut json).map_err(|error| error.to_string())?;
    json.push(b'\n');
    match output {
        None => String::from_utf8(json).map_err(|error| error.to_string()),
        Some(file) => {
            write_whole(file, &json).map_err(|error| format!("{}: {error}", file.display()))?;
            let (records, configs) = (snapshot.records.len(), snapshot.configs.len());
            Ok(format!("{records} nodes of {configs} configs: {}\n", file.display()))
        }
    }
}

/// Never half a file.
fn write_whole(file: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = tempfile::NamedTempFile::new_in(folder)?;
    temporary.write_all(bytes)?;
    temporary.as_file().sync_all()?;
    temporary.persist(file)?;
    Ok(())
}

async fn import(settings: &Settings, stores: Stores, file: &Path, force: bool) -> Result<String, String> {
    let bytes = super::read(file)?;
    let loaded = store::decode(bytes.as_bytes()).map_err(|error| format!("{}: {error}", file.display()))?;
    for warning in &loaded.warnings {
        complain!("{}: {warning}", file.display());
    }
    let import = loaded.snapshot;
    // Both are read, and everything that speaks against it told, before anything is written.
    let mut refusals = Vec::new();
    let own = match stores.file {
        true => Some(open(settings).await?),
        false => None,
    };
    if let Some((_, has)) = &own {
        refusals.extend(merge::refusals(has, &import));
    }
    let cluster = match stores.cluster {
        true => Some(client(settings).await?),
        false => None,
    };
    let mut states = Vec::new();
    if let Some(client) = &cluster {
        let api = StateApi::new(client.clone());
        for name in import.configs.keys() {
            let stored =
                api.read(name).await.map_err(|error| format!("{name}: its state ConfigMap: {error}"))?;
            if let Some(stored) = &stored {
                refusals.extend(merge::refusals(&stored.snapshot, &merge::only(&import, name)));
                refusals.extend(held(name, stored));
            }
            states.push((name.clone(), stored));
        }
    }
    if !refusals.is_empty() && !force {
        let lines = refusals.join("\n  ");
        return Err(format!("nothing is written; what is there is newer (--force replaces it):\n  {lines}"));
    }
    let mut text = String::new();
    if let Some((store, mut has)) = own {
        // So that the file counts as newer than the ConfigMaps, too.
        for (_, stored) in states.iter().filter_map(|(name, stored)| Some((name, stored.as_ref()?))) {
            merge::take_newer(&mut has, &stored.snapshot);
        }
        merge::put_over(&mut has, &import);
        store.save(Arc::new(has)).await.map_err(|error| error.to_string())?;
        text += &format!("{} nodes: {}\n", import.records.len(), store.path().display());
    }
    if let Some(client) = cluster {
        let api = StateApi::new(client);
        for (name, stored) in &states {
            let mut has = stored.as_ref().map(|stored| stored.snapshot.clone()).unwrap_or_default();
            merge::put_over(&mut has, &merge::only(&import, name));
            let put = api.put(name, &has, stored.as_ref()).await;
            put.map_err(|error| format!("{name}: its state ConfigMap: {error}; run the import again"))?;
        }
        text += &format!("{} configs: their ConfigMaps\n", states.len());
        let nobodys = import.records.values().filter(|record| record.owner.is_none()).count();
        if nobodys > 0 {
            text += &format!("{nobodys} nodes belong to no config yet and can be in the file only\n");
        }
    }
    Ok(text)
}

fn held(name: &ConfigName, stored: &Stored) -> Option<String> {
    let holder = &stored.head.holder;
    (!holder.is_empty()).then(|| format!("{name}: release {holder} works on it"))
}

/// The inventory file, ours alone until it is dropped.
async fn open(settings: &Settings) -> Result<(JsonFileStore, Snapshot), String> {
    let store = JsonFileStore::new(&settings.inventory.db_path);
    let loaded = store.load().await.map_err(|error| format!("{error}; stop the operator first"))?;
    for warning in &loaded.warnings {
        complain!("{warning}");
    }
    Ok((store, loaded.snapshot))
}

async fn prune(settings: &Settings, stores: Stores, yes: bool) -> Result<String, String> {
    let path = &settings.inventory.db_path;
    let known = match stores.file && path.exists() {
        true => store::read(path).map_err(|error| error.to_string())?.snapshot,
        false => Snapshot::default(),
    };
    let all = objects::all(settings, &known).await?;
    let is_limited = !settings.kube.namespaces.is_empty() || settings.kube.selector.is_some();
    if !is_limited || settings.config_dir.is_some() {
        let objects = Objects::new(&all.declared);
        let mut text = String::new();
        if stores.file {
            text += &prune_file(settings, &known, &objects, yes).await?;
        }
        if stores.cluster {
            text += &prune_cluster(settings, &objects, yes).await?;
        }
        if !yes {
            text += "nothing was changed; --yes forgets it\n";
        }
        return Ok(text);
    }
    Err("with --watch-namespaces or --config-selector not every object is known; leave it out".to_owned())
}

async fn prune_file(
    settings: &Settings,
    known: &Snapshot,
    objects: &Objects,
    yes: bool,
) -> Result<String, String> {
    let place = settings.inventory.db_path.display().to_string();
    if !yes {
        return Ok(table(&place, &find(known, objects)));
    }
    let (store, mut has) = open(settings).await?;
    let text = table(&place, &find(&has, objects));
    forget(&mut has, objects);
    store.save(Arc::new(has)).await.map_err(|error| error.to_string())?;
    Ok(text)
}

async fn prune_cluster(settings: &Settings, objects: &Objects, yes: bool) -> Result<String, String> {
    let client = client(settings).await?;
    let listed = list(&client, settings).await?;
    let api = StateApi::new(client);
    let mut all = Vec::new();
    for (name, stored) in &listed.states {
        let gone = find(&stored.snapshot, objects);
        if gone.is_empty() {
            continue;
        }
        all.extend(gone);
        let refused = held(name, stored).filter(|_| objects.has(name));
        if let Some(holder) = refused {
            complain!("{holder}: it is left alone");
        } else if yes {
            let mut rest = stored.snapshot.clone();
            forget(&mut rest, objects);
            let done = match objects.has(name) {
                true => api.put(name, &rest, Some(stored)).await,
                false => api.forget(name, stored).await,
            };
            done.map_err(|error| format!("{name}: its state ConfigMap: {error}"))?;
        }
    }
    let mut text = table("ConfigMaps", &all);
    for (config, part) in &listed.strays {
        text += &format!("configmap {}/{part}: of a write that was cut short\n", config.namespace);
        if yes {
            api.forget_stray(config, part.clone()).await;
        }
    }
    Ok(text)
}
