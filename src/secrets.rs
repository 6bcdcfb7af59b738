//! Where Secrets are read from: by name, one at a time, never listed.

use std::collections::{BTreeMap, BTreeSet};

use multinic_actors::boundary::BoxFuture;
use secrecy::SecretString;

/// A Secret's data, decoded. What is not UTF-8 (a key store, say) is known by its key alone.
#[derive(Clone, Debug, Default)]
pub struct SecretData {
    texts: BTreeMap<String, SecretString>,
    binary: BTreeSet<String>,
}

/// A Secret does not have the text that is asked for. Completes a sentence that begins with the Secret.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoText {
    /// The key is not there.
    #[error("has no key {0}")]
    Absent(String),
    /// The key is there, with bytes that are no text.
    #[error("has no UTF-8 text in key {0}; save it as UTF-8")]
    Binary(String),
}

impl SecretData {
    /// Takes a text; one of the same key goes.
    pub fn insert(&mut self, key: &str, text: SecretString) {
        self.binary.remove(key);
        self.texts.insert(key.to_owned(), text);
    }

    /// Takes bytes, as an API server keeps them.
    pub fn insert_bytes(&mut self, key: &str, bytes: Vec<u8>) {
        match String::from_utf8(bytes) {
            Ok(text) => self.insert(key, SecretString::from(text)),
            Err(_) => drop(self.binary.insert(key.to_owned())),
        }
    }

    /// The text of a key.
    ///
    /// # Errors
    /// When it has none.
    pub fn text(&self, key: &str) -> Result<&SecretString, NoText> {
        self.texts.get(key).ok_or_else(|| match self.binary.contains(key) {
            true => NoText::Binary(key.to_owned()),
            false => NoText::Absent(key.to_owned()),
        })
    }
}

impl<const N: usize> From<[(&str, &str); N]> for SecretData {
    fn from(texts: [(&str, &str); N]) -> Self {
        let texts = texts.map(|(key, text)| (key.to_owned(), SecretString::from(text)));
        Self { texts: texts.into(), binary: BTreeSet::new() }
    }
}

/// Reads Secrets by name.
pub trait SecretSource: Send + Sync + 'static {
    /// The Secret `name` in `namespace`, or `None` where there is none. While the source is away
    /// the last good copy serves.
    fn get(&self, namespace: &str, name: &str) -> BoxFuture<'_, Result<Option<SecretData>, SecretError>>;
}

/// The source could not be read and no earlier copy is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("secret {namespace}/{name}: {problem}")]
pub struct SecretError {
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub name: String,
    /// What went wrong.
    pub problem: String,
}
