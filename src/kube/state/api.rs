//! The calls that read and write the state of one config. Each has a deadline; none is repeated here.

use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::{ApiResource, PartialObjectMeta};
use kube::{Client, ResourceExt as _};
use multinic_actors::domain::ids::ConfigName;
use multinic_actors::domain::inventory::Snapshot;
use serde_json::Value;

use super::layout::{self, Head, LayoutError, Packed};
use crate::kube::client::{CALL_TIMEOUT, CallError, call};
use crate::kube::openstack_config::OpenstackConfig;
use crate::kube::status::FIELD_MANAGER;
use crate::store;

/// Parts of one state that are read or written at the same time.
const PARTS_IN_FLIGHT: usize = 4;
/// The parts of a head that was replaced meanwhile are gone: then it is read again, this often.
const READS: usize = 3;

/// Why a state cannot be had. Its text is stable.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum StateError {
    /// The API server did not do what it was asked.
    #[error("{0}")]
    Call(CallError),
    /// What is there is no state that can be used.
    #[error("{0}")]
    Layout(#[from] LayoutError),
}

impl From<CallError> for StateError {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl StateError {
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Call(error) => error.code(),
            Self::Layout(_) => None,
        }
    }

    /// Everything there is to know, for a log.
    pub(super) fn detail(&self) -> String {
        match self {
            Self::Call(error) => error.detail(),
            Self::Layout(error) => error.to_string(),
        }
    }
}

/// A state as it was read.
#[derive(Clone, Debug)]
pub struct Stored {
    /// What its head says.
    pub head: Head,
    /// The head's version.
    pub version: String,
    /// What it tells of the config, and of no other.
    pub snapshot: Snapshot,
}

/// The state ConfigMaps of a cluster.
#[derive(Clone)]
pub struct StateApi {
    client: Client,
}

impl StateApi {
    /// Nothing is asked yet.
    pub fn new(client: Client) -> Self {
        Self { client }
    }

