//! Every decision of the product, as plain data and pure functions.
//!
//! No ractor, no tokio, no IO. Time is passed in: wall-clock moments as [`jiff::Timestamp`], durations on
//! the monotonic clock as differences of [`std::time::Instant`].

pub mod allocation;
pub mod backoff;
pub mod cadence;
pub mod change;
pub mod claims;
pub mod config;
pub mod down_port;
pub mod ids;
pub mod inventory;
pub mod node;
pub mod outbox;
pub mod port;
pub mod post;
pub mod progress;
pub mod reason;
pub mod records;
pub mod restart;
pub mod selection;
pub mod settle;
pub mod status;
pub mod vm;

#[cfg(test)]
pub(crate) mod samples;
#[cfg(test)]
mod story;
