//! Query parameters, read strictly.

use std::convert::Infallible;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use percent_encoding::percent_decode_str;

/// The parameters of a request in the order they came. The guard has refused what cannot be decoded.
#[derive(Clone, Debug, Default)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The first value of a parameter; an empty one counts as missing.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let (_, value) = self.0.iter().find(|(key, _)| key == name)?;
        Some(value.as_str()).filter(|value| !value.is_empty())
    }
}

impl<S: Sync> FromRequestParts<S> for Query {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

/// Whether every `%` is followed by two hex digits and the result is UTF-8.
pub(super) fn is_well_encoded(text: &str) -> bool {
    let bytes = text.as_bytes();
    let is_pair = |at: usize| {
        let pair = bytes.get(at + 1..at + 3);
        pair.is_some_and(|pair| pair.iter().all(u8::is_ascii_hexdigit))
    };
    let mut signs = bytes.iter().enumerate().filter(|(_, b)| **b == b'%');
    signs.all(|(at, _)| is_pair(at)) && percent_decode_str(text).decode_utf8().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_utf8_escapes_pass() {
        for text in ["", "a%20b", "%ed%95%9c", "providerId=a+b%2Fc"] {
            assert!(is_well_encoded(text), "{text}");
        }
        for text in ["%", "a%2", "%zz", "%ff", "%ed%95", "%%20"] {
            assert!(!is_well_encoded(text), "{text}");
        }
    }

    #[test]
    fn the_first_of_two_values_counts_and_an_empty_one_is_none() {
        let query = Query::parse("a=1&a=2&b=&c=x%2By");
        assert_eq!(query.get("a"), Some("1"));
        assert_eq!(query.get("b"), None);
        assert_eq!(query.get("c"), Some("x+y"));
        assert_eq!(query.get("d"), None);
    }
}
