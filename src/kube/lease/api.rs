//! Reads and writes the Lease.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, Resource, ResourceExt as _};
use serde_json::{Value, json};

use super::election::{Claim, Effect, Input, Record, Stored, Timing};
use crate::kube::client::{CallError, call};
use crate::kube::status::FIELD_MANAGER;

/// Half of the time in which a holder must renew: a request that hangs leaves time for another.
const TIMEOUT: Duration = Duration::from_secs(5);

/// One Lease of the cluster.
#[derive(Clone)]
pub struct LeaseApi {
    api: Api<Lease>,
    namespace: String,
    name: String,
    timing: Timing,
}

impl LeaseApi {
    /// The Lease `name` of `namespace`, whether it is there or not.
    pub fn new(client: Client, namespace: &str, name: &str, timing: Timing) -> Self {
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        Self { api: Api::namespaced(client, &namespace), namespace, name, timing }
    }

    /// What Events refer to.
    pub fn reference(&self) -> ObjectReference {
        ObjectReference {
            api_version: Some(Lease::api_version(&()).into_owned()),
            kind: Some(Lease::kind(&()).into_owned()),
            namespace: Some(self.namespace.clone()),
            name: Some(self.name.clone()),
            ..ObjectReference::default()
        }
    }

    /// Carries out a request of an elector: what it is told, and what went wrong if something did.
    pub async fn perform(self, request: Effect) -> (Input, Option<CallError>) {
        let sent_at = Instant::now();
        let answer = match &request {
            Effect::Create(claim) => {
                self.create(claim).await.map(|lease| Input::Written { sent_at, stored: stored(lease) })
            }
            Effect::Update(claim, version) => {
                let updated = self.update(claim, version).await;
                updated.map(|lease| Input::Written { sent_at, stored: stored(lease) })
            }
            _ => match call(TIMEOUT, self.api.get_opt(&self.name)).await {
                Ok(lease) => Ok(Input::Read(lease.map(stored))),
                Err(error) => Err(error),
            },
        };
        let is_write = matches!(request, Effect::Create(_) | Effect::Update(..));
        match answer {
            Ok(input) => (input, None),
            // 409: it is another version or there already; 404 for an update: it was deleted meanwhile. One
            // for a create means that the namespace is not there.
            Err(error) if is_write && error.code() == Some(409) => (Input::Conflict, None),
            Err(error) if matches!(request, Effect::Update(..)) && error.code() == Some(404) => {
                (Input::Conflict, None)
            }
            Err(error) => (Input::Failed, Some(error)),
        }
    }

    async fn create(&self, claim: &Claim) -> Result<Lease, CallError> {
        let lease = json!({
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": spec(claim, self.timing.lease),
        });
        let lease = serde_json::from_value(lease).map_err(|e| CallError::Unreadable(e.to_string()))?;
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        call(TIMEOUT, self.api.create(&params, &lease)).await
    }

    /// A merge patch that names the version: refused like an update if it is another, and what others wrote
    /// beside the claim (labels, a strategy) stays.
    async fn update(&self, claim: &Claim, version: &str) -> Result<Lease, CallError> {
        let patch = json!({
            "metadata": {"resourceVersion": version},
            "spec": spec(claim, self.timing.lease),
        });
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        call(TIMEOUT, self.api.patch(&self.name, &params, &Patch::Merge(patch))).await
    }
}

fn spec(claim: &Claim, lease: Duration) -> Value {
    let now = MicroTime(Timestamp::now());
    // Nobody waits for a lease that was given back; the API server refuses 0.
    let seconds = if claim.holder.is_empty() { 1 } else { lease.as_secs() };
    let mut spec = json!({
        "holderIdentity": claim.holder,
        "leaseDurationSeconds": seconds,
        "renewTime": now,
        "leaseTransitions": claim.transitions,
    });
    if !claim.is_renewal {
        spec["acquireTime"] = json!(now);
    }
    spec
}

fn stored(lease: Lease) -> Stored {
    let version = lease.resource_version().unwrap_or_default();
    let spec = lease.spec.unwrap_or_default();
    let time = |time: Option<MicroTime>| time.map(|time| time.0.to_string()).unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let record = Record {
        holder: spec.holder_identity.unwrap_or_default(),
        lease: Duration::from_secs(seconds.unwrap_or_default()),
        times: [time(spec.acquire_time), time(spec.renew_time)],
        transitions: spec.lease_transitions.unwrap_or_default(),
    };
    Stored { record, version }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claim(holder: &str, is_renewal: bool) -> Claim {
        Claim { holder: holder.to_owned(), transitions: 2, is_renewal }
    }

    #[test]
    fn a_renewal_keeps_the_time_of_acquisition_and_a_release_lasts_no_time() {
        let lease = Duration::from_secs(15);
        assert!(spec(&claim("a", true), lease).get("acquireTime").is_none());
        let taken = spec(&claim("a", false), lease);
        assert_eq!((&taken["leaseDurationSeconds"], &taken["leaseTransitions"]), (&json!(15), &json!(2)));
        assert!(taken["acquireTime"].is_string());
        let released = spec(&claim("", false), lease);
        assert_eq!((&released["holderIdentity"], &released["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    }

    #[test]
    fn a_lease_that_says_nothing_is_nobodys() {
        let lease: Lease = serde_json::from_value(json!({"metadata": {"resourceVersion": "7"}})).unwrap();
        assert_eq!(stored(lease), Stored { record: Record::default(), version: "7".to_owned() });
    }
}
