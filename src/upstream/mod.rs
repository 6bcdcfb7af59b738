//! One HTTP layer for every service we call: pooled clients, deadlines, size caps, limits, error texts.
//!
//! [`Upstream`] sends one request and hands back a complete 2xx answer or an [`UpstreamError`] whose text
//! can stand in a status. [`Limiter`] decides when a request to a cloud may start.

mod answer;
mod client;
mod connection;
mod error;
mod limits;
mod message;
mod queue;
mod retry_after;
mod secrecy;
mod span;

pub use answer::{Answer, Call, Repeat};
pub use client::{BadCaBundle, MAX_BODY, Tls, Upstream, UpstreamSettings};
pub use error::{Body, ErrorKind, UpstreamError};
pub use limits::{CloudLimits, Limiter, Permit, Resting, Turn};
pub(crate) use message::tidy as stable_text;
