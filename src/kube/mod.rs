//! The Kubernetes side: the `OpenstackConfig` types and how they become a validated config, the watch that
//! brings them, the Secrets they name, and the status they get; and the Lease by which one replica leads.

pub mod client;
pub mod crd;
pub mod event;
pub mod label_selector;
pub mod lease;
mod observed;
pub mod openstack_config;
pub mod raw_object;
pub mod secrets;
pub mod status;
pub mod validate;
pub mod watch;

pub use observed::ObservedStatuses;
