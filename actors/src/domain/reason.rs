//! Why a config, or one of its VMs, is in the state it is in: the words of conditions, REST and metrics.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The reason of the `Ready` condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Reason {
    /// No round has ended yet.
    Pending,
    /// The last round changed something and all of it is delivered.
    Synced,
    /// The last round found nothing to change.
    NoChange,
    /// The object, a Secret it names or the operator's settings are wrong.
    ConfigError,
    /// Contrabass did not give usable credentials.
    ContrabassError,
    /// Keystone refused the login or could not be reached.
    KeystoneError,
    /// The catalog has no usable endpoint for Neutron.
    NeutronEndpointError,
    /// The port list could not be read completely.
    NeutronPortError,
    /// A subnet could not be read.
    NeutronSubnetError,
    /// A network (its MTU) could not be read.
    NeutronNetworkError,
    /// The object names no subnet.
    SubnetRequired,
    /// A subnet does not exist or is not visible.
    SubnetNotFound,
    /// A subnet name fits several subnets.
    SubnetNotUnique,
    /// Nova did not answer for any VM.
    NovaError,
    /// A wanted change is undelivered because a POST failed.
    ViolaPostError,
    /// The Cluster API objects could not be read.
    ClusterError,
    /// Magnum did not name the cluster.
    MagnumError,
    /// The workload cluster did not take the node configs.
    DeliveryError,
    /// The config's actors gave up for now.
    InternalError,
    /// Every VM is skipped.
    AllSkipped,
}

impl Reason {
    /// The value of the `Ready` condition: true, false, or unknown.
    pub fn ready(self) -> Option<bool> {
        match self {
            Self::Pending => None,
            Self::Synced | Self::NoChange => Some(true),
            _ => Some(false),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Why one VM is left out of a round while the others go on. Its delivered config stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum SkipReason {
    /// Nova has no such server.
    ServerNotFound,
    /// Nova did not answer for it and no earlier name is known.
    NodeNameUnknown,
    /// Its name cannot be a Kubernetes node's name.
    InvalidNodeName,
    /// Its machine has no node yet.
    NodePending,
    /// Another VM or another config has the node.
    NodeConflict,
    /// A port of it cannot be delivered as it is.
    InvalidPort,
    /// Viola refused the node's config.
    NodeRejected,
    /// The workload cluster's node is another machine.
    NodeMismatch,
    /// Its last interface is gone but its delivered config remains.
    StaleNode,
    /// The change policy holds a change back.
    ChangeHeld,
    /// It could not be worked out in this round (an actor failed); the next round tries again.
    NotDecided,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_reads_as_its_word_and_only_two_of_them_are_good() {
        let good = [Reason::Synced, Reason::NoChange];
        for reason in [Reason::ConfigError, Reason::ViolaPostError, Reason::AllSkipped, Reason::InternalError]
        {
            assert_eq!(reason.ready(), Some(false), "{reason}");
        }
        assert_eq!(good.map(Reason::ready), [Some(true); 2]);
        assert_eq!(Reason::Pending.ready(), None);
        assert_eq!(Reason::NeutronPortError.to_string(), "NeutronPortError");
        assert_eq!(serde_json::to_string(&Reason::NeutronPortError).unwrap(), "\"NeutronPortError\"");
        assert_eq!(SkipReason::ChangeHeld.to_string(), "ChangeHeld");
    }
}
