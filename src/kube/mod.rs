//! The Kubernetes side: the `OpenstackConfig` types and how they become a validated config, the watch that
//! brings them, the Secrets they name, and the status they get.

pub mod client;
pub mod node_config;
mod observed;
pub mod openstack_config;
pub mod raw_object;
pub mod secrets;
pub mod status;
pub mod validate;
pub mod watch;

pub use observed::ObservedStatuses;
