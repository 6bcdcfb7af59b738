//! Secrets of the cluster, by `get`: the operator needs no right to list them.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use multinic_actors::boundary::BoxFuture;

use super::client::{CALL_TIMEOUT, CallError, call};
use crate::secrets::{SecretData, SecretError, SecretSource};

/// Reads Secrets from the API server; while it is away, the last good copy serves.
pub struct KubeSecrets {
    client: Client,
    copies: Copies,
}

impl KubeSecrets {
    /// Nothing is read yet.
    pub fn new(client: Client) -> Self {
        Self { client, copies: Copies::default() }
    }
}

impl SecretSource for KubeSecrets {
    fn get(&self, namespace: &str, name: &str) -> BoxFuture<'_, Result<Option<SecretData>, SecretError>> {
        let key = (namespace.to_owned(), name.to_owned());
        Box::pin(async move {
            let api: Api<Secret> = Api::namespaced(self.client.clone(), &key.0);
            let answer = call(CALL_TIMEOUT, api.get_opt(&key.1)).await;
            self.copies.take(key, answer.map(|secret| secret.map(decode)))
        })
    }
}

/// Secrets as they were last read.
#[derive(Default)]
struct Copies {
    secrets: Mutex<HashMap<(String, String), SecretData>>,
}

impl Copies {
    fn secrets(&self) -> MutexGuard<'_, HashMap<(String, String), SecretData>> {
        self.secrets.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(
        &self,
        key: (String, String),
        answer: Result<Option<SecretData>, CallError>,
    ) -> Result<Option<SecretData>, SecretError> {
        let error = match answer {
            Ok(Some(data)) => {
                self.secrets().insert(key, data.clone());
                return Ok(Some(data));
            }
            Ok(None) => {
                // It is gone for good: what it held must not be used any more.
                self.secrets().remove(&key);
                return Ok(None);
            }
            Err(error) => error,
        };
        let (namespace, name) = &key;
        match self.secrets().get(&key) {
            Some(copy) => {
                tracing::debug!("secret {namespace}/{name}: {}; the copy read last serves", error.detail());
                Ok(Some(copy.clone()))
            }
            None => {
                tracing::debug!("secret {namespace}/{name}: {}", error.detail());
                let (namespace, name) = key;
                Err(SecretError { namespace, name, problem: error.to_string() })
            }
        }
    }
}

fn decode(secret: Secret) -> SecretData {
    let mut decoded = SecretData::default();
    for (key, value) in secret.data.unwrap_or_default() {
        decoded.insert_bytes(&key, value.0);
    }
    decoded
}

#[cfg(test)]
mod tests {
    use k8s_openapi::ByteString;
    use secrecy::ExposeSecret;

    use super::*;

    fn key() -> (String, String) {
        ("n".to_owned(), "s".to_owned())
    }

    fn data(value: &str) -> SecretData {
        [("k", value)].into()
    }

    fn value(read: Result<Option<SecretData>, SecretError>) -> Option<String> {
        Some(read.unwrap()?.text("k").unwrap().expose_secret().to_owned())
    }

    #[test]
    fn the_last_good_copy_serves_while_the_api_server_is_away() {
        let copies = Copies::default();
        let away = || Err(CallError::TimedOut);
        let error = copies.take(key(), away()).unwrap_err();
        assert_eq!(error.to_string(), "secret n/s: the API server does not answer in time");
        assert_eq!(value(copies.take(key(), Ok(Some(data("1"))))).as_deref(), Some("1"));
        assert_eq!(value(copies.take(key(), Ok(Some(data("2"))))).as_deref(), Some("2"));
        assert_eq!(value(copies.take(key(), away())).as_deref(), Some("2"));
        assert_eq!(value(copies.take(key(), Ok(None))), None);
        assert!(copies.take(key(), away()).is_err(), "a deleted Secret is not remembered");
    }

    #[test]
    fn a_value_that_is_no_text_is_known_as_such() {
        let entry = |key: &str, value: &[u8]| (key.to_owned(), ByteString(value.to_vec()));
        let data = [entry("k", b"v"), entry("binary", &[0xff, 0xfe])].into();
        let secret = Secret { data: Some(data), ..Secret::default() };
        let decoded = decode(secret);
        assert_eq!(decoded.text("k").unwrap().expose_secret(), "v");
        let error = |key| decoded.text(key).unwrap_err().to_string();
        assert_eq!(error("binary"), "has no UTF-8 text in key binary; save it as UTF-8");
        assert_eq!(error("other"), "has no key other");
    }
}
