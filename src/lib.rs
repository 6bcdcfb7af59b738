//! multinic-operator: adapters and entry points round the supervision tree of `multinic-actors`.

pub mod app;
pub mod cli;
pub mod commands;
pub mod http;
pub mod kube;
pub mod openstack;
pub mod plan;
pub mod policy;
pub mod secrets;
pub mod settings;
pub mod sim;
pub mod source;
pub mod source_dir;
pub mod store;
pub mod telemetry;
pub mod upstream;
pub mod viola;
pub mod viola_api;
