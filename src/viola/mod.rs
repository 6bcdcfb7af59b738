//! The Viola API: the client, and (later) the stand-in server.

mod answer;
mod client;

pub use client::{SERVICE, ViolaClient, ViolaSettings};
