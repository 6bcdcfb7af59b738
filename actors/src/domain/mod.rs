//! Every decision of the product, as plain data and pure functions.
//!
//! No ractor, no tokio, no IO. Time is passed in: wall-clock moments as [`jiff::Timestamp`], durations on
//! the monotonic clock as differences of [`std::time::Instant`].

pub mod backoff;
pub mod config;
pub mod ids;
pub mod inventory;
pub mod node;
pub mod port;
pub mod reason;
pub mod restart;
pub mod status;
