//! Ids and MACs from a seed: the same seed gives the same ones. Tokens by chance.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};

/// A counter that is hashed with the seed.
#[derive(Debug)]
pub(crate) struct Ids {
    seed: u64,
    next: u64,
}

impl Ids {
    pub fn new(seed: u64) -> Self {
        Self { seed, next: 0 }
    }

    pub fn bytes(&mut self) -> [u8; 32] {
        self.next += 1;
        let mut hash = Sha256::new();
        hash.update(self.seed.to_le_bytes());
        hash.update(self.next.to_le_bytes());
        hash.finalize().into()
    }

    /// As Keystone writes its ids: 32 hex digits.
    pub fn hex(&mut self) -> String {
        self.bytes()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// A version 4 UUID.
    pub fn uuid(&mut self) -> String {
        let mut bytes = self.bytes();
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        format!("{}-{}-{}-{}-{}", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
    }

    /// A MAC with Neutron's default prefix.
    pub fn mac(&mut self) -> String {
        let bytes = self.bytes();
        format!("fa:16:3e:{:02x}:{:02x}:{:02x}", bytes[0], bytes[1], bytes[2])
    }

    /// As long as a real project-scoped Fernet token: URL limits count it. Not from
    /// the seed: no two clouds accept each other's tokens.
    pub fn token(&mut self) -> String {
        let mut text = String::from("gAAAAAB");
        while text.len() < 183 {
            text.push_str(&BASE64_URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()));
        }
        text.truncate(183);
        text
    }

    pub fn iv(&mut self) -> [u8; 16] {
        let mut iv = [0; 16];
        iv.copy_from_slice(&self.bytes()[..16]);
        iv
    }
}
