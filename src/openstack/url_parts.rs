//! Joining URLs without `//`, with or without a version, and with text as one segment.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use reqwest::Url;

const SEGMENT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// `text` as one path segment. None for what cannot be one: nothing, `.` and `..`.
pub(super) fn segment(text: &str) -> Option<String> {
    match text {
        "" | "." | ".." => None,
        _ => Some(utf8_percent_encode(text, SEGMENT).to_string()),
    }
}

/// An http(s) URL without trailing slashes, query and fragment.
pub(super) fn base(text: &str) -> Option<Url> {
    let mut url = Url::parse(text.trim()).ok()?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return None;
    }
    url.set_query(None);
    url.set_fragment(None);
    let path = url.path().trim_end_matches('/').to_owned();
    url.set_path(&path);
    Some(url)
}

/// `base` and `path`, whose segments are encoded already.
pub(super) fn join(base: &Url, path: &str) -> Url {
    let mut url = base.clone();
    let joined = format!("{}/{path}", base.path().trim_end_matches('/'));
    url.set_path(&joined);
    url
}

/// `base` without its last segment, if `is_cut` says so of it.
fn without_last(base: &Url, is_cut: impl Fn(&str) -> bool) -> Url {
    let mut url = base.clone();
    if let Some((head, last)) = base.path().trim_end_matches('/').rsplit_once('/')
        && is_cut(last)
    {
        let head = head.to_owned();
        url.set_path(&head);
    }
    url
}

fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| {
        rest.starts_with(|c: char| c.is_ascii_digit()) && rest.chars().all(|c| c.is_ascii_digit() || c == '.')
    })
}

/// Keystone's base URL, without a version.
pub(super) fn keystone_base(text: &str) -> Option<Url> {
    base(text).map(|url| without_last(&url, is_version))
}

/// Neutron's root, with its version.
pub(super) fn neutron_root(text: &str) -> Option<Url> {
    base(text).map(|url| join(&without_last(&url, is_version), "v2.0"))
}

/// Nova's root, with its version and (where it was given with one) project.
pub(super) fn nova_root(text: &str, project: &str) -> Option<Url> {
    let mut text = text.to_owned();
    for placeholder in ["%(tenant_id)s", "%(project_id)s", "$(tenant_id)s", "$(project_id)s"] {
        text = text.replace(placeholder, project);
    }
    let url = base(&text)?;
    let has_version = url.path_segments().is_some_and(|mut segments| segments.any(is_version));
    Some(if has_version { url } else { join(&url, "v2.1") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_becomes_one_segment_or_none() {
        assert_eq!(segment("a/b c%?#é").as_deref(), Some("a%2Fb%20c%25%3F%23%C3%A9"));
        assert_eq!(segment("p-1_2.3~").as_deref(), Some("p-1_2.3~"));
        assert_eq!(segment(".."), None);
        assert_eq!(segment(""), None);
    }

    #[test]
    fn keystone_with_and_without_version_or_slash_is_one_cloud() {
        for text in [
            "http://k:5000",
            "http://k:5000/",
            "http://k:5000/v3",
            "http://k:5000/v3/",
            " http://K:5000/v2.0 ",
            "http://k:5000//",
        ] {
            assert_eq!(keystone_base(text).unwrap().as_str(), "http://k:5000/", "{text}");
        }
        let path = keystone_base("https://c/identity/v3").unwrap();
        assert_eq!(path.as_str(), "https://c/identity");
        assert_eq!(join(&path, "v3/auth/tokens").as_str(), "https://c/identity/v3/auth/tokens");
        assert!(keystone_base("k:5000").is_none());
        assert!(keystone_base("").is_none());
    }

    #[test]
    fn neutron_is_found_with_and_without_version() {
        for text in ["http://n:9696", "http://n:9696/", "http://n:9696/v2.0", "http://n:9696/v2.0/"] {
            assert_eq!(neutron_root(text).unwrap().as_str(), "http://n:9696/v2.0", "{text}");
        }
        assert_eq!(neutron_root("https://c/networking/v2.0").unwrap().as_str(), "https://c/networking/v2.0");
        assert_eq!(
            neutron_root("http://neutron.openstack.svc.cluster.local").unwrap().as_str(),
            "http://neutron.openstack.svc.cluster.local/v2.0"
        );
    }

    #[test]
    fn nova_is_found_with_and_without_version_and_project() {
        for (text, expect) in [
            ("http://c:8774", "http://c:8774/v2.1"),
            ("http://c:8774/", "http://c:8774/v2.1"),
            ("http://c:8774/v2.1/", "http://c:8774/v2.1"),
            ("http://c:8774/v2.1/abc", "http://c:8774/v2.1/abc"),
            ("http://c:8774/v2.1/%(tenant_id)s", "http://c:8774/v2.1/p1"),
            ("http://c/compute/v2/abc/", "http://c/compute/v2/abc"),
        ] {
            assert_eq!(nova_root(text, "p1").unwrap().as_str(), expect, "{text}");
        }
    }
}
