//! Dashboards and alerts with a real Prometheus that scrapes the program: `make e2e-observability`.
//!
//! `prometheus` and `promtool` are found on PATH; the make target puts them there.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../e2e_kube/cluster.rs"]
#[allow(dead_code)]
mod cluster;
#[path = "../e2e_support/mod.rs"]
mod e2e_support;
#[path = "../e2e_sim/process.rs"]
#[allow(dead_code)]
mod process;
mod prometheus;
mod watch;
#[path = "../e2e_sim/world.rs"]
#[allow(dead_code)] // its other half is used there
mod world;

mod drills;
mod leaders;
mod panels;
