//! A Viola for tests: takes what the operator posts and makes `MultiNicNodeConfig` objects of it.
//!
//! The header `x-provider-id` names a cluster ([`routing`]); the body becomes objects ([`request`]); they are
//! applied through the cluster's API server ([`local`]) or by kubectl on a machine that reaches it ([`ssh`]);
//! and each node's result is answered ([`outcome`]). A cluster that hangs holds up nobody else.

mod api;
mod fields;
mod local;
pub(crate) mod openapi;
mod outcome;
mod request;
mod routes;
mod routing;
mod server;
mod settings;
mod ssh;
mod ssh_options;
mod target;

pub use api::PATH;
pub use server::{Running, run, start};
pub use settings::{Secret, ServerSettings, Settings, Surroundings};
