//! What the receiver of node configs answered, sorted by what is to be done about it.

use std::time::Duration;

use super::ids::NodeName;

/// A 2xx answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PostAnswer {
    /// All nodes were taken.
    AllAccepted,
    /// Node by node. A node that is missing here was not taken.
    PerNode(Vec<NodeResult>),
}

/// What became of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeResult {
    /// The node.
    pub node: NodeName,
    /// Taken, or refused with this message.
    pub result: Result<(), String>,
    /// It was refused because another applier owns a field of it.
    pub is_conflict: bool,
}

/// A POST that was not answered with 2xx.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct PostError {
    /// What kind of failure, and so what to do.
    pub failure: PostFailure,
    /// `viola: post node configs: 503 Service Unavailable "…"`: stable text, no secret.
    pub message: String,
    /// What the service asked us to wait.
    pub retry_after: Option<Duration>,
}

/// The kinds of failure that are handled differently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PostFailure {
    /// The request may have been carried out: a timeout, a connection lost after sending, 408, 502–504 (a
    /// gateway's word says nothing about the service behind it).
    UnknownOutcome,
    /// It was not carried out and may be repeated: no connection, 429.
    Unavailable,
    /// 400, 409, 413, 422: some node of the batch is refused.
    Refused,
    /// 500: refused if it happens twice for one batch; a part may have been carried out.
    ServerError,
    /// 401, 403, 404, 405, 3xx: nothing of this config can be delivered.
    Rejected,
}

impl PostFailure {
    /// Whether the nodes may have what was sent to them all the same.
    pub fn leaves_doubt(self) -> bool {
        matches!(self, Self::UnknownOutcome | Self::ServerError)
    }
}
