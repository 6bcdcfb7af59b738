//! Secrets of the API server: read by name when they are needed, never listed or watched.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1;
use kube::{Api, Client};
use multinic_actors::boundary::BoxFuture;
use secrecy::SecretString;

use super::client::bounded;
use crate::secrets::{SecretData, SecretError, SecretSource};

type Copies = BTreeMap<(String, String), SecretData>;

/// The Secrets of a cluster. While it cannot be read, the last good copy serves.
pub struct KubeSecrets {
    client: Client,
    copies: Mutex<Copies>,
}

impl KubeSecrets {
    /// Of the cluster that the client leads to.
    pub fn new(client: Client) -> Self {
        Self { client, copies: Mutex::default() }
    }

    fn copies(&self) -> MutexGuard<'_, Copies> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn read(&self, namespace: String, name: String) -> Result<Option<SecretData>, SecretError> {
        let api: Api<v1::Secret> = Api::namespaced(self.client.clone(), &namespace);
        let key = (namespace, name);
        match bounded(api.get_opt(&key.1)).await {
            Ok(Some(secret)) => {
                let data = decode(secret);
                self.copies().insert(key, data.clone());
                Ok(Some(data))
            }
            Ok(None) => {
                self.copies().remove(&key);
                Ok(None)
            }
            // Also a 403: an API server that starts answers so for a while.
            Err(error) => match self.copies().get(&key) {
                Some(copy) => Ok(Some(copy.clone())),
                None => {
                    let (namespace, name) = key;
                    Err(SecretError { namespace, name, problem: error.to_string() })
                }
            },
        }
    }
}

impl SecretSource for KubeSecrets {
    fn get(&self, namespace: &str, name: &str) -> BoxFuture<'_, Result<Option<SecretData>, SecretError>> {
        Box::pin(self.read(namespace.to_owned(), name.to_owned()))
    }
}

fn decode(secret: v1::Secret) -> SecretData {
    let data = secret.data.unwrap_or_default().into_iter();
    data.filter_map(|(key, value)| Some((key, SecretString::from(String::from_utf8(value.0).ok()?))))
        .collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use secrecy::ExposeSecret;

    use super::*;

    #[test]
    fn only_text_is_taken() {
        let data = [("a", b"key\n".to_vec()), ("b", vec![0xff])];
        let data = data.map(|(key, value)| (key.to_owned(), ByteString(value))).into();
        let decoded = decode(v1::Secret { data: Some(data), ..v1::Secret::default() });
        assert_eq!(decoded.keys().collect::<Vec<_>>(), ["a"]);
        assert_eq!(decoded["a"].expose_secret(), "key\n");
    }
}
