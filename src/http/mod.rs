//! axum servers: the inventory routes, health, and what the tree looks like now.
//!
//! Nothing here asks an actor: every route reads a view that its owner keeps up to date, so that readers,
//! however many and however slow, never hold up a writer.

mod answer;
mod api;
mod auth;
mod board;
mod configs;
mod docs;
mod error;
mod guard;
mod interfaces;
pub(crate) mod openapi;
mod ops;
mod page;
mod query;
mod readers;
mod schemas;
mod serve;
mod stall;
mod tls;
mod token_file;

pub(crate) use api::guarded;
pub use api::{ApiParts, Standby, api_router};
pub(crate) use auth::admit_bearer;
pub use board::ConfigBoard;
pub(crate) use docs::document;
pub use error::ApiError;
pub(crate) use error::ErrorBody;
pub(crate) use guard::GuardLimits;
pub use ops::{metrics_router, probe_router};
pub use readers::{Check, ConfigReader, HealthReader, InventoryReader, TreeReader};
pub use serve::{ServeLimits, serve};
pub use tls::{Certificate, TlsError, TlsListener};
pub use token_file::{TokenFile, TokenFileError};
