//! What the inventory knows of a config, kept in a ConfigMap beside the object: a replaced pod, a new leader or a
//! restored namespace then sends nothing again and renames nothing.
//!
//! `layout` knows how a state lies there (no IO), `api` reads and writes one, `write` decides what a conflict
//! means, `maps` keeps the books and writes what has changed, `gate` holds an object back until its state is
//! known, `release` lets go of one that another release takes over, `store` puts all behind
//! [`Store`](multinic_actors::boundary::Store), `transfer` is for the commands of a person.

mod api;
#[cfg(test)]
#[path = "state/fake_api.rs"]
mod fake_api;
mod gate;
mod layout;
mod look;
mod maps;
mod release;
mod store;
#[cfg(test)]
#[path = "state/state_tests.rs"]
mod tests;
mod transfer;
mod write;

pub use api::{StateApi, StateError, Stored};
pub use gate::{GateParts, gate};
pub use layout::{Head, LABEL, LayoutError, head_name};
pub use maps::StateMaps;
pub use store::StoreWithStates;
pub use transfer::Listed;
