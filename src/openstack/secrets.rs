//! The config's Secrets: the encrypt key and the CA bundle.

use multinic_actors::boundary::CloudError;
use multinic_actors::domain::config::{DEFAULT_KEY_SECRET, EncryptKeySource, SecretKeyRef};
use multinic_actors::domain::reason::Reason;
use secrecy::{ExposeSecret, SecretString};

use crate::secrets::{NoText, SecretSource};

/// Why a Secret's value cannot be had.
enum Missing {
    /// There is no such Secret, no such key in it, or it is blank: what is wrong.
    Absent(String),
    /// The Secret could not be read, or its value is no text.
    Unreadable(String),
}

impl Missing {
    fn into_text(self) -> String {
        match self {
            Self::Absent(text) | Self::Unreadable(text) => text,
        }
    }
}

async fn value(
    source: &dyn SecretSource,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<SecretString, Missing> {
    let data = match source.get(namespace, name).await {
        Ok(Some(data)) => data,
        Ok(None) => return Err(Missing::Absent(format!("there is no Secret {namespace}/{name}"))),
        Err(error) => return Err(Missing::Unreadable(error.to_string())),
    };
    let value = data.text(key).map_err(|problem| {
        let text = format!("Secret {namespace}/{name} {problem}");
        match problem {
            NoText::Absent(_) => Missing::Absent(text),
            NoText::Binary(_) => Missing::Unreadable(text),
        }
    })?;
    match value.expose_secret().trim() {
        "" => Err(Missing::Absent(format!("Secret {namespace}/{name}: key {key} is empty"))),
        text => Ok(SecretString::from(text)),
    }
}

fn config_error(text: String) -> CloudError {
    CloudError::new(Reason::ConfigError, text)
}

/// Contrabass' encrypt key: the Secret that the object names, else the namespace's default Secret, else
/// the object's own field.
pub(super) async fn encrypt_key(
    source: &dyn SecretSource,
    namespace: &str,
    key: &EncryptKeySource,
) -> Result<SecretString, CloudError> {
    if let Some(SecretKeyRef { name, key }) = &key.secret {
        return value(source, namespace, name, key).await.map_err(|missing| {
            config_error(format!("secrets.contrabassEncryptKeySecretRef: {}", missing.into_text()))
        });
    }
    let (name, data_key) = DEFAULT_KEY_SECRET;
    let missing = match value(source, namespace, name, data_key).await {
        Ok(key) => return Ok(key),
        Err(missing) => missing,
    };
    // Without the right to read that Secret the object's own field still serves.
    if let Some(inline) = &key.inline
        && !inline.expose_secret().trim().is_empty()
    {
        return Ok(SecretString::from(inline.expose_secret().trim()));
    }
    Err(config_error(match missing {
        Missing::Unreadable(problem) => format!("no encrypt key: {problem}"),
        Missing::Absent(_) => format!(
            "no encrypt key: name a Secret in secrets.contrabassEncryptKeySecretRef, or create Secret \
             {namespace}/{name} with key {data_key}, or set settings.contrabassEncryptKey"
        ),
    }))
}

/// The PEM text that the object trusts for its endpoints.
pub(super) async fn ca_bundle(
    source: &dyn SecretSource,
    namespace: &str,
    reference: Option<&SecretKeyRef>,
) -> Result<Option<SecretString>, CloudError> {
    let Some(SecretKeyRef { name, key }) = reference else {
        return Ok(None);
    };
    match value(source, namespace, name, key).await {
        Ok(pem) => Ok(Some(pem)),
        Err(missing) => Err(config_error(format!("settings.caBundleSecretRef: {}", missing.into_text()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::secrets::{SecretData, SecretError};
    use multinic_actors::boundary::BoxFuture;
    use std::collections::BTreeMap;

    /// Secrets of the namespace `ns`; `None` = the API server is away.
    struct Fixed(Option<BTreeMap<&'static str, (&'static str, &'static str)>>);

    impl SecretSource for Fixed {
        fn get(&self, namespace: &str, name: &str) -> BoxFuture<'_, Result<Option<SecretData>, SecretError>> {
            let answer = match &self.0 {
                None => Err(SecretError {
                    namespace: namespace.to_owned(),
                    name: name.to_owned(),
                    problem: "forbidden".to_owned(),
                }),
                Some(secrets) => Ok(secrets.get(name).map(|(key, value)| SecretData::from([(*key, *value)]))),
            };
            Box::pin(std::future::ready(answer))
        }
    }

    const DEFAULT: (&str, (&str, &str)) =
        ("contrabass-encrypt-key", ("CONTRABASS_ENCRYPT_KEY", " default\n"));

    async fn key(
        secrets: Option<&[(&'static str, (&'static str, &'static str))]>,
        named: Option<(&str, &str)>,
        inline: Option<&str>,
    ) -> Result<String, String> {
        let source = Fixed(secrets.map(|secrets| secrets.iter().copied().collect()));
        let wanted = EncryptKeySource {
            secret: named.map(|(name, key)| SecretKeyRef { name: name.to_owned(), key: key.to_owned() }),
            inline: inline.map(SecretString::from),
        };
        match encrypt_key(&source, "ns", &wanted).await {
            Ok(key) => Ok(key.expose_secret().to_owned()),
            Err(error) => {
                assert_eq!(error.reason, Reason::ConfigError);
                Err(error.message)
            }
        }
    }

    #[tokio::test]
    async fn the_named_secret_wins_and_is_trimmed() {
        let secrets = [DEFAULT, ("own", ("k", " mine \n"))];
        assert_eq!(key(Some(&secrets), Some(("own", "k")), Some("inline")).await, Ok("mine".to_owned()));
    }

    #[tokio::test]
    async fn a_named_secret_that_is_missing_is_not_replaced_by_another() {
        let secrets = [DEFAULT, ("own", ("k", "  "))];
        for (name, data_key, problem) in [
            ("gone", "k", "there is no Secret ns/gone"),
            ("own", "x", "Secret ns/own has no key x"),
            ("own", "k", "Secret ns/own: key k is empty"),
        ] {
            assert_eq!(
                key(Some(&secrets), Some((name, data_key)), Some("inline")).await,
                Err(format!("secrets.contrabassEncryptKeySecretRef: {problem}"))
            );
        }
    }

    #[tokio::test]
    async fn then_the_default_secret_then_the_field() {
        assert_eq!(key(Some(&[DEFAULT]), None, Some("inline")).await, Ok("default".to_owned()));
        assert_eq!(key(Some(&[]), None, Some(" inline ")).await, Ok("inline".to_owned()));
        assert_eq!(key(None, None, Some("inline")).await, Ok("inline".to_owned()));
    }

    #[tokio::test]
    async fn without_any_the_error_names_all_three() {
        let error = key(Some(&[]), None, None).await.unwrap_err();
        for place in [
            "secrets.contrabassEncryptKeySecretRef",
            "ns/contrabass-encrypt-key with key CONTRABASS_ENCRYPT_KEY",
            "settings.contrabassEncryptKey",
        ] {
            assert!(error.contains(place), "{error}");
        }
        assert_eq!(
            key(None, None, None).await.unwrap_err(),
            "no encrypt key: secret ns/contrabass-encrypt-key: forbidden"
        );
    }
}
