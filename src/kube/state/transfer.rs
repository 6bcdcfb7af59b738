//! The states of a cluster for `inventory export`, `import` and `prune`: listed, put and removed by a person,
//! with the rights of that person.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams};
use kube::{Client, ResourceExt as _};
use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::inventory::Snapshot;

use super::api::{StateApi, StateError, Stored, encode};
use super::layout::{CONFIG, LABEL, Packed, Sizes, head_name};
use crate::kube::client::{CALL_TIMEOUT, call};

/// What a cluster has.
#[derive(Debug, Default)]
pub struct Listed {
    /// Whole states.
    pub states: Vec<(ConfigName, Stored)>,
    /// States that cannot be used, and why.
    pub problems: Vec<String>,
    /// Parts that no head names: of a write that was cut short.
    pub strays: Vec<(ConfigName, String)>,
}

impl StateApi {
    /// Every state of these namespaces, or of all where none is named.
    ///
    /// # Errors
    /// When they cannot be listed.
    pub async fn list(client: &Client, namespaces: &BTreeSet<String>) -> Result<Listed, StateError> {
        let mut maps = Vec::new();
        let params = ListParams::default().labels(LABEL);
        if namespaces.is_empty() {
            maps.extend(
                call(CALL_TIMEOUT, Api::<ConfigMap>::all(client.clone()).list_metadata(&params)).await?,
            );
        }
        for namespace in namespaces {
            let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
            maps.extend(call(CALL_TIMEOUT, api.list_metadata(&params)).await?);
        }
        let api = Self::new(client.clone());
        let mut listed = Listed::default();
        let (mut parts, mut named) = (Vec::new(), BTreeSet::new());
        for map in maps {
            let (namespace, name) = (map.namespace().unwrap_or_default(), map.name_any());
            let is_head = map.labels().get(LABEL).is_some_and(|kind| kind == "head");
            let config = api.config_of(&namespace, &name).await?;
            match config {
                Some(config) if is_head && head_name(&config) == name => match api.read(&config).await {
                    Ok(Some(stored)) => {
                        named.extend(stored.head.parts.iter().map(|part| (namespace.clone(), part.clone())));
                        listed.states.push((config, stored));
                    }
                    Ok(None) => {}
                    Err(error @ StateError::Layout(_)) => {
                        listed.problems.push(format!("configmap {namespace}/{name}: {error}"));
                    }
                    Err(error) => return Err(error),
                },
                Some(config) if !is_head => parts.push((config, name)),
                _ => listed.problems.push(format!("configmap {namespace}/{name}: it names no config")),
            }
        }
        // While one head is not understood it is not known which parts it names.
        if listed.problems.is_empty() {
            parts.retain(|(config, name)| !named.contains(&(config.namespace.to_string(), name.clone())));
            listed.strays = parts;
        }
        Ok(listed)
    }

    /// Which config a head or part says it is of; by its namespace here, wherever it was restored from.
    async fn config_of(&self, namespace: &str, map: &str) -> Result<Option<ConfigName>, StateError> {
        let maps = self.maps(&ConfigName::new(namespace, ""));
        let map = call(CALL_TIMEOUT, maps.get_opt(map)).await?;
        let config = map.and_then(|map| map.data?.remove(CONFIG));
        Ok(config.and_then(|config| Some(ConfigName::new(namespace, config.split_once('/')?.1))))
    }

    /// Puts what `snapshot` tells of a config in the place of what was read, or where nothing was.
    ///
    /// # Errors
    /// When it is not taken, or has changed since it was read.
    pub async fn put(
        &self,
        config: &ConfigName,
        snapshot: &Snapshot,
        before: Option<&Stored>,
    ) -> Result<(), StateError> {
        let revision = snapshot.configs.get(config).map_or(0, |state| state.revision);
        let packed = Packed::new(config, revision, "", encode(snapshot, config), Sizes::default());
        match before {
            None => drop(self.create(config, &packed).await?),
            Some(before) => {
                self.replace(config, &packed, &before.version).await?;
                let named: BTreeSet<&str> = packed.parts().iter().map(|(name, _)| name.as_str()).collect();
                let old = before.head.parts.iter().filter(|name| !named.contains(name.as_str())).cloned();
                let _ = self.remove_parts(config, old.collect()).await;
            }
        }
        Ok(())
    }

    /// Removes a state as it was read.
    ///
    /// # Errors
    /// When it is not let go, or has changed since it was read.
    pub async fn forget(&self, config: &ConfigName, stored: &Stored) -> Result<(), StateError> {
        Ok(self.remove(config, &stored.version, &stored.head.parts).await?)
    }

    /// Removes a part that no head names.
    pub async fn forget_stray(&self, config: &ConfigName, part: String) {
        let _ = self.remove_parts(config, vec![part]).await;
    }
}
