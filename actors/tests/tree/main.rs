//! The whole tree over a world in memory: what is sent when, whatever goes wrong.
//!
//! Every test owns its world, and its world fails if an actor is left.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so")]

mod answers;
mod chaos;
mod down_ports;
mod every_message;
mod first_days;
mod giving_up;
mod lives;
mod log_lines;
mod matrix;
mod neighbours;
mod node_conflicts;
mod orders;
mod phases;
mod pruning;
mod races;
mod reference_faults;
mod shards;
mod store;
mod tree_crash;