    pub(super) fn maps(&self, config: &ConfigName) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), &config.namespace)
    }

    /// What the head says and at which version; `None` where there is none.
    pub(super) async fn head(&self, config: &ConfigName) -> Result<Option<(Head, String)>, StateError> {
        let map = call(CALL_TIMEOUT, self.maps(config).get_opt(&layout::head_name(config))).await?;
        let read = |map: ConfigMap| {
            let version = map.resource_version().unwrap_or_default();
            Ok((Head::read(map)?, version))
        };
        map.map(read).transpose()
    }

    /// The state of a config; `None` where there is none.
    ///
    /// # Errors
    /// When the API server does not answer, or what is there cannot be used.
    pub async fn read(&self, config: &ConfigName) -> Result<Option<Stored>, StateError> {
        let mut missing = None;
        for _ in 0..READS {
            let Some((head, version)) = self.head(config).await? else { return Ok(None) };
            match self.parts(config, &head.parts).await {
                Ok(parts) => {
                    let snapshot = decode(config, &head.unpack(parts)?)?;
                    return Ok(Some(Stored { head, version, snapshot }));
                }
                Err(error) if error.code() == Some(404) => missing = Some(error),
                Err(error) => return Err(error.into()),
            }
        }
        let detail = missing.map(|error| error.detail()).unwrap_or_default();
        Err(LayoutError::Damaged(format!("a part is missing: {detail}")).into())
    }

    async fn parts(&self, config: &ConfigName, names: &[String]) -> Result<Vec<ConfigMap>, CallError> {
        let api = self.maps(config);
        let mut reads = Vec::new();
        for name in names {
            reads.push(call(CALL_TIMEOUT, api.get(name)));
        }
        stream::iter(reads).buffered(PARTS_IN_FLIGHT).try_collect().await
    }

    /// Writes a state where there is none; the version it has then. 409: there is one.
    pub(super) async fn create(&self, config: &ConfigName, packed: &Packed) -> Result<String, CallError> {
        self.write_parts(config, packed).await?;
        let head = packed.head(config);
        let created = call(CALL_TIMEOUT, self.maps(config).create(&post(), &head)).await?;
        Ok(created.resource_version().unwrap_or_default())
    }

    /// Replaces the state at `version`; the version it has then. 409: it has another one by now.
    pub(super) async fn replace(
        &self,
        config: &ConfigName,
        packed: &Packed,
        version: &str,
    ) -> Result<String, CallError> {
        self.write_parts(config, packed).await?;
        self.patch(config, packed.patch(config, version)).await
    }

    /// Says who holds the config.
    pub(super) async fn hold(
        &self,
        config: &ConfigName,
        holder: &str,
        version: &str,
    ) -> Result<String, CallError> {
        self.patch(config, layout::holder_patch(holder, version)).await
    }

    async fn patch(&self, config: &ConfigName, patch: Value) -> Result<String, CallError> {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let (api, name) = (self.maps(config), layout::head_name(config));
        let patched = call(CALL_TIMEOUT, api.patch(&name, &params, &Patch::Merge(patch))).await?;
        Ok(patched.resource_version().unwrap_or_default())
    }

    async fn write_parts(&self, config: &ConfigName, packed: &Packed) -> Result<(), CallError> {
        let api = self.maps(config);
        let mut writes = Vec::new();
        for (name, bytes) in packed.parts() {
            let (api, part) = (api.clone(), layout::part(config, name, bytes));
            writes.push(async move {
                match call(CALL_TIMEOUT, api.create(&post(), &part)).await {
                    // A part is named after what is in it: it is there from an earlier try.
                    Err(error) if error.code() == Some(409) => Ok(()),
                    result => result.map(drop),
                }
            });
        }
        stream::iter(writes).buffer_unordered(PARTS_IN_FLIGHT).try_collect().await
    }

    /// Removes parts that no head names any more; those that could not be removed.
    pub(super) async fn remove_parts(&self, config: &ConfigName, names: Vec<String>) -> Vec<String> {
        let mut left = Vec::new();
        for name in names {
            if let Err(error) = self.remove_one(config, &name, DeleteParams::default()).await {
                tracing::debug!("{config}: configmap {name} cannot be removed yet: {}", error.detail());
                left.push(name);
            }
        }
        left
    }

    /// Removes the state at `version` and its parts. 409: it has another version by now.
    pub(super) async fn remove(
        &self,
        config: &ConfigName,
        version: &str,
        parts: &[String],
    ) -> Result<(), CallError> {
        let at = Preconditions { resource_version: Some(version.to_owned()), uid: None };
        self.remove_one(config, &layout::head_name(config), DeleteParams::default().preconditions(at))
            .await?;
        let _ = self.remove_parts(config, parts.to_vec()).await;
        Ok(())
    }

    async fn remove_one(
        &self,
        config: &ConfigName,
        name: &str,
        params: DeleteParams,
    ) -> Result<(), CallError> {
        match call(CALL_TIMEOUT, self.maps(config).delete(name, &params)).await {
            Err(error) if error.code() == Some(404) => Ok(()),
            result => result.map(drop),
        }
    }

    /// Whether the object is there, whatever it says.
    pub(super) async fn has_object(&self, config: &ConfigName) -> Result<bool, CallError> {
        let resource = ApiResource::erase::<OpenstackConfig>(&());
        let api: Api<kube::core::DynamicObject> =
            Api::namespaced_with(self.client.clone(), &config.namespace, &resource);
        let found: Option<PartialObjectMeta<_>> =
            call(CALL_TIMEOUT, api.get_metadata_opt(&config.name)).await?;
        Ok(found.is_some())
    }
}

fn post() -> PostParams {
    PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() }
}

/// Packs what `snapshot` knows of a config.
pub(super) fn encode(snapshot: &Snapshot, config: &ConfigName) -> String {
    let mut own = Snapshot::default();
    own.configs.extend(snapshot.configs.get_key_value(config).map(|(k, v)| (k.clone(), v.clone())));
    for record in snapshot.records.of_owner(config) {
        own.records.insert(record.key(), record.clone());
    }
    let mut json = Vec::new();
    // Into memory, and every key is text: that does not fail.
    let _ = store::encode(&own, &mut json);
    String::from_utf8(json).unwrap_or_default()
}

/// Reads what is kept of a config. A state that was restored into another namespace says another name: it is
/// this config's all the same.
fn decode(config: &ConfigName, json: &[u8]) -> Result<Snapshot, LayoutError> {
    let damaged = |what: &dyn std::fmt::Display| LayoutError::Damaged(what.to_string());
    let loaded = match store::decode(json) {
        Err(store::FormatError::Newer(version)) => return Err(LayoutError::Newer(version.to_string())),
        loaded => loaded.map_err(|error| damaged(&error))?,
    };
    if let Some(warning) = loaded.warnings.first() {
        return Err(damaged(warning));
    }
    let mut configs = loaded.snapshot.configs.into_values();
    let (Some(state), None) = (configs.next(), configs.next()) else {
        return Err(damaged(&"it is not the state of one config"));
    };
    let mut own = Snapshot::default();
    let mut state = std::sync::Arc::unwrap_or_clone(state);
    state.name = config.clone();
    own.configs.insert(config.clone(), state.into());
    for (key, record) in loaded.snapshot.records {
        let mut record = std::sync::Arc::unwrap_or_clone(record);
        if let Some(owner) = &mut record.owner {
            owner.id.name = config.clone();
        }
        own.records.insert(key, record.into());
    }
    Ok(own)
}
