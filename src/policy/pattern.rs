//! Names and hosts with `*` for any number of characters.

use serde::Deserialize;
use serde::de::{Deserializer, Error};
use url::Url;

/// In the message about an entry that is none.
pub(super) const NO_HOST: &str = "is no host";

/// A name, or a pattern of names.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Pattern(String);

impl Pattern {
    /// Whether `text` is one of what is meant.
    pub fn fits(&self, text: &str) -> bool {
        fits(&self.0, text)
    }
}

/// `host` or `host:port`, with `*` in the host. Without a port every port is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPattern {
    host: String,
    port: Option<u16>,
}

impl HostPattern {
    /// Whether the host (and port) of `url` is one of what is meant.
    pub fn fits(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default().trim_end_matches('.').to_ascii_lowercase();
        let is_port = self.port.is_none_or(|port| url.port_or_known_default() == Some(port));
        is_port && !host.is_empty() && fits(&self.host, &host)
    }

    fn parse(text: &str) -> Result<Self, String> {
        let expected = || format!("{text:?} {NO_HOST}: give host, *.domain or host:port");
        let after_address = text.rfind(']').map_or(0, |end| end);
        let (host, port) = match text[after_address..].rfind(':') {
            Some(at) => {
                let at = after_address + at;
                (&text[..at], Some(text[at + 1..].parse().map_err(|_| expected())?))
            }
            None => (text, None),
        };
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*');
        let is_address = host.starts_with('[') && host.ends_with(']');
        match !host.is_empty() && (is_address || host.chars().all(is_plain)) {
            true => Ok(Self { host: host.to_ascii_lowercase(), port }),
            false => Err(expected()),
        }
    }
}

impl<'de> Deserialize<'de> for HostPattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(String::deserialize(deserializer)?.trim()).map_err(D::Error::custom)
    }
}

fn fits(pattern: &str, text: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(first) else { return false };
    let (middle, last) = rest.rsplit_once('*').map_or((None, rest), |(middle, last)| (Some(middle), last));
    for part in middle.into_iter().flat_map(|middle| middle.split('*')) {
        // The first place is the best: more is left for the rest.
        let Some(at) = text.find(part) else { return false };
        text = &text[at + part.len()..];
    }
    text.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_is_any_number_of_characters() {
        let check = |pattern: &str, yes: &[&str], no: &[&str]| {
            yes.iter().for_each(|text| assert!(fits(pattern, text), "{pattern} {text}"));
            no.iter().for_each(|text| assert!(!fits(pattern, text), "{pattern} {text}"));
        };
        check("a", &["a"], &["", "ab", "A"]);
        check("*", &["", "a"], &[]);
        check("team-*", &["team-", "team-a"], &["team", "a-team-a"]);
        check("*.example.com", &["a.b.example.com"], &["example.com", "a.example.com.evil.org"]);
        check("a*b*c", &["abc", "axxbxxc", "abcbc"], &["ab", "acb", "abcd"]);
        check("aa*aa", &["aaaa", "aaxaa"], &["aaa"]);
    }

    #[test]
    fn a_host_is_compared_without_case_and_with_the_port_only_if_it_is_named() {
        let fits =
            |pattern: &str, url: &str| HostPattern::parse(pattern).unwrap().fits(&Url::parse(url).unwrap());
        assert!(fits("Keystone.example.com", "https://keystone.EXAMPLE.com.:5000/v3"));
        assert!(fits("keystone.example.com:443", "https://keystone.example.com/v3"));
        assert!(!fits("keystone.example.com:443", "http://keystone.example.com/v3"));
        assert!(!fits("*.example.com", "http://user.example.com@evil.org/"));
        assert!(fits("[::1]:5000", "http://[::1]:5000/"));
        assert!(!fits("[::1]:5000", "http://[::1]:5001/"));
        for bad in ["", "https://a", "a/b", "a:b", "a b", ":80"] {
            assert!(HostPattern::parse(bad).is_err(), "{bad}");
        }
    }
}
