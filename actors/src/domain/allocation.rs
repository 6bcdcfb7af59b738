//! Which interface index a port gets, and which port is cut when there are more than ten.

use std::collections::{BTreeMap, BTreeSet};

use super::config::InterfaceOrder;
use super::ids::{Mac, PortId};
use super::inventory::Held;
use super::node::{MAX_INTERFACES, NodeConfig};
use super::selection::Candidate;
use crate::planted::{self, Bug};

/// Who has which index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    /// Index to port.
    pub assigned: BTreeMap<u8, Candidate>,
    /// Ports for which no index was left.
    pub cut: Vec<Candidate>,
    /// What to remember: the assigned ports, and those that keep a claim while they do not qualify.
    pub held: Vec<Held>,
}

/// What allocation needs to know beside the candidates.
#[derive(Clone, Copy, Debug)]
pub struct Claims<'a> {
    /// What the node was delivered, if anything.
    pub delivered: Option<&'a NodeConfig>,
    /// What was allocated before.
    pub held: &'a [Held],
    /// Every port of the VM that exists, whatever its verdict.
    pub existing: &'a [(PortId, Mac)],
    /// A delivered index is never given to another port, even when its own is gone: the change policy
    /// may keep the delivered interface where it is.
    pub is_pinned: bool,
}

/// Gives each candidate its index.
pub fn allocate(order: InterfaceOrder, mut candidates: Vec<Candidate>, claims: Claims<'_>) -> Allocation {
    candidates.sort_by(|a, b| by_subnet(a).cmp(&by_subnet(b)));
    match order {
        InterfaceOrder::Sticky if !planted::is(Bug::RenumberedByMac) => sticky(candidates, claims),
        InterfaceOrder::Sticky | InterfaceOrder::Mac => {
            renumbered(candidates, |c| (0, c.mac, c.port.clone()))
        }
        InterfaceOrder::Subnet => renumbered(candidates, |c| (c.subnet_rank, c.mac, c.port.clone())),
    }
}

fn by_subnet(candidate: &Candidate) -> (usize, Mac, &PortId) {
    (candidate.subnet_rank, candidate.mac, &candidate.port)
}

fn renumbered<K: Ord>(mut candidates: Vec<Candidate>, key: impl Fn(&Candidate) -> K) -> Allocation {
    let cut = candidates.split_off(candidates.len().min(MAX_INTERFACES));
    candidates.sort_by_key(key);
    let assigned: BTreeMap<u8, Candidate> = (0..).zip(candidates).collect();
    let held = assigned.iter().map(|(index, candidate)| hold(*index, candidate)).collect();
    Allocation { assigned, cut, held }
}

fn hold(index: u8, candidate: &Candidate) -> Held {
    Held { index, port: Some(candidate.port.clone()), mac: candidate.mac }
}

fn sticky(candidates: Vec<Candidate>, claims: Claims<'_>) -> Allocation {
    let known = known_indices(&candidates, claims);
    let mut assigned: BTreeMap<u8, Candidate> = BTreeMap::new();
    let mut newcomers = Vec::new();
    for candidate in candidates {
        match index_of(&candidate, &known, claims.existing) {
            Some(index) if !assigned.contains_key(&index) => {
                assigned.insert(index, candidate);
            }
            _ => newcomers.push(candidate),
        }
    }
    let free = free_indices(&assigned, &known, claims);
    let cut = newcomers.split_off(newcomers.len().min(free.len()));
    // The lowest indices are used, but in MAC order among the newcomers.
    let mut free: Vec<u8> = free.into_iter().take(newcomers.len()).collect();
    free.sort_unstable();
    newcomers.sort_by(|a, b| (a.mac, &a.port).cmp(&(b.mac, &b.port)));
    assigned.extend(free.into_iter().zip(newcomers));
    let mut held: Vec<Held> = assigned.iter().map(|(index, candidate)| hold(*index, candidate)).collect();
    held.extend(
        known
            .into_iter()
            .filter(|(index, known)| {
                !assigned.contains_key(index)
                    && (known.is_hard(claims) || exists(&known.held, claims.existing))
            })
            .map(|(_, known)| known.held),
    );
    held.sort_by_key(|held| held.index);
    Allocation { assigned, cut, held }
}

