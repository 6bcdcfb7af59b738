//! The Kubernetes side: the `OpenstackConfig` types and how they become a validated config, the watch that
//! brings them, the Secrets they name, the status they get, the state that is kept of them, and the Lease by which
//! one replica leads.

pub mod client;
pub mod crd;
pub mod event;
pub mod label_selector;
pub mod lease;
pub mod node_config;
mod observed;
pub mod openstack_config;
pub mod raw_object;
pub mod secrets;
pub mod state;
pub mod status;
pub mod validate;
pub mod watch;

pub use observed::ObservedStatuses;
