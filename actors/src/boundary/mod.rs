//! What the tree needs from outside, as traits. Adapters implement them; tests use in-memory ones.

mod clock;
mod cloud;
mod delivery;
mod status;
mod store;

pub use crate::domain::post::{NodeResult, PostAnswer, PostError, PostFailure};
pub use clock::{Clock, SystemClock};
pub use cloud::{Cloud, CloudError, ObserveRequest, Session, Urgency};
pub use delivery::Delivery;
pub use status::StatusSink;
pub use store::{Loaded, Saved, Store, StoreError};

/// A boxed future, so that the traits can be used as objects.
pub type BoxFuture<'a, T> = futures::future::BoxFuture<'a, T>;
