//! axum servers: the inventory routes, health, and what the tree looks like now.
//!
//! Nothing here asks an actor: every route reads a view that its owner keeps up to date, so that readers,
//! however many and however slow, never hold up a writer.

mod answer;
mod api;
mod auth;
mod board;
mod configs;
mod error;
mod guard;
mod interfaces;
mod log_level;
mod ops;
mod page;
mod query;
mod readers;
mod serve;
mod stall;
mod tls;
mod token_file;

pub use api::{ApiParts, Standby, api_router};
pub use board::ConfigBoard;
pub use error::ApiError;
pub use ops::{metrics_router, probe_router};
pub use readers::{Check, ConfigReader, HealthReader, InventoryReader, TreeReader};
pub use serve::{ServeLimits, serve};
pub use tls::{Certificate, TlsError, TlsListener};
pub use token_file::{TokenFile, TokenFileError};
