//! The guarantees of the supervision module, shown on a small tree: outer ── parent ── one, many.
//!
//! Every test owns its world, which fails if an actor is left running.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on says so")]

mod actors;
mod nesting;
mod restart;
mod set;
mod stop;
mod task;
mod tree;
mod world;
