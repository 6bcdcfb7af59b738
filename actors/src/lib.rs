//! The supervision tree of multinic-operator and its pure domain.
//!
//! This crate knows no HTTP, no Kubernetes and no files. Everything it needs from outside stands as a
//! trait in [`boundary`]; every decision is a pure function in [`domain`]; the actors execute what those
//! functions decide, and [`supervision`] keeps them alive.

pub mod boundary;
pub mod claim_table;
pub mod config;
pub mod domain;
pub mod inventory;
#[doc(hidden)]
pub mod planted;
pub mod port;
pub mod root;
pub mod supervision;
#[cfg(feature = "test-util")]
pub mod testing;
pub mod token;
pub mod trace;
pub mod viola;

/// What actors there are, as the tree and the metrics name them.
pub const ACTOR_KINDS: [&str; 6] = ["root", "inventory", "config", "token", "port", "viola"];
