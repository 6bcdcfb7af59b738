//! Which endpoint of a token's catalog is used. The catalog's order differs from login to login, so the
//! choice does not depend on it.

use std::collections::BTreeSet;

use multinic_actors::domain::config::EndpointInterface;
use serde::Deserialize;
use serde_json::Value;

/// How many endpoints an error text lists.
const MAX_LISTED: usize = 12;

/// The endpoints a token may use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Catalog {
    entries: Vec<Entry>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    kind: String,
    endpoints: Vec<Endpoint>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(default)]
struct Endpoint {
    interface: Option<String>,
    region: Option<String>,
    region_id: Option<String>,
    url: Option<String>,
}

/// What a config asks for.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wanted<'a> {
    pub(super) interface: Option<EndpointInterface>,
    pub(super) region: Option<&'a str>,
}

/// Why no endpoint was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NoEndpoint {
    /// The catalog does not know the service at all.
    NoService(String),
    /// It does, but nothing fits.
    NoMatch(String),
}

impl NoEndpoint {
    /// What was asked for and what there is.
    pub(super) fn into_text(self) -> String {
        match self {
            Self::NoService(text) | Self::NoMatch(text) => text,
        }
    }
}

impl Catalog {
    /// Reads `token.catalog`; what cannot be read is left out.
    pub(super) fn of_json(json: &Value) -> Self {
        let entries = json.as_array().into_iter().flatten().filter_map(|entry| {
            let endpoints = entry.get("endpoints").and_then(Value::as_array);
            Some(Entry {
                kind: entry.get("type")?.as_str()?.to_ascii_lowercase(),
                endpoints: endpoints
                    .into_iter()
                    .flatten()
                    .filter_map(|endpoint| Endpoint::deserialize(endpoint).ok())
                    .collect(),
            })
        });
        Self { entries: entries.collect() }
    }

    /// The URL for a service of type `kind`: strict in what is set; else public before internal before
    /// admin, then by region's name.
    pub(super) fn choose(&self, kind: &str, wanted: Wanted<'_>) -> Result<&str, NoEndpoint> {
        let endpoints = || {
            let entries = self.entries.iter().filter(|entry| entry.kind == kind);
            entries.flat_map(|entry| &entry.endpoints)
        };
        let best = endpoints()
            .filter(|endpoint| endpoint.fits(wanted))
            .filter_map(|endpoint| {
                Some((endpoint.rank(), endpoint.region_name(), endpoint.url.as_deref()?.trim()))
            })
            .filter(|(_, _, url)| !url.is_empty())
            .min();
        if let Some((_, _, url)) = best {
            return Ok(url);
        }
        if !self.entries.iter().any(|entry| entry.kind == kind) {
            let kinds: BTreeSet<&str> = self.entries.iter().map(|entry| entry.kind.as_str()).collect();
            return Err(NoEndpoint::NoService(format!(
                "the catalog has no {kind} service; it has {}",
                list(kinds.into_iter().map(str::to_owned))
            )));
        }
        let has: BTreeSet<String> = endpoints().map(Endpoint::label).collect();
        Err(NoEndpoint::NoMatch(format!(
            "the catalog has no {kind} endpoint{}; it has {}",
            wanted.text(),
            list(has)
        )))
    }
}

impl Wanted<'_> {
    fn text(self) -> String {
        let interface = self.interface.map(|interface| format!(" with interface {}", interface.as_str()));
        let region = self.region.map(|region| format!(" in region {region}"));
        format!("{}{}", interface.unwrap_or_default(), region.unwrap_or_default())
    }
}

impl Endpoint {
    fn interface(&self) -> &str {
        let interface = self.interface.as_deref().unwrap_or_default();
        // Version 2 of the API wrote publicURL.
        interface.strip_suffix("URL").unwrap_or(interface)
    }

    fn region_name(&self) -> &str {
        self.region.as_deref().or(self.region_id.as_deref()).unwrap_or_default()
    }

