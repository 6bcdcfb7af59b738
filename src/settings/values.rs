//! Values as people write them: Go's durations and booleans, URLs, addresses. Every error says what is
//! expected and none repeats a value that could hold a password.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use go_duration::GoDuration;
use url::Url;

use crate::kube::raw_object::is_object_name;

/// Below this an interval is a hot loop and a deadline is never met.
pub const SHORTEST: Duration = Duration::from_millis(100);
/// Above this nothing would ever happen.
pub const LONGEST: Duration = Duration::from_secs(30 * 24 * 3600);

/// Reads a duration as Go's `time.ParseDuration`: `10s`, `1m30s`, `500ms`, `0`. Surrounding white space is
/// ignored. Zero passes: what it means is the field's matter.
///
/// # Errors
/// When it is no duration, negative, or not zero and outside [`SHORTEST`]…[`LONGEST`].
pub fn duration(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    let nanos = match text.trim_start_matches(['+', '-']) {
        // Go takes a bare zero, the only number that needs no unit.
        "0" => 0,
        _ => text
            .parse::<GoDuration>()
            .map_err(|_| "must be a duration such as 30s, 2m or 1m30s".to_owned())?
            .nanoseconds(),
    };
    let duration =
        u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| "must not be negative".to_owned())?;
    if duration.is_zero() || (SHORTEST..=LONGEST).contains(&duration) {
        Ok(duration)
    } else {
        Err("must be between 100ms and 720h".to_owned())
    }
}

/// Reads a boolean as Go's `strconv.ParseBool`.
///
/// # Errors
/// When it is neither.
pub fn boolean(text: &str) -> Result<bool, String> {
    match text.trim() {
        "1" | "t" | "T" | "TRUE" | "true" | "True" => Ok(true),
        "0" | "f" | "F" | "FALSE" | "false" | "False" => Ok(false),
        _ => Err("must be true or false".to_owned()),
    }
}

/// Reads the base URL of a service and takes white space and trailing slashes off.
///
/// # Errors
/// When it is no http(s) URL with a host, or when it has a user name, a password, a query or a fragment.
pub fn endpoint(text: &str) -> Result<String, String> {
    let text = text.trim();
    let url = Url::parse(text).map_err(|_| EXPECTED_URL.to_owned())?;
    let is_http = matches!(url.scheme(), "http" | "https");
    // The parser forgives a missing or doubled slash and inner white space; what is sent later should be
    // what stands here.
    let has_authority = text.get(url.scheme().len()..).is_some_and(|rest| rest.starts_with("://"));
    if !is_http || !has_authority || url.host_str().is_none_or(str::is_empty) {
        return Err(EXPECTED_URL.to_owned());
    }
    if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '\\') {
        return Err("must not contain white space or a backslash".to_owned());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("must not contain a user name or password".to_owned());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("must not contain a query (`?`) or fragment (`#`)".to_owned());
    }
    Ok(text.trim_end_matches('/').to_owned())
}

const EXPECTED_URL: &str = "must be a URL such as https://host:port";

/// An address to listen on, as Go writes it: `:8080`, `127.0.0.1:8080`, `[::1]:8080`, `localhost:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenAddress {
    /// A host name or IP address without brackets; `None` = every address of the machine.
    pub host: Option<String>,
    /// The port; 0 = any free one.
    pub port: u16,
}

impl ListenAddress {
    /// Every address of the machine.
    pub const fn any(port: u16) -> Self {
        Self { host: None, port }
    }

    /// What to bind, in the order to try: without a host first IPv6, which takes IPv4 too, then IPv4 alone
    /// for machines that have no IPv6.
    pub fn candidates(&self) -> Vec<(String, u16)> {
        match &self.host {
            Some(host) => vec![(host.clone(), self.port)],
            None => vec![("::".to_owned(), self.port), ("0.0.0.0".to_owned(), self.port)],
        }
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            None => write!(f, ":{}", self.port),
            Some(host) if host.contains(':') => write!(f, "[{host}]:{}", self.port),
            Some(host) => write!(f, "{host}:{}", self.port),
        }
    }
}

/// Reads an address to listen on.
///
/// # Errors
/// When it is not `[host]:port`.
pub fn listen_address(text: &str) -> Result<ListenAddress, String> {
    let error = || "must be an address such as :8080 or 127.0.0.1:8080".to_owned();
    let (host, port) = text.trim().rsplit_once(':').ok_or_else(error)?;
    let port = port.parse().map_err(|_| error())?;
    let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
        Some(Some(v6)) if v6.parse::<std::net::Ipv6Addr>().is_ok() => v6,
        Some(_) => return Err(error()),
        None => host,
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let is_v6 = host.parse::<std::net::Ipv6Addr>().is_ok();
    if !is_v6 && !host.chars().all(is_plain) {
        return Err(error());
    }
    Ok(ListenAddress { host: (!host.is_empty()).then(|| host.to_owned()), port })
}

