//! Contrabass: which Keystone a provider has, and its administrator's account.

use std::sync::Arc;
use std::time::Duration;

use multinic_actors::boundary::CloudError;
use multinic_actors::domain::reason::Reason;
use reqwest::{Method, Request, Url};
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

use super::cipher::{self, CipherError};
use super::errors;
use super::flight::Flights;
use super::keystone::Account;
use super::url_parts;
use crate::upstream::{Call, Repeat, Tls, Upstream};

const SERVICE: &str = "contrabass";
const OPERATION: &str = "look up provider";
/// Keystone's domain where Contrabass gives none.
const DEFAULT_DOMAIN: &str = "Default";

/// One provider to look up.
#[derive(Clone, Debug)]
pub(super) struct Lookup<'a> {
    /// Of the config that asks.
    pub(super) namespace: &'a str,
    pub(super) endpoint: &'a str,
    pub(super) provider: &'a str,
    pub(super) timeout: Duration,
    pub(super) tls: Tls,
}

/// What Contrabass says of a provider. The password is still encrypted: keys differ by config.
#[derive(Debug)]
pub(super) struct Provider {
    keystone: Url,
    user: String,
    domain: String,
    sealed: SecretString,
}

/// The look-ups, shared by all configs.
#[derive(Debug, Default)]
pub(super) struct Contrabass {
    providers: Flights<(String, Tls), Arc<Provider>>,
}

impl Contrabass {
    /// A look-up that is not older than `keep`.
    pub(super) async fn provider(
        &self,
        upstream: &Upstream,
        lookup: &Lookup<'_>,
        keep: Duration,
    ) -> Result<Arc<Provider>, CloudError> {
        let url = url(lookup)?;
        let flight = self.providers.get((url.to_string(), lookup.tls.clone()), keep);
        flight
            .run(|_, at| at.elapsed() < keep, async { ask(upstream, lookup, url).await.map(Arc::new) })
            .await
    }
}

fn url(lookup: &Lookup<'_>) -> Result<Url, CloudError> {
    let config_error = |text: &str| CloudError::new(Reason::ConfigError, text);
    let base = url_parts::base(lookup.endpoint)
        .ok_or_else(|| config_error("settings.contrabassEndpoint is not an http(s) URL"))?;
    let id = url_parts::segment(lookup.provider)
        .ok_or_else(|| config_error("credentials.openstackProviderID cannot be a provider's id"))?;
    Ok(url_parts::join(&base, &format!("v1/contrabass/admin/infra/provider/{id}")))
}

async fn ask(upstream: &Upstream, lookup: &Lookup<'_>, url: Url) -> Result<Provider, CloudError> {
    let call = Call {
        service: SERVICE,
        operation: OPERATION,
        namespace: Arc::from(lookup.namespace),
        cloud: Arc::from(lookup.provider),
        timeout: lookup.timeout,
        repeat: Repeat::OnceIfClosed,
        tls: lookup.tls.clone(),
    };
    let answer = match upstream.send(&call, Request::new(Method::GET, url)).await {
        Ok(answer) => answer,
        Err(error) if error.kind.status() == Some(404) => {
            let hint = format!("is there a provider {:?}?", lookup.provider);
            return Err(errors::with_hint(Reason::ContrabassError, error, &hint));
        }
        Err(error) => return Err(errors::of(Reason::ContrabassError, error)),
    };
    read(&answer.body)
        .map_err(|problem| errors::of(Reason::ContrabassError, errors::invalid(SERVICE, OPERATION, problem)))
}

fn read(body: &[u8]) -> Result<Provider, String> {
    let answer: Value = serde_json::from_slice(body).map_err(|_| "the answer is not JSON".to_owned())?;
    let text = |path: &str| {
        let value = answer.pointer(path)?;
        let text = value.as_str().map(str::to_owned);
        let text = text.or_else(|| value.is_number().then(|| value.to_string()))?;
        (!text.trim().is_empty()).then(|| text.trim().to_owned())
    };
    let needed =
        |path: &str| text(path).ok_or_else(|| format!("the answer has no {}", path[1..].replace('/', ".")));
    Ok(Provider {
        keystone: url_parts::keystone_base(&needed("/data/url")?)
            .ok_or_else(|| "data.url is not an http(s) URL".to_owned())?,
        user: needed("/data/attributes/adminId")?,
        sealed: SecretString::from(needed("/data/attributes/adminPw")?),
        domain: text("/data/attributes/domain").unwrap_or_else(|| DEFAULT_DOMAIN.to_owned()),
    })
}

