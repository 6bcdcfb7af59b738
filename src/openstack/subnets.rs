//! The target subnets and their networks' MTU: read rarely, shared by all configs of a session.

use std::collections::HashSet;
use std::time::Duration;

use futures::future::join_all;
use ipnet::IpNet;
use multinic_actors::boundary::CloudError;
use multinic_actors::domain::config::SubnetSelector;
use multinic_actors::domain::ids::{NetworkId, SubnetId};
use multinic_actors::domain::port::TargetSubnet;
use multinic_actors::domain::reason::Reason;
use reqwest::Url;
use serde_json::Value;
use tokio::time::Instant;

use super::api::{Api, ApiError};
use super::cache::{Caches, SubnetKey};
use super::errors;
use super::pages::{PageError, Pages};
use super::service::Service;
use super::url_parts;
use crate::upstream::{Body, ErrorKind};

const GET_SUBNET: &str = "get subnet";
const FIND_SUBNET: &str = "find subnet";
const GET_NETWORK: &str = "get network";
/// How often a list is begun anew because subnets vanished under it.
const STARTS: usize = 3;

/// A subnet as Neutron has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Subnet {
    id: SubnetId,
    network: NetworkId,
    cidr: IpNet,
}

/// How the caches are used in one round.
#[derive(Clone, Copy, Debug)]
pub(super) struct Freshness {
    /// How long an answer is kept.
    pub(super) keep: Duration,
    /// Set: answers from before do not count.
    pub(super) not_before: Option<Instant>,
}

impl Freshness {
    pub(super) fn is_fresh(self, at: Instant) -> bool {
        at.elapsed() < self.keep && self.not_before.is_none_or(|moment| at >= moment)
    }
}

/// The config's subnets in its order, without doubles.
pub(super) async fn targets(
    api: &Api<'_>,
    root: &Url,
    caches: &Caches,
    freshness: Freshness,
) -> Result<Vec<TargetSubnet>, CloudError> {
    let keys: Vec<SubnetKey> = match &api.config.subnets {
        SubnetSelector::Ids(ids) => ids.iter().map(|id| SubnetKey::Id(id.to_string())).collect(),
        SubnetSelector::Name(name) => vec![SubnetKey::Name(name.clone())],
    };
    let targets = join_all(keys.into_iter().map(|key| target(api, root, caches, freshness, key))).await;
    let mut seen = HashSet::new();
    let mut distinct = Vec::new();
    for target in targets {
        let target = target?;
        if seen.insert(target.id.clone()) {
            distinct.push(target);
        }
    }
    Ok(distinct)
}

async fn target(
    api: &Api<'_>,
    root: &Url,
    caches: &Caches,
    freshness: Freshness,
    key: SubnetKey,
) -> Result<TargetSubnet, CloudError> {
    let flight = caches.subnets.get((root.to_string(), key.clone()), freshness.keep);
    let subnet = flight
        .run(|_, at| freshness.is_fresh(at), async {
            match &key {
                SubnetKey::Id(id) => by_id(api, root, id).await,
                SubnetKey::Name(name) => by_name(api, root, name).await,
            }
        })
        .await?;
    let flight = caches.mtus.get((root.to_string(), subnet.network.clone()), freshness.keep);
    let mtu = flight.run(|_, at| freshness.is_fresh(at), mtu(api, root, &subnet.network)).await?;
    Ok(TargetSubnet { id: subnet.id, network: subnet.network, cidr: subnet.cidr, mtu })
}

async fn by_id(api: &Api<'_>, root: &Url, id: &str) -> Result<Subnet, CloudError> {
    let not_found = || {
        CloudError::new(
            Reason::SubnetNotFound,
            format!("neutron: there is no subnet {id}, or it is not visible"),
        )
    };
    let segment = url_parts::segment(id).ok_or_else(not_found)?;
    let url = url_parts::join(root, &format!("subnets/{segment}"));
    match api.get(Service::Neutron, GET_SUBNET, url).await {
        Ok(answer) => read(answer.get("subnet").unwrap_or(&Value::Null), GET_SUBNET),
        Err(error) if is_not_found(&error) => Err(not_found()),
        Err(error) => Err(error.because(Reason::NeutronSubnetError)),
    }
}