/// The name of an object of Kubernetes.
///
/// # Errors
/// When it cannot be one.
pub fn object_name(text: &str) -> Result<String, String> {
    match is_object_name(text.trim()) {
        true => Ok(text.trim().to_owned()),
        false => Err("must be a name of lower-case letters, digits, '-' and '.'".to_owned()),
    }
}

/// Names of namespaces, separated by commas.
///
/// # Errors
/// When one of them cannot be the name of a namespace.
pub fn namespaces(text: &str) -> Result<BTreeSet<String>, String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(namespace).collect()
}

/// The name of one namespace: a label (RFC 1123).
///
/// # Errors
/// When it is none.
pub fn namespace(text: &str) -> Result<String, String> {
    let name = text.trim();
    match name.len() <= 63 && !name.contains('.') && is_object_name(name) {
        true => Ok(name.to_owned()),
        false => Err(format!("{name:?} is not the name of a namespace")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        let check = |text: &str, millis: Option<u64>| {
            assert_eq!(duration(text).ok(), millis.map(Duration::from_millis), "{text:?}");
        };
        check("10s", Some(10_000));
        check(" 1m30s ", Some(90_000));
        check("500ms", Some(500));
        check("1.5h", Some(5_400_000));
        check(".5s", Some(500));
        check("1.s", Some(1_000));
        check("+2m", Some(120_000));
        check("0", Some(0));
        check("-0", Some(0));
        check("0s", Some(0));
        check("720h", Some(30 * 24 * 3_600_000));
        for bad in
            ["", "10", "s", "10 s", "1d", "-5s", "ten", "99ms", "1ns", "721h", "9999999h", "1s-", "0x1s", "∞"]
        {
            check(bad, None);
        }
    }

    #[test]
    fn booleans_are_read_as_go_reads_them() {
        for text in ["1", "t", "T", "TRUE", "true", "True", " true "] {
            assert_eq!(boolean(text), Ok(true), "{text}");
        }
        for text in ["0", "f", "F", "FALSE", "false", "False"] {
            assert_eq!(boolean(text), Ok(false), "{text}");
        }
        for text in ["", "yes", "on", "2", "tRUE"] {
            assert!(boolean(text).is_err(), "{text}");
        }
    }

    #[test]
    fn endpoints_lose_trailing_slashes() {
        let check = |text: &str, expect: &str| assert_eq!(endpoint(text).as_deref(), Ok(expect), "{text}");
        check("https://contrabass.example.com", "https://contrabass.example.com");
        check(" http://viola:8080/ \n", "http://viola:8080");
        check("http://[fd00::1]:9696/v2.0//", "http://[fd00::1]:9696/v2.0");
        check("HTTPS://Host/Path/", "HTTPS://Host/Path");
    }

    #[test]
    fn what_is_no_endpoint_is_refused_without_repeating_it() {
        for text in [
            "",
            "viola",
            "viola:8080",
            "//viola",
            "http:viola",
            "http:/viola",
            "http://",
            "http://:8080",
            "ftp://viola",
            "file:///etc/passwd",
            "http://viola:99999",
            "http://vi ola",
            "http://viola\\x",
            "http://admin:pa55word@viola",
            "http://admin@viola",
            "http://viola/?pa55word",
            "http://viola/#x",
        ] {
            let problem = endpoint(text).expect_err(text);
            assert!(!problem.contains("pa55word"), "{problem}");
        }
    }

    #[test]
    fn addresses_are_written_as_in_go() {
        let check = |text: &str, host: Option<&str>, port: u16| {
            let host = host.map(str::to_owned);
            let address = ListenAddress { host, port };
            assert_eq!(listen_address(text).as_ref(), Ok(&address), "{text}");
            assert_eq!(listen_address(&address.to_string()), Ok(address), "{text}");
        };
        check(":18081", None, 18081);
        check("0.0.0.0:80", Some("0.0.0.0"), 80);
        check("localhost:0", Some("localhost"), 0);
        check("[::1]:8080", Some("::1"), 8080);
        for bad in ["", "8080", ":", ":x", ":65536", "[::1]", "[::1:80", "[x]:80", "a b:80", "http://a:80"] {
            assert!(listen_address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn without_a_host_both_families_are_tried() {
        assert_eq!(ListenAddress::any(1).candidates(), [("::".to_owned(), 1), ("0.0.0.0".to_owned(), 1)]);
    }
}
