//! A service may repeat in an error what it was sent: a debugging proxy, a page of a firewall. What we sent
//! as a secret is taken out before anything of it reaches a log, a status or REST.

use reqwest::Request;
use reqwest::header::AUTHORIZATION;
use serde_json::Value;

/// Shorter texts are no secrets worth the name, and would take words apart.
const SHORTEST: usize = 4;
/// Bodies beyond this are no logins.
const LONGEST_LOGIN: usize = 16 * 1024;

/// The secrets of one request.
pub(super) struct Secrets(Vec<String>);

impl Secrets {
    /// The token headers, and what stands as password or secret in a login.
    pub(super) fn of(request: &Request) -> Self {
        let header = |name: &str| request.headers().get(name).and_then(|value| value.to_str().ok());
        let bearer = header(AUTHORIZATION.as_str());
        let mut found: Vec<String> =
            [header("x-auth-token"), bearer.map(|v| v.trim_start_matches("Bearer ")), bearer]
                .into_iter()
                .flatten()
                .map(str::to_owned)
                .collect();
        let body = request.body().and_then(|body| body.as_bytes()).filter(|body| body.len() <= LONGEST_LOGIN);
        if let Some(login) = body.and_then(|body| serde_json::from_slice::<Value>(body).ok()) {
            collect(&login["auth"], &mut found);
        }
        found.retain(|secret| secret.len() >= SHORTEST);
        Self(found)
    }

    /// The body without them.
    pub(super) fn taken_out_of<'a>(&self, body: &'a [u8]) -> std::borrow::Cow<'a, [u8]> {
        let text = String::from_utf8_lossy(body);
        if !self.0.iter().any(|secret| text.contains(secret.as_str())) {
            return body.into();
        }
        let clean =
            self.0.iter().fold(text.into_owned(), |text, secret| text.replace(secret.as_str(), "(secret)"));
        clean.into_bytes().into()
    }
}

fn collect(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                match value {
                    Value::String(text) if matches!(key.as_str(), "password" | "secret") => {
                        found.push(text.clone());
                    }
                    _ => collect(value, found),
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| collect(value, found)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_as_a_secret_is_not_repeated() {
        let client = reqwest::Client::builder().no_proxy();
        let _ = rustls::crypto::ring::default_provider().install_default();
        let client = client.build().unwrap();
        let login = serde_json::json!({"auth": {"identity": {"methods": ["password"],
            "password": {"user": {"name": "admin", "password": "Sup3r-secret"}}}}});
        let request = client
            .post("http://127.0.0.1/v3/auth/tokens")
            .header("x-auth-token", "TOKEN-0001")
            .header("authorization", "Bearer VIOLA-0001")
            .json(&login)
            .build()
            .unwrap();
        let said = b"admin with Sup3r-secret, TOKEN-0001 and Authorization: Bearer VIOLA-0001";
        let clean = Secrets::of(&request).taken_out_of(said).into_owned();
        let clean = String::from_utf8(clean).unwrap();
        assert!(!["Sup3r-secret", "TOKEN-0001", "VIOLA-0001"].iter().any(|s| clean.contains(s)), "{clean}");
        assert!(clean.starts_with("admin with (secret)"));
    }
}
