//! For tests: the whole tree over boundaries that live in memory, in virtual time.
//!
//! A test tells a story: it builds a world ([`FakeCloud`], [`FakeDelivery`], [`FakeStore`]), lets a
//! [`Harness`] run the real root over it, changes the world or hurts an actor, waits for a condition, and
//! looks at what was sent when. Every run needs tokio's paused time; nothing here waits for a real clock.

mod clock;
mod cloud;
mod cloud_objects;
mod config;
mod delivery;
mod faults;
mod harness;
mod reading;
mod script;
mod status;
mod store;
mod watch;
mod witness;
mod workload;

pub use clock::{START, TestClock};
pub use cloud::{CloudOf, FakeCloud, Lie, Login, Look};
pub use cloud_objects::{Nic, VmView, nic};
pub use config::{ConfigBuilder, config};
pub use delivery::{DeliveryOf, FakeDelivery, Post};
pub use faults::{Faults, Strike};
pub use harness::{Ending, Harness};
pub use reading::{macs, names_by_mac};
pub use status::StatusBoard;
pub use store::FakeStore;
pub use watch::Watch;
pub use witness::FakeWitness;
pub use workload::FakeWorkload;

use std::sync::{Mutex, MutexGuard, PoisonError};

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A test that panicked with the lock held has failed already.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