struct Known {
    held: Held,
    is_delivered: bool,
}

impl Known {
    fn is_hard(&self, claims: Claims<'_>) -> bool {
        claims.is_pinned && self.is_delivered
    }
}

/// What was delivered counts first; an allocation fills the indices that it leaves, and those of delivered
/// ports that went: their successor may be on its way already.
fn known_indices(candidates: &[Candidate], claims: Claims<'_>) -> BTreeMap<u8, Known> {
    let mut known = BTreeMap::new();
    let delivered = claims.delivered.iter().flat_map(|node| &node.interfaces).map(|interface| Held {
        index: interface.id,
        port: interface.port_id.clone(),
        mac: interface.mac_address,
    });
    for held in delivered {
        known.entry(held.index).or_insert(Known { held, is_delivered: true });
    }
    for held in claims.held {
        let is_elsewhere = known.values().any(|other: &Known| is_same_port(&other.held, held));
        let is_free = known.get(&held.index).is_none_or(|delivered| {
            !delivered.is_hard(claims)
                && !qualifies(&delivered.held, candidates)
                && exists(held, claims.existing)
        });
        if !is_elsewhere && is_free {
            known.insert(held.index, Known { held: held.clone(), is_delivered: false });
        }
    }
    known.retain(|index, _| usize::from(*index) < MAX_INTERFACES);
    known
}

fn is_same_port(a: &Held, b: &Held) -> bool {
    match (&a.port, &b.port) {
        (Some(a), Some(b)) => a == b,
        _ => a.mac == b.mac,
    }
}

fn qualifies(held: &Held, candidates: &[Candidate]) -> bool {
    candidates.iter().any(|c| held.port.as_ref() == Some(&c.port) || held.mac == c.mac)
}

/// By port; by MAC where only that is known, or where the port was made anew with the same MAC.
fn index_of(candidate: &Candidate, known: &BTreeMap<u8, Known>, existing: &[(PortId, Mac)]) -> Option<u8> {
    let by_port = known.iter().find(|(_, known)| known.held.port.as_ref() == Some(&candidate.port));
    let by_mac = || {
        known.iter().find(|(_, known)| {
            let is_orphan =
                known.held.port.as_ref().is_none_or(|port| !existing.iter().any(|(id, _)| id == port));
            known.held.mac == candidate.mac && is_orphan
        })
    };
    by_port.or_else(by_mac).map(|(index, _)| *index)
}

fn exists(held: &Held, existing: &[(PortId, Mac)]) -> bool {
    existing.iter().any(|(id, mac)| match &held.port {
        Some(port) => port == id,
        None => held.mac == *mac,
    })
}

/// Free indices, the best first: those nobody has a claim on, then those of ports that do not qualify now.
fn free_indices(
    assigned: &BTreeMap<u8, Candidate>,
    known: &BTreeMap<u8, Known>,
    claims: Claims<'_>,
) -> Vec<u8> {
    let open: BTreeSet<u8> =
        (0..MAX_INTERFACES as u8).filter(|index| !assigned.contains_key(index)).collect();
    let is_hard = |index: &u8| known.get(index).is_some_and(|known| known.is_hard(claims));
    let is_soft = |index: &u8| known.get(index).is_some_and(|known| exists(&known.held, claims.existing));
    let (soft, unclaimed): (Vec<u8>, Vec<u8>) =
        open.into_iter().filter(|index| !is_hard(index)).partition(is_soft);
    unclaimed.into_iter().chain(soft).collect()
}

#[cfg(test)]
mod tests;
