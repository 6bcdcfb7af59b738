use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::BoxFuture;
use crate::domain::config::Config;
use crate::domain::ids::VmId;
use crate::domain::port::Observation;
use crate::domain::reason::Reason;

/// The cloud: credentials, tokens, ports, subnets and servers.
///
/// Everything behind it is shared between configs: sessions, caches, connections, limits.
pub trait Cloud: Send + Sync + 'static {
    /// A session for this config: the shared one if it is good, else one login (one at a time per
    /// account and project, however many configs ask). Reads the Secrets it needs by name.
    ///
    /// With `renew` a session that is past half of its life is replaced; without, it is used until it ends.
    fn session(&self, config: Arc<Config>, renew: bool) -> BoxFuture<'_, Result<Session, CloudError>>;

    /// One complete look at the VMs that `request` names. Chunking, paging, caches and the one repeat
    /// after a 401 are in here.
    ///
    /// # Errors
    /// When any part that is needed could not be read completely: a partial answer is never returned.
    fn observe(
        &self,
        session: Session,
        request: ObserveRequest,
    ) -> BoxFuture<'_, Result<Observation, CloudError>>;
}

/// What to look at.
#[derive(Clone, Debug)]
pub struct ObserveRequest {
    /// The config on whose behalf.
    pub config: Arc<Config>,
    /// The VMs to look at: all of the config's, or those an event named.
    pub vms: Vec<VmId>,
    /// Who waits for it.
    pub urgency: Urgency,
    /// Read subnets, networks and servers anew instead of from the caches.
    pub drop_caches: bool,
}

/// Which requests go first when a cloud's limit is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Urgency {
    /// A periodic poll.
    Routine,
    /// Something happened: an event, a new or changed object.
    Event,
}

/// A login that works, as a handle: the adapter keeps the token itself and renews it behind the handle.
#[derive(Clone)]
pub struct Session {
    /// Half of the token's life is over (monotonic clock).
    pub renew_at: Instant,
    /// When the token ends, for people and metrics.
    pub expires_at: Timestamp,
    /// The adapter's own data.
    pub handle: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("expires_at", &self.expires_at).finish_non_exhaustive()
    }
}

/// Why a login or a look failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct CloudError {
    /// The condition's reason.
    pub reason: Reason,
    /// Service, operation, code and the service's own words; never a secret, never a varying part.
    pub message: String,
    /// OpenStack's request id, for logs and REST.
    pub request_id: Option<String>,
    /// What the service asked us to wait.
    pub retry_after: Option<Duration>,
}

impl CloudError {
    /// An error without request id and `Retry-After`.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into(), request_id: None, retry_after: None }
    }
}
