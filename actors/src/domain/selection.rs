//! Which ports of a VM become interfaces: every port gets a verdict, the first rule that leaves it out.

use std::collections::{BTreeMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use ipnet::IpNet;
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use super::config::{Baseline, SelectionRules};
use super::ids::{Mac, PortId};
use super::inventory::Held;
use super::port::{ListedPort, Port, PortVerdict, TargetSubnet, Verdict};
use crate::planted::{self, Bug};

/// A port that qualifies, with the address that was chosen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The port.
    pub port: PortId,
    /// Its MAC.
    pub mac: Mac,
    /// The chosen address.
    pub address: Ipv4Addr,
    /// Position of its subnet in the config's order.
    pub subnet_rank: usize,
    /// Whether Neutron says that it is DOWN.
    pub is_down: bool,
}

/// What selection found out about one VM's ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// One verdict a port, in the list's order.
    pub verdicts: Vec<PortVerdict>,
    /// The ports that qualify, in the list's order.
    pub candidates: Vec<Candidate>,
    /// Why nothing of this VM may be sent: an unreadable port, or two with one MAC.
    pub problem: Option<String>,
    /// Delivered ports that pass through BUILD, and since when.
    pub rewiring: BTreeMap<PortId, Instant>,
}

/// What selection needs to know beside the ports.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The config's rules.
    pub rules: &'a SelectionRules,
    /// The target subnets in order.
    pub subnets: &'a [TargetSubnet],
    /// Ports that were delivered to a node before: the baseline never drops them.
    pub delivered: &'a HashSet<PortId>,
    /// MACs that this VM's node was delivered, for records that name no port.
    pub delivered_macs: &'a HashSet<Mac>,
    /// Indices that the VM's ports hold, those included that do not qualify for a while.
    pub held: &'a [Held],
    /// Since when which delivered port passes through BUILD.
    pub rewiring: &'a BTreeMap<PortId, Instant>,
    /// The monotonic clock.
    pub now: Instant,
}

/// Judges every port of one VM.
pub fn select(ports: &[ListedPort], context: Context<'_>) -> Selection {
    let mut selection = Selection::default();
    for listed in ports {
        match listed {
            Err(unreadable) => {
                selection.problem.get_or_insert_with(|| {
                    format!("port {} cannot be read: {}", unreadable.id, unreadable.problem)
                });
                selection.verdicts.push(PortVerdict {
                    port: unreadable.id.clone(),
                    verdict: Verdict::Unreadable,
                    detail: unreadable.problem.clone(),
                    interface: None,
                });
            }
            Ok(port) => select_readable(port, context, &mut selection),
        }
    }
    if selection.problem.is_none() {
        selection.problem = doubled_mac(ports, &selection.candidates);
    }
    selection
}

fn select_readable(port: &Port, context: Context<'_>, selection: &mut Selection) {
    if is_rewiring(port, context) {
        let since = context.rewiring.get(&port.id).copied().unwrap_or(context.now);
        selection.rewiring.insert(port.id.clone(), since);
    }
    let (verdict, detail) = match judge(port, context) {
        Ok(candidate) => {
            let detail = candidate.address.to_string();
            selection.candidates.push(candidate);
            (Verdict::Selected, detail)
        }
        Err(left_out) => left_out,
    };
    selection.verdicts.push(PortVerdict { port: port.id.clone(), verdict, detail, interface: None });
}

type LeftOut = (Verdict, String);

/// The rules in the order of their verdicts.
fn judge(port: &Port, context: Context<'_>) -> Result<Candidate, LeftOut> {
    owner_rule(port)?;
    project_rule(port, context.rules)?;
    status_rule(port, context)?;
    let (subnet_rank, address) = address_rule(port, context.subnets)?;
    baseline_rule(port, context)?;
    Ok(Candidate { port: port.id.clone(), mac: port.mac, address, subnet_rank, is_down: port.is_down() })
}

fn is_compute(port: &Port) -> bool {
    port.owner.is_empty() || port.owner.starts_with("compute:")
}

fn owner_rule(port: &Port) -> Result<(), LeftOut> {
    if is_compute(port) {
        return Ok(());
    }
    Err((Verdict::OwnerNotCompute, format!("device_owner {}", port.owner)))
}

fn project_rule(port: &Port, rules: &SelectionRules) -> Result<(), LeftOut> {
    match (&rules.project, &port.project) {
        (Some(wanted), Some(project)) if wanted != project => {
            Err((Verdict::OtherProject, format!("project {project}")))
        }
        (Some(_), None) => Err((Verdict::OtherProject, "project unknown".to_owned())),
        _ => Ok(()),
    }
}

