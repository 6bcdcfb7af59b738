//! The label by which a Service finds the leader's pod.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::Pod;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, ResourceExt as _};
use multinic_actors::domain::backoff::{Backoff, BackoffPolicy};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::kube::client::{CallError, call};
use crate::kube::status::FIELD_MANAGER;

/// `true` on the leader's pod, absent on all others.
pub const LEADER_LABEL: &str = "multinic.example.com/leader";

const TIMEOUT: Duration = Duration::from_secs(5);
const RETRY: BackoffPolicy = BackoffPolicy::doubling(Duration::from_secs(1), Duration::from_secs(60));

/// Keeps this pod's label in line with whether it leads.
pub struct LeaderLabel {
    wanted: watch::Sender<Wanted>,
    task: JoinHandle<()>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Wanted {
    is_leader: bool,
    /// A pod that led before and may not have been able to take its label off.
    former: Option<String>,
}

impl LeaderLabel {
    /// Takes the label off `pod`, where an earlier process may have left it, and follows from then on.
    pub fn start(client: Client, namespace: &str, pod: String, seed: u64) -> Self {
        let (wanted, seen) = watch::channel(Wanted::default());
        let pods = Pods { api: Api::namespaced(client, namespace), own: pod };
        Self { wanted, task: tokio::spawn(follow(pods, seen, seed)) }
    }

    /// Whether this pod leads, and which one did before.
    pub fn set(&self, is_leader: bool, former: Option<&str>) {
        let wanted = Wanted { is_leader, former: former.map(str::to_owned) };
        self.wanted.send_if_modified(|has| {
            let is_news = *has != wanted;
            *has = wanted;
            is_news
        });
    }
}

impl Drop for LeaderLabel {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn follow(pods: Pods, mut seen: watch::Receiver<Wanted>, seed: u64) {
    let mut backoff = Backoff::new(RETRY, seed, Instant::now());
    loop {
        let wanted = seen.borrow_and_update().clone();
        let again = match pods.bring_in_line(&wanted).await {
            Ok(()) => {
                backoff.reset(Instant::now());
                None
            }
            Err(error) => {
                if backoff.attempts() == 0 {
                    tracing::warn!(
                        "the label {LEADER_LABEL} of the pods: {}; until then their Service may not find the \
                         leader",
                        error.detail()
                    );
                }
                Some(backoff.next(Instant::now()))
            }
        };
        let pause = async {
            match again {
                Some(pause) => tokio::time::sleep(pause).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = seen.changed() => if changed.is_err() { return },
            () = pause => {}
        }
    }
}

struct Pods {
    api: Api<Pod>,
    own: String,
}

impl Pods {
    async fn bring_in_line(&self, wanted: &Wanted) -> Result<(), CallError> {
        if let Some(former) =
            wanted.former.as_deref().filter(|former| wanted.is_leader && *former != self.own)
        {
            self.take_off(former).await?;
        }
        match wanted.is_leader {
            true => self.patch(&self.own, json!("true")).await,
            false => self.take_off(&self.own).await,
        }
    }

    async fn take_off(&self, pod: &str) -> Result<(), CallError> {
        let found = match call(TIMEOUT, self.api.get_opt(pod)).await {
            // No name that a pod could have: the former holder was none.
            Err(error) if matches!(error.code(), Some(400 | 404)) => None,
            found => found?,
        };
        match found.is_some_and(|pod| pod.labels().contains_key(LEADER_LABEL)) {
            true => self.patch(pod, json!(null)).await,
            false => Ok(()),
        }
    }

    async fn patch(&self, pod: &str, value: serde_json::Value) -> Result<(), CallError> {
        let patch = json!({"metadata": {"labels": {LEADER_LABEL: value}}});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        match call(TIMEOUT, self.api.patch(pod, &params, &Patch::Merge(patch))).await {
            Err(error) if error.code() == Some(404) && value.is_null() => Ok(()),
            patched => patched.map(drop),
        }
    }
}
