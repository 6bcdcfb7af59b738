//! Nodes whose object in the workload cluster is not what was delivered: when to repair it, and when to speak.
//!
//! The first repairs of a node are at once. Somebody who keeps changing it back meets growing pauses: two
//! programs must not fight at full speed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::ids::NodeName;

/// So many repairs of one node follow each other at once.
const PATIENT_REPAIRS: u32 = 5;
/// The pause before the repair after those; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_secs(2);

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// A drift that is younger is not spoken of: what was just delivered takes a moment to appear.
    pub grace: Duration,
    /// The longest pause between two repairs, and how long a node must stay in order to be trusted again.
    pub rest: Duration,
}

/// The drift of one config's nodes.
#[derive(Clone, Debug, Default)]
pub struct Drifts {
    nodes: BTreeMap<NodeName, Node>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Node {
    /// Since when it drifts; `None` while it is in order.
    since: Option<Instant>,
    /// Repairs in a row.
    repairs: u32,
    last_repair: Option<Instant>,
}

impl Node {
    fn pause(self, rule: Rule) -> Duration {
        let over = self.repairs.saturating_sub(PATIENT_REPAIRS);
        match over {
            0 => Duration::ZERO,
            _ => FIRST_PAUSE.saturating_mul(1 << (over - 1).min(16)).min(rule.rest),
        }
    }

    fn due(self, rule: Rule) -> Option<Instant> {
        let since = self.since?;
        Some(self.last_repair.map_or(since, |last| since.max(last + self.pause(rule))))
    }

    fn is_forgotten(self, rule: Rule, now: Instant) -> bool {
        self.since.is_none() && self.last_repair.is_none_or(|last| now >= last + rule.rest * 2)
    }
}

impl Drifts {
    /// Takes in a look: these nodes drift, all others are in order.
    pub fn observe(&mut self, drifting: &BTreeSet<NodeName>, rule: Rule, now: Instant) {
        for (name, node) in &mut self.nodes {
            if !drifting.contains(name) {
                node.since = None;
            }
        }
        for name in drifting {
            self.nodes.entry(name.clone()).or_default().since.get_or_insert(now);
        }
        self.nodes.retain(|_, node| !node.is_forgotten(rule, now));
    }

    /// The nodes that are repaired now. Until that has been tried they count as no drift: the next look is to
    /// leave them out.
    pub fn repair(&mut self, rule: Rule, now: Instant) -> Vec<NodeName> {
        let mut due = Vec::new();
        for (name, node) in &mut self.nodes {
            if node.due(rule).is_some_and(|at| at <= now) {
                node.repairs += 1;
                node.last_repair = Some(now);
                due.push(name.clone());
            }
        }
        due
    }

    /// Nodes that have drifted for longer than the grace.
    pub fn lasting(&self, rule: Rule, now: Instant) -> impl Iterator<Item = &NodeName> {
        let lasts = move |node: &Node| node.since.is_some_and(|since| now >= since + rule.grace);
        self.nodes.iter().filter(move |(_, node)| lasts(node)).map(|(name, _)| name)
    }

    /// When to look again although nothing changed: a pause or a grace ends.
    pub fn next(&self, rule: Rule, repairs: bool, now: Instant) -> Option<Instant> {
        let grace = self.nodes.values().filter_map(|node| Some(node.since? + rule.grace));
        let due = self.nodes.values().filter(|_| repairs).filter_map(|node| node.due(rule));
        grace.chain(due).filter(|at| *at > now).min()
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{SECOND, name};
    use super::*;

    const RULE: Rule = Rule { grace: Duration::from_secs(20), rest: Duration::from_secs(120) };

    fn one() -> BTreeSet<NodeName> {
        [name("n")].into()
    }

    #[test]
    fn the_first_repairs_are_at_once_and_a_fight_slows_down() {
        let (mut drifts, start) = (Drifts::default(), Instant::now());
        let (mut now, mut pauses) = (start, Vec::new());
        for _ in 0..14 {
            drifts.observe(&BTreeSet::new(), RULE, now);
            now += SECOND / 1000;
            drifts.observe(&one(), RULE, now);
            let seen = now;
            while drifts.repair(RULE, now).is_empty() {
                now = drifts.next(RULE, true, now).unwrap();
            }
            pauses.push((now - seen).as_secs());
        }
        assert_eq!(pauses[..5], [0; 5]);
        assert!(pauses[5..].is_sorted() && pauses[13] >= 119, "{pauses:?}");
    }

    #[test]
    fn a_node_that_stayed_in_order_is_repaired_at_once_again() {
        let (mut drifts, mut now) = (Drifts::default(), Instant::now());
        for _ in 0..6 {
            drifts.observe(&one(), RULE, now);
            drifts.repair(RULE, now);
            now += SECOND;
        }
        assert!(drifts.repair(RULE, now).is_empty());
        now += RULE.rest * 2;
        drifts.observe(&BTreeSet::new(), RULE, now);
        drifts.observe(&one(), RULE, now);
        assert_eq!(drifts.repair(RULE, now), [name("n")]);
    }

    #[test]
    fn a_young_drift_is_not_spoken_of() {
        let (mut drifts, now) = (Drifts::default(), Instant::now());
        drifts.observe(&one(), RULE, now);
        assert_eq!(drifts.lasting(RULE, now).count(), 0);
        let later = drifts.next(RULE, false, now).unwrap();
        assert_eq!(later - now, RULE.grace);
        drifts.observe(&one(), RULE, later);
        assert_eq!(drifts.lasting(RULE, later).count(), 1);
        drifts.observe(&BTreeSet::new(), RULE, later);
        assert_eq!(drifts.lasting(RULE, later).count(), 0);
    }
}