fn was_delivered(port: &Port, context: Context<'_>) -> bool {
    context.delivered.contains(&port.id) || context.delivered_macs.contains(&port.mac)
}

/// A port that was delivered and is being bound again: it comes back in seconds.
fn is_rewiring(port: &Port, context: Context<'_>) -> bool {
    port.status.as_deref().is_some_and(|status| status.eq_ignore_ascii_case("BUILD"))
        && was_delivered(port, context)
        && !planted::is(Bug::DroppedOnBuild)
}

fn status_rule(port: &Port, context: Context<'_>) -> Result<(), LeftOut> {
    let status = port.status.as_deref();
    if context.rules.statuses.allows(status) {
        return Ok(());
    }
    if is_rewiring(port, context) {
        let since = context.rewiring.get(&port.id).copied().unwrap_or(context.now);
        if context.now.saturating_duration_since(since) <= context.rules.rewiring_grace {
            return Ok(());
        }
    }
    Err((Verdict::StatusNotAllowed, format!("status {}", status.unwrap_or("none"))))
}

/// First match in subnet order, then the numerically lowest address.
fn address_rule(port: &Port, subnets: &[TargetSubnet]) -> Result<(usize, Ipv4Addr), LeftOut> {
    let addresses: Vec<_> = port
        .fixed_ips
        .iter()
        .filter_map(|ip| match ip.address {
            IpAddr::V4(address) => Some((&ip.subnet, address)),
            IpAddr::V6(_) => None,
        })
        .collect();
    if addresses.is_empty() {
        return Err((Verdict::NoIPv4, "no IPv4 address".to_owned()));
    }
    let fits = |target: &TargetSubnet| target.network == port.network && matches!(target.cidr, IpNet::V4(_));
    subnets
        .iter()
        .enumerate()
        .filter(|(_, target)| fits(target))
        .find_map(|(rank, target)| {
            let lowest = addresses.iter().filter(|(subnet, _)| **subnet == target.id).map(|(_, a)| *a).min();
            lowest.map(|address| (rank, address))
        })
        .ok_or_else(|| {
            let text: Vec<_> = addresses.iter().map(|(_, address)| address.to_string()).collect();
            (Verdict::NoTargetSubnet, format!("addresses {}", text.join(", ")))
        })
}

fn baseline_rule(port: &Port, context: Context<'_>) -> Result<(), LeftOut> {
    let Baseline::Since(baseline) = context.rules.baseline else {
        return Ok(());
    };
    // A port that holds an index was delivered once, even if its node has it no more.
    if was_delivered(port, context) || context.held.iter().any(|held| held.port.as_ref() == Some(&port.id)) {
        return Ok(());
    }
    let Some(text) = port.created_at.as_deref() else {
        return Err((Verdict::NoCreationTime, "no created_at".to_owned()));
    };
    match parse_created_at(text) {
        None => Err((Verdict::NoCreationTime, "created_at cannot be read".to_owned())),
        // Neutron's times have whole seconds; so has an object's creationTimestamp.
        Some(created) if created.as_second() < baseline.as_second() => {
            Err((Verdict::BeforeBaseline, format!("created {created}, baseline {baseline}")))
        }
        Some(_) => Ok(()),
    }
}

/// RFC 3339, or the same without a zone, which means UTC.
pub fn parse_created_at(text: &str) -> Option<Timestamp> {
    let text = text.trim();
    if let Ok(moment) = text.parse::<Timestamp>() {
        return Some(moment);
    }
    // A bare date is not a moment.
    if text.len() <= "2026-01-10".len() {
        return None;
    }
    let civil: DateTime = text.parse().ok()?;
    civil.to_zoned(TimeZone::UTC).ok().map(|zoned| zoned.timestamp())
}

/// The agent finds a NIC by its MAC: with two of one, nothing may be guessed.
fn doubled_mac(ports: &[ListedPort], candidates: &[Candidate]) -> Option<String> {
    candidates.iter().find_map(|candidate| {
        let twin = ports
            .iter()
            .flatten()
            .find(|port| port.mac == candidate.mac && port.id != candidate.port && is_compute(port))?;
        Some(format!("ports {} and {} have the same MAC {}", candidate.port, twin.id, candidate.mac))
    })
}

#[cfg(test)]
mod tests;
