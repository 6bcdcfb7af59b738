//! The Kubernetes side: the `OpenstackConfig` types and how they become a validated config.

pub mod openstack_config;
pub mod raw_object;
pub mod validate;
