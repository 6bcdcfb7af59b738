//! The operator end to end over loopback sockets, against the simulated cloud and Viola.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../e2e_support/mod.rs"]
mod e2e_support;
mod process;
mod proxy;
mod world;

mod bad_cloud;
mod bad_viola;
mod commands;
mod cost;
mod credentials;
mod down_ports;
mod folder;
mod inventory;
mod names;
mod odd_ports;
mod odd_vms;
mod plan_cases;
mod policy;
mod policy_file;
mod rest;
mod root_restart;
mod secrecy;
mod signals;
