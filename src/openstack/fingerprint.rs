use std::fmt;

use sha2::{Digest, Sha256};

/// A hash over several texts: equal texts are recognised without keeping them.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Fingerprint([u8; 32]);

impl Fingerprint {
    pub(super) fn of(parts: &[&str]) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            // The length first: ("ab", "c") is not ("a", "bc").
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part.as_bytes());
        }
        Self(hash.finalize().into())
    }
}

impl fmt::Debug for Fingerprint {
    /// Says nothing: it is made from passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint")
    }
}