impl Provider {
    /// The account, with its password decrypted.
    pub(super) fn account(&self, key: &SecretString) -> Result<Account, CloudError> {
        let password = cipher::decrypt(key.expose_secret().as_bytes(), self.sealed.expose_secret()).map_err(
            |error| {
                // A key of an impossible length is wrong whatever Contrabass says.
                match error {
                    CipherError::KeyLength(_) => CloudError::new(Reason::ConfigError, error.to_string()),
                    _ => CloudError::new(
                        Reason::ContrabassError,
                        format!("{SERVICE}: {OPERATION}: the password adminPw: {error}"),
                    ),
                }
            },
        )?;
        Ok(Account {
            keystone: self.keystone.clone(),
            domain: self.domain.clone(),
            user: self.user.clone(),
            password,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWORD: &str = "dJsHjBidm1Egme0pkbTPUx6DuWoEs0tjBI+GPC34AaQPC34aCqfUBl0PKYuQAZXk";

    fn provider() -> Value {
        serde_json::json!({"code": 200, "data": {
            "url": "http://k:5000/v3/", "name": "dev",
            "attributes": {"adminId": "admin", "adminPw": PASSWORD, "domain": "default", "rabbitMQId": null},
        }})
    }

    fn without(pointer: &str) -> String {
        let mut answer = provider();
        *answer.pointer_mut(pointer).unwrap() = Value::Null;
        read(answer.to_string().as_bytes()).err().unwrap()
    }

    #[test]
    fn the_account_is_read_and_its_password_decrypted() {
        let provider = read(provider().to_string().as_bytes()).unwrap();
        let account = provider.account(&SecretString::from("conbaEncrypt2025")).unwrap();
        assert_eq!(account.keystone.as_str(), "http://k:5000/");
        assert_eq!((account.user.as_str(), account.domain.as_str()), ("admin", "default"));
        assert_eq!(account.password.expose_secret(), "CloudExpert2025!");
        assert!(!format!("{provider:?} {account:?}").contains("CloudExpert"));
        assert!(!format!("{provider:?}").contains(PASSWORD));
    }

    #[test]
    fn a_missing_field_is_named() {
        assert_eq!(without("/data/url"), "the answer has no data.url");
        assert_eq!(without("/data/attributes/adminId"), "the answer has no data.attributes.adminId");
        assert_eq!(without("/data/attributes"), "the answer has no data.attributes.adminId");
        assert_eq!(read(b"<html>").err().unwrap(), "the answer is not JSON");
    }

    #[test]
    fn a_wrong_key_and_a_key_of_a_wrong_length_are_told_apart() {
        let provider = read(provider().to_string().as_bytes()).unwrap();
        let error = |key: &str| provider.account(&SecretString::from(key)).unwrap_err();
        assert_eq!(error("short").reason, Reason::ConfigError);
        assert_eq!(error("short").message, "the encrypt key has 5 bytes; AES takes 16, 24 or 32");
        assert_eq!(error("anotherEncrypt25").reason, Reason::ContrabassError);
    }

    #[test]
    fn an_id_is_one_segment_of_the_url() {
        let lookup = |provider| Lookup {
            namespace: "n",
            endpoint: "http://c:8080/api/",
            provider,
            timeout: Duration::from_secs(1),
            tls: Tls::default(),
        };
        assert_eq!(
            url(&lookup("a/b c")).unwrap().as_str(),
            "http://c:8080/api/v1/contrabass/admin/infra/provider/a%2Fb%20c"
        );
        assert_eq!(url(&lookup("..")).unwrap_err().reason, Reason::ConfigError);
    }
}