    fn rank(&self) -> usize {
        let order = ["public", "internal", "admin"];
        order.iter().position(|name| *name == self.interface()).unwrap_or(order.len())
    }

    fn fits(&self, wanted: Wanted<'_>) -> bool {
        let regions = [self.region.as_deref(), self.region_id.as_deref()];
        wanted.interface.is_none_or(|interface| interface.as_str() == self.interface())
            && wanted.region.is_none_or(|region| regions.contains(&Some(region)))
    }

    fn label(&self) -> String {
        format!("{} in {}", self.interface(), self.region_name())
    }
}

fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: Vec<String> = items.into_iter().collect();
    match items.len() {
        0 => "none".to_owned(),
        n if n > MAX_LISTED => format!("{}, …", items[..MAX_LISTED].join(", ")),
        _ => items.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn endpoint(interface: &str, region: &str, url: &str) -> Value {
        json!({"interface": interface, "region": region, "region_id": region, "url": url, "id": "x"})
    }

    fn two_regions() -> Catalog {
        Catalog::of_json(&json!([
            {"type": "identity", "name": "keystone", "endpoints": []},
            {"type": "network", "name": "neutron", "endpoints": [
                endpoint("internal", "RegionTwo", "http://two"),
                endpoint("admin", "RegionOne", "http://one-admin"),
                endpoint("public", "RegionOne", "http://one"),
                endpoint("internal", "RegionOne", "http://one-internal"),
            ]},
            {"type": "compute", "name": "nova", "endpoints": []},
            {"name": "broken"}, null,
        ]))
    }

    #[track_caller]
    fn check(interface: Option<EndpointInterface>, region: Option<&str>, expect: Result<&str, &str>) {
        let catalog = two_regions();
        let chosen = catalog.choose("network", Wanted { interface, region });
        assert_eq!(chosen.map_err(NoEndpoint::into_text), expect.map_err(str::to_owned));
    }

    #[test]
    fn without_a_wish_public_comes_first_whatever_the_order() {
        check(None, None, Ok("http://one"));
    }

    #[test]
    fn a_region_without_public_gives_what_it_has() {
        check(None, Some("RegionTwo"), Ok("http://two"));
    }

    #[test]
    fn what_is_set_is_strict_and_the_error_lists_what_there_is() {
        use EndpointInterface::{Admin, Public};
        check(Some(Admin), None, Ok("http://one-admin"));
        check(
            Some(Public),
            Some("RegionTwo"),
            Err("the catalog has no network endpoint with interface public in region RegionTwo; it has \
                 admin in RegionOne, internal in RegionOne, internal in RegionTwo, public in RegionOne"),
        );
        check(
            None,
            Some("regionone"),
            Err("the catalog has no network endpoint in region regionone; it has \
                 admin in RegionOne, internal in RegionOne, internal in RegionTwo, public in RegionOne"),
        );
    }

    #[test]
    fn a_service_without_endpoints_is_not_a_missing_service() {
        let catalog = two_regions();
        let choose = |kind| catalog.choose(kind, Wanted::default());
        assert_eq!(
            choose("compute"),
            Err(NoEndpoint::NoMatch("the catalog has no compute endpoint; it has none".to_owned()))
        );
        assert_eq!(
            choose("dns"),
            Err(NoEndpoint::NoService(
                "the catalog has no dns service; it has compute, identity, network".to_owned()
            ))
        );
    }

    #[test]
    fn a_recorded_catalog_is_read() {
        let exchange = include_str!("../../tests/fixtures/openstack/keystone-auth-ok.http");
        let (_, body) = exchange.rsplit_once("\n\n{").unwrap();
        let answer: Value = serde_json::from_str(&format!("{{{}", body.trim())).unwrap();
        let catalog = Catalog::of_json(&answer["token"]["catalog"]);
        assert_eq!(catalog.choose("network", Wanted::default()), Ok("http://127.0.0.1:15001"));
        assert_eq!(
            catalog.choose("compute", Wanted::default()),
            Ok("http://127.0.0.1:15002/v2.1/0764b6ee59a64e378881651220874c09")
        );
    }
}
