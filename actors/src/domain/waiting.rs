//! Ports that were seen and are not delivered yet, and since when.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::ids::PortId;
use super::node::NodeConfig;

/// When the ports that wait for their delivery were first seen. Lost with its actor: a port that waits then
/// counts from the next look.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waiting(BTreeMap<PortId, Instant>);

impl Waiting {
    /// These and no others wait now.
    pub fn keep(&mut self, waiting: impl Iterator<Item = PortId>, now: Instant) {
        let before = std::mem::take(&mut self.0);
        self.0 = waiting
            .map(|port| {
                let since = before.get(&port).copied().unwrap_or(now);
                (port, since)
            })
            .collect();
    }

    /// The node was delivered: how long each of its ports that had waited did so.
    pub fn delivered(&mut self, node: &NodeConfig, now: Instant) -> Vec<Duration> {
        let ports = node.interfaces.iter().filter_map(|interface| interface.port_id.as_ref());
        ports.filter_map(|port| Some(now.saturating_duration_since(self.0.remove(port)?))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::samples::worker;

    #[test]
    fn a_port_waits_from_the_first_look_that_shows_it_until_its_node_is_delivered() {
        let node = worker(&[(0, 1), (1, 2)]);
        let ports: Vec<PortId> = node.interfaces.iter().filter_map(|i| i.port_id.clone()).collect();
        let (start, mut waiting) = (Instant::now(), Waiting::default());
        let at = |seconds| start + Duration::from_secs(seconds);
        waiting.keep(ports[..1].iter().cloned(), at(0));
        waiting.keep(ports.iter().cloned(), at(10));
        let mut waits = waiting.delivered(&node, at(12));
        waits.sort();
        assert_eq!(waits, [Duration::from_secs(2), Duration::from_secs(12)]);
        assert!(waiting.delivered(&node, at(20)).is_empty(), "a re-send is no second delivery");
    }

    #[test]
    fn a_port_that_went_away_does_not_wait_any_more() {
        let node = worker(&[(0, 1)]);
        let port = node.interfaces[0].port_id.clone();
        let (start, mut waiting) = (Instant::now(), Waiting::default());
        waiting.keep(port.into_iter(), start);
        waiting.keep(std::iter::empty(), start);
        assert!(waiting.delivered(&node, start).is_empty());
    }
}
