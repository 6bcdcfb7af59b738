//! Bugs that the chaos tests plant on purpose, to show that they would be found.
//!
//! Without the feature `planted-bugs` nothing of this is in a build: [`is`] is `false` for the compiler.

/// A bug, and where it sits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// Outbox: a node that changed while it was being sent counts as delivered with its newest list.
    OutboxForgetsTheNewest,
    /// Outbox: after a POST of unknown outcome the list of that POST is sent again, not the newest.
    OldListSentAgain,
    /// Outbox: a POST of unknown outcome leaves no doubt.
    NoDoubt,
    /// Allocation: `Sticky` numbers by MAC at every change.
    RenumberedByMac,
    /// Node: lists that differ in MTU only are the same.
    MtuIgnored,
    /// Settling: a node that belongs to another object is sent all the same.
    ClaimNotChecked,
    /// DOWN ports: the counter of fast re-sends is kept when no port is DOWN any more.
    DownCounterNeverResets,
    /// Selection: a delivered port that passes through BUILD loses its place.
    DroppedOnBuild,
    /// Inventory: an event is acknowledged before it is written.
    AcknowledgedBeforeWritten,
    /// VM: the last port gone means that the node gets an empty list.
    EmptyListBelieved,
    /// Change policy: what is to be held back is sent.
    HeldChangeSent,
    /// Delivery: a paused object still sends.
    PausedStillSends,
}

impl Bug {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::OutboxForgetsTheNewest,
        Self::OldListSentAgain,
        Self::NoDoubt,
        Self::RenumberedByMac,
        Self::MtuIgnored,
        Self::ClaimNotChecked,
        Self::DownCounterNeverResets,
        Self::DroppedOnBuild,
        Self::AcknowledgedBeforeWritten,
        Self::EmptyListBelieved,
        Self::HeldChangeSent,
        Self::PausedStillSends,
    ];
}

#[cfg(feature = "planted-bugs")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
}

/// Plants a bug in everything that runs in this thread from now on, or takes it out again.
#[cfg(feature = "planted-bugs")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether the bug is planted.
#[cfg(feature = "planted-bugs")]
pub(crate) fn is(bug: Bug) -> bool {
    PLANTED.get() == Some(bug)
}

/// Never.
#[cfg(not(feature = "planted-bugs"))]
#[inline(always)]
pub(crate) const fn is(_bug: Bug) -> bool {
    false
}
