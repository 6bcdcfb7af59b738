//! The Lease by which one of several replicas leads.
//!
//! [`election`] decides (no IO, no clock), [`LeaseApi`] asks the API server, [`Watchdog`] sees to it that a
//! process which does not stop in time ends. Who starts and stops what with it is `app`'s matter.

mod api;
pub mod election;
#[cfg(test)]
#[path = "lease/election_tests.rs"]
mod election_tests;
mod label;
mod watchdog;

pub use api::LeaseApi;
pub use label::{LEADER_LABEL, LeaderLabel};
pub use watchdog::Watchdog;

/// Who a holder is, for people: the pod's name without what makes it unique.
pub fn pod_of(holder: &str) -> &str {
    holder.rsplit_once('_').map_or(holder, |(pod, _)| pod)
}
