//! Keeping children alive: slots, restarts, timers, ordered shutdown, and the tree as data.
//!
//! A parent owns a [`ChildSlot`] (or a [`ChildSet`]) per child, asks it about each supervision event and
//! starts the child again when the slot's restart message arrives. What ended, why, and how often is kept
//! in the [`Tree`], which anybody may read at any moment.
//!
//! Guarantees:
//!
//! - A child that panicked, failed, was killed, stopped unasked or did not start is started again after a
//!   back-off; one that ends too often goes to its parent's decision; one told to stop stays stopped.
//! - A message from a timer or task that was replaced in the meantime is recognised by its [`Ticket`].
//! - Dropping a slot, timer or task cancels what it had going on and takes its entries out of the tree.

mod exit;
mod fault;
mod node;
mod set;
mod shutdown;
mod slot;
mod task;
#[cfg(feature = "test-util")]
pub mod testing;
mod timer;
mod tree;

pub use exit::{ChildExit, Outcome, Suspect};
pub use fault::Hook;
#[cfg(feature = "test-util")]
pub use fault::{Fault, FaultPlan};
pub use node::Node;
pub use set::ChildSet;
pub use shutdown::{Stopped, stop_children_in_order};
pub use slot::{ChildSlot, ChildSpec, OnDue, Spawned};
pub use task::{AbortOnDrop, TaskPanicked, TaskSlot};
pub use timer::{Ticket, TimerSlot, now};
pub use tree::{Tree, TreeNode};
