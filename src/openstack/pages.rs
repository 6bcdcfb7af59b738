//! Lists that come in pages. A server cuts a list whether a limit was asked for or not, so the links are
//! followed to the end; a list is whole or it is an error.

use std::collections::HashSet;

use reqwest::Url;
use serde_json::Value;
use url::form_urlencoded;

use super::api::{Api, ApiError};
use super::errors;
use super::service::Service;
use crate::upstream::ErrorKind;

/// More pages than this are no list but a fault.
const MOST_PAGES: usize = 10_000;

/// Walks over the pages of one list.
pub(super) struct Pages<'a> {
    api: &'a Api<'a>,
    service: Service,
    operation: &'static str,
    /// The list's key in the answer: `ports`; its links are under `ports_links`.
    key: &'static str,
    first: Url,
    next: Option<Url>,
    seen: HashSet<String>,
}

/// Why a page did not come.
#[derive(Debug)]
pub(super) enum PageError {
    /// The item after which the page begins is gone: start over.
    MarkerGone(ApiError),
    /// The links lead back to a page that was read: a fault, or a query string that was lost on the way
    /// with its marker.
    Circle(ApiError),
    /// Anything else.
    Failed(ApiError),
}

impl<'a> Pages<'a> {
    pub(super) fn new(
        api: &'a Api<'a>,
        service: Service,
        operation: &'static str,
        key: &'static str,
        first: Url,
    ) -> Self {
        Self { api, service, operation, key, next: Some(first.clone()), first, seen: HashSet::new() }
    }

    /// The next page's items, or `None` after the last page.
    pub(super) async fn next(&mut self) -> Result<Option<Vec<Value>>, PageError> {
        let Some(url) = self.next.take() else {
            return Ok(None);
        };
        let invalid = |problem: &str| {
            PageError::Failed(errors::invalid(self.service.name(), self.operation, problem).into())
        };
        let is_first = self.seen.is_empty();
        if !self.seen.insert(url.query().unwrap_or_default().to_owned()) || self.seen.len() > MOST_PAGES {
            let problem = "the page links go round in a circle";
            return Err(PageError::Circle(
                errors::invalid(self.service.name(), self.operation, problem).into(),
            ));
        }
        let answer = match self.api.get(self.service, self.operation, url).await {
            Ok(answer) => answer,
            Err(error) if !is_first && is_marker_gone(&error) => return Err(PageError::MarkerGone(error)),
            Err(error) => return Err(PageError::Failed(error)),
        };
        let Value::Object(mut answer) = answer else {
            return Err(invalid("the answer is no list"));
        };
        let Some(Value::Array(items)) = answer.remove(self.key) else {
            return Err(invalid("the answer is no list"));
        };
        if let Some(link) = next_link(answer.get(&format!("{}_links", self.key))) {
            self.next =
                Some(follow(&self.first, &link).ok_or_else(|| invalid("a page link cannot be followed"))?);
        }
        Ok(Some(items))
    }
}

/// Neutron: 404 `PortNotFound`. Nova: 400 `marker [...] not found`.
fn is_marker_gone(error: &ApiError) -> bool {
    match error.kind() {
        Some(ErrorKind::Status { code: 404, .. }) => true,
        Some(ErrorKind::Status { code: 400, message, .. }) => message.to_ascii_lowercase().contains("marker"),
        _ => false,
    }
}

fn next_link(links: Option<&Value>) -> Option<String> {
    let is_next = |link: &&Value| link.get("rel").and_then(Value::as_str) == Some("next");
    let link = links?.as_array()?.iter().find(is_next)?;
    link.get("href").and_then(Value::as_str).map(str::to_owned)
}

/// The page behind a link: our own URL with the link's marker. Links come relative, or with the scheme,
/// host and path that the server knows itself by behind a proxy, and some proxies lose the filters; and
/// the token goes to nobody but the endpoint.
fn follow(first: &Url, link: &str) -> Option<Url> {
    let (_, query) = link.split_once('?')?;
    let query = query.split('#').next().unwrap_or_default();
    let marker = form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "marker");
    let mut url = first.clone();
    match marker {
        Some((_, marker)) => {
            let marker: String = form_urlencoded::byte_serialize(marker.as_bytes()).collect();
            let query = match first.query() {
                Some(own) if !own.is_empty() => format!("{own}&marker={marker}"),
                _ => format!("marker={marker}"),
            };
            url.set_query(Some(&query));
        }
        None => url.set_query(Some(query)),
    }
    Some(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_of_link_leads_to_our_own_endpoint() {
        let first: Url = "https://n:9696/v2.0/ports?fields=id&device_id=a&limit=2".parse().unwrap();
        for link in [
            "http://10.0.0.1:9696/v2.0/ports?fields=id&device_id=a&limit=2&marker=m%2F1",
            "//other/v2.0/ports?marker=m%2F1",
            "/v2.0/ports?limit=2&marker=m%2F1#top",
            "?marker=m%2F1",
            "ports?marker=m/1",
        ] {
            assert_eq!(
                follow(&first, link).unwrap().as_str(),
                "https://n:9696/v2.0/ports?fields=id&device_id=a&limit=2&marker=m%2F1",
                "{link}"
            );
        }
        assert_eq!(
            follow(&first, "/v2.0/ports?page=2&limit=2").unwrap().as_str(),
            "https://n:9696/v2.0/ports?page=2&limit=2"
        );
        assert!(follow(&first, "/v2.0/ports").is_none());
    }

    #[test]
    fn only_the_next_link_counts() {
        let links = serde_json::json!([{"rel": "previous", "href": "?marker=a"}, {"rel": "next", "href": "?marker=b"}]);
        assert_eq!(next_link(Some(&links)).as_deref(), Some("?marker=b"));
        assert_eq!(next_link(Some(&serde_json::json!([{"rel": "previous", "href": "x"}]))), None);
        assert_eq!(next_link(Some(&Value::Null)), None);
        assert_eq!(next_link(None), None);
    }
}
