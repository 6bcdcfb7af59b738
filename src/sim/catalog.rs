//! The service catalog that project-scoped tokens carry.

use serde_json::{Value, json};

/// One URL of a service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// `public`, `internal` or `admin`.
    pub interface: String,
    /// The region's id.
    pub region: String,
    /// As an operator entered it; `$(project_id)s` is filled in.
    pub url: String,
}

/// One service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CatalogService {
    /// `network`, `compute`, …
    pub kind: String,
    /// `neutron`, `nova`, …
    pub name: String,
    /// May be empty: the service is listed all the same.
    pub endpoints: Vec<Endpoint>,
}

/// All services.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Catalog {
    /// In no order that means anything.
    pub services: Vec<CatalogService>,
}

/// Placeholder of the project in an endpoint's URL.
const PROJECT: &str = "$(project_id)s";

impl Catalog {
    /// Every service with three interfaces in `RegionOne`, as the recorded clouds have it.
    pub(crate) fn standard(keystone: &str, neutron: &str, nova: &str) -> Self {
        Self::default()
            .with_service("placement", "placement", "http://127.0.0.1:1/placement")
            .with_service("compute", "nova", &format!("{nova}/v2.1/{PROJECT}"))
            .with_service("network", "neutron", neutron)
            .with_service("identity", "keystone", &format!("{keystone}/v3"))
            .with_service("image", "glance", "http://127.0.0.1:1/image")
    }

    fn with_service(mut self, kind: &str, name: &str, url: &str) -> Self {
        let endpoints = ["admin", "public", "internal"].map(|interface| Endpoint {
            interface: interface.into(),
            region: "RegionOne".into(),
            url: url.into(),
        });
        self.services.push(CatalogService {
            kind: kind.into(),
            name: name.into(),
            endpoints: endpoints.into(),
        });
        self
    }

    /// One more endpoint; the service is made when it is missing.
    pub fn with_endpoint(mut self, kind: &str, interface: &str, region: &str, url: &str) -> Self {
        let endpoint = Endpoint { interface: interface.into(), region: region.into(), url: url.into() };
        match self.services.iter_mut().find(|service| service.kind == kind) {
            Some(service) => service.endpoints.push(endpoint),
            None => self.services.push(CatalogService {
                kind: kind.into(),
                name: kind.into(),
                endpoints: vec![endpoint],
            }),
        }
        self
    }

    /// Without this service.
    pub fn without(mut self, kind: &str) -> Self {
        self.services.retain(|service| service.kind != kind);
        self
    }

    /// The service stays, without endpoints (all of them disabled).
    pub fn without_endpoints(self, kind: &str) -> Self {
        self.retain(kind, |_| false)
    }

    /// Keeps some endpoints of a service.
    pub fn retain(mut self, kind: &str, keep: impl Fn(&Endpoint) -> bool) -> Self {
        for service in self.services.iter_mut().filter(|service| service.kind == kind) {
            service.endpoints.retain(&keep);
        }
        self
    }

    /// Rewrites a service's URLs, for example with a trailing `/` or `/v2.0`.
    pub fn map_urls(mut self, kind: &str, change: impl Fn(&str) -> String) -> Self {
        for service in self.services.iter_mut().filter(|service| service.kind == kind) {
            for endpoint in &mut service.endpoints {
                endpoint.url = change(&endpoint.url);
            }
        }
        self
    }

    /// The JSON list of a token. Without a project, URLs that need one are left out.
    /// `turn` varies the order, as the real service does.
    pub(crate) fn render(&self, project: Option<&str>, turn: usize) -> Value {
        let mut services: Vec<Value> =
            self.services.iter().map(|service| service.render(project, turn)).collect();
        rotate(&mut services, turn);
        Value::Array(services)
    }
}

impl CatalogService {
    fn render(&self, project: Option<&str>, turn: usize) -> Value {
        let usable =
            self.endpoints.iter().filter(|endpoint| project.is_some() || !endpoint.url.contains(PROJECT));
        let mut endpoints: Vec<Value> = usable.map(|endpoint| endpoint.render(&self.kind, project)).collect();
        rotate(&mut endpoints, turn);
        json!({"endpoints": endpoints, "id": id(&[&self.kind]), "type": self.kind, "name": self.name})
    }
}

impl Endpoint {
    fn render(&self, kind: &str, project: Option<&str>) -> Value {
        json!({
            "id": id(&[kind, &self.interface, &self.region]),
            "interface": self.interface,
            "region_id": self.region,
            "url": self.url.replace(PROJECT, project.unwrap_or_default()),
            "region": self.region,
        })
    }
}

fn rotate(values: &mut [Value], turn: usize) {
    if !values.is_empty() {
        values.rotate_left(turn % values.len());
    }
}

/// A stable id of 32 hex digits.
fn id(parts: &[&str]) -> String {
    use sha2::{Digest, Sha256};
    let hash = Sha256::digest(parts.join("/").as_bytes());
    hash[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
