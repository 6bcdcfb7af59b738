//! Where Secrets are read from: by name, one at a time, never listed.

use std::collections::BTreeMap;

use multinic_actors::boundary::BoxFuture;
use secrecy::SecretString;

/// A Secret's data, decoded; only keys whose value is UTF-8.
pub type SecretData = BTreeMap<String, SecretString>;

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
