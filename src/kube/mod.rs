//! The Kubernetes side: the `OpenstackConfig` types and how they become a validated config, the watch that
//! brings them, the Secrets they name, the status they get, and the state that is kept of them.

pub mod client;
mod observed;
pub mod openstack_config;
pub mod raw_object;
pub mod secrets;
pub mod state;
pub mod status;
pub mod validate;
pub mod watch;

pub use observed::ObservedStatuses;