/// A 404 from Neutron about the thing asked for, not from a front end or about the path.
fn is_not_found(error: &ApiError) -> bool {
    match error.kind() {
        Some(ErrorKind::Status { code: 404, body, error_type, .. }) => {
            *body != Body::Html && error_type.as_deref() != Some("HTTPNotFound")
        }
        _ => false,
    }
}

/// In the config's own project first: a name there does not become ambiguous by a shared one elsewhere.
async fn by_name(api: &Api<'_>, root: &Url, name: &str) -> Result<Subnet, CloudError> {
    let project = api.config.cloud.project.as_str();
    for project in [Some(project), None] {
        let found = named(api, root, name, project)
            .await
            .map_err(|error| error.because(Reason::NeutronSubnetError))?;
        match found.as_slice() {
            [] => {}
            [one] => return read(one, FIND_SUBNET),
            many => {
                let place = if project.is_some() { "in the project" } else { "visible" };
                return Err(CloudError::new(
                    Reason::SubnetNotUnique,
                    format!("neutron: {} subnets named {name:?} are {place}; name one by its id", many.len()),
                ));
            }
        }
    }
    Err(CloudError::new(
        Reason::SubnetNotFound,
        format!("neutron: there is no subnet named {name:?}, or it is not visible"),
    ))
}

async fn named(api: &Api<'_>, root: &Url, name: &str, project: Option<&str>) -> Result<Vec<Value>, ApiError> {
    let mut url = url_parts::join(root, "subnets");
    url.query_pairs_mut().append_pair("name", name);
    if let Some(project) = project {
        url.query_pairs_mut().append_pair("project_id", project);
    }
    let mut start = 1;
    'start: loop {
        let mut pages = Pages::new(api, Service::Neutron, FIND_SUBNET, "subnets", url.clone());
        let mut found: Vec<Value> = Vec::new();
        loop {
            match pages.next().await {
                Ok(Some(page)) => found.extend(page),
                Ok(None) => break,
                Err(PageError::MarkerGone(_)) if start < STARTS => {
                    start += 1;
                    continue 'start;
                }
                Err(PageError::MarkerGone(error) | PageError::Circle(error) | PageError::Failed(error)) => {
                    return Err(error);
                }
            }
        }
        // A filter may get lost, and databases compare names without case.
        found.retain(|subnet| subnet.get("name").and_then(Value::as_str) == Some(name));
        let mut seen = HashSet::new();
        found.retain(|subnet| seen.insert(subnet.get("id").and_then(Value::as_str).map(str::to_owned)));
        return Ok(found);
    }
}

fn read(json: &Value, operation: &'static str) -> Result<Subnet, CloudError> {
    let text = |key: &str| {
        let text = json.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        text.ok_or_else(|| {
            let problem = format!("the subnet has no {key} that can be read");
            errors::of(Reason::NeutronSubnetError, errors::invalid("neutron", operation, problem))
        })
    };
    let cidr = text("cidr")?;
    Ok(Subnet {
        id: SubnetId::from(text("id")?),
        network: NetworkId::from(text("network_id")?),
        cidr: cidr.parse().map_err(|_| {
            let problem = format!("the subnet's cidr {cidr:?} cannot be read");
            errors::of(Reason::NeutronSubnetError, errors::invalid("neutron", operation, problem))
        })?,
    })
}

async fn mtu(api: &Api<'_>, root: &Url, network: &NetworkId) -> Result<i64, CloudError> {
    let reason = Reason::NeutronNetworkError;
    let missing = || {
        let problem = format!("network {network} has no mtu that can be read");
        errors::of(reason, errors::invalid("neutron", GET_NETWORK, problem))
    };
    let segment = url_parts::segment(network.as_str()).ok_or_else(missing)?;
    let url = url_parts::join(root, &format!("networks/{segment}"));
    let answer = api.get(Service::Neutron, GET_NETWORK, url).await.map_err(|error| error.because(reason))?;
    answer.pointer("/network/mtu").and_then(Value::as_i64).ok_or_else(missing)
}
