//! The Viola test API over real HTTP, in front of a made-up API server.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests

mod cluster;
mod server;

mod answers;
mod load;
mod process;
mod routing;
