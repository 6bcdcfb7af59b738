//! The operator against a real Kubernetes API, with a simulated cloud and Viola: `make e2e-kube`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod cluster;
#[path = "../e2e_support/mod.rs"]
mod e2e_support;
#[allow(dead_code)]
#[path = "../e2e_sim/process.rs"]
mod process;
mod proxy;
#[allow(dead_code)]
#[path = "../e2e_sim/world.rs"]
mod world;

mod away;
mod chart;
mod lifecycle;
mod many;
mod policy;
mod replicas;
mod schema;
mod shards;
mod state;
mod upgrade;
mod viola_api;
mod workload;
