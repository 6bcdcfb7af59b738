//! The Kubernetes side: the `OpenstackConfig` types and how they become a validated config.

pub mod openstack_config;
