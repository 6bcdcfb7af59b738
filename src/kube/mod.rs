//! The Kubernetes side: the `OpenstackConfig` types, how they become a validated config, and the API server
//! they are read from and their status is written to.

pub mod client;
mod known;
pub mod openstack_config;
pub mod raw_object;
pub mod secrets;
pub mod status;
mod status_object;
pub mod validate;
pub mod watch;
pub mod watch_health;
