//! After everything: nothing is wrong any more, and a while later the nodes have what they should.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use multinic_actors::domain::config::{ChangePolicy, Config};
use multinic_actors::domain::ids::{ConfigName, PortId, VmId};
use multinic_actors::domain::node::NodeConfig;
use multinic_actors::domain::reason::Reason;

use crate::checks::describe;
use crate::model::{self, Expect, Node};
use crate::monitor::Invariant;
use crate::world::World;

const SECOND: Duration = Duration::from_secs(1);
/// What hangs ends after ten minutes, a config that gave up rests up to sixteen, a poll that failed waits up
/// to twice the slow interval of ten minutes: one after the other.
const QUIET: Duration = Duration::from_secs(6_000);

/// A VM that wants a node, and for which object.
struct Contender {
    rank: (Timestamp, ConfigName),
    config: Arc<Config>,
    vm: VmId,
    /// Nothing when it wants it no more, or nobody can say.
    node: Option<Node>,
}

type Contenders = BTreeMap<(String, String), Vec<Contender>>;

impl World {
    pub async fn quiet(&mut self) {
        self.heal();
        self.truth.mend_mtus();
        self.bring_all_back();
        for (object, _) in self.existing() {
            self.change(object, |config| config.paused(false));
        }
        self.pass(QUIET).await;
        self.check_truth();
        self.check_life().await;
        self.check_down_ports().await;
        self.check_kept().await;
    }

    fn wrong(&self, text: String) {
        self.monitor.violates(Invariant::TheTruthInTheEnd, text);
    }

    fn contenders(&self) -> Contenders {
        let mut contenders = Contenders::new();
        for (_, config) in self.existing() {
            let Ok(seen) = self.harness.cloud.truth(&config) else { continue };
            let rank = (config.created, config.id.name.clone());
            let mut add = |name: String, vm: &VmId, node| {
                let (rank, config, vm) = (rank.clone(), Arc::clone(&config), vm.clone());
                let key = (config.provider.to_string(), name);
                contenders.entry(key).or_default().push(Contender { rank, config, vm, node });
            };
            for (vm, expect) in self.monitor.expect_now(&config, &seen) {
                // A node that it had and has not given up yet, or would have if it could.
                for base in self.monitor.bases(&config.provider, &vm) {
                    add(base.node_name.to_string(), &vm, None);
                }
                if let Some(name) = model::node_name(&config, seen.servers.get(&vm)) {
                    add(name, &vm, None);
                }
                if let Expect::Node(node) = expect
                    && !node.must.is_empty()
                {
                    add(node.name.clone(), &vm, Some(node));
                }
            }
        }
        contenders
    }

    /// What Viola has is what the cloud shows, for every node of which it is clear whose it is.
    fn check_truth(&self) {
        for ((provider, name), all) in &self.contenders() {
            let Some(oldest) = all.iter().map(|contender| &contender.rank).min() else { continue };
            let mine: Vec<_> = all.iter().filter(|contender| contender.rank == *oldest).collect();
            let Some((winner, node)) = mine.iter().find_map(|c| c.node.as_ref().map(|node| (c, node))) else {
                continue;
            };
            // Two VMs of one object for one node: which of them has it depends on who was first.
            if mine.iter().any(|other| other.vm != winner.vm) || node.may.len() + node.must.len() == 0 {
                continue;
            }
            let has = self.harness.viola.node_at(provider, name);
            if let Err(problem) = arrived(&winner.config, node, &winner.vm, has.as_ref()) {
                let has = has.as_deref().map_or_else(|| "nothing".to_owned(), describe);
                let who = &winner.config.id;
                self.wrong(format!("{who}, VM {}: {name} has {has}: {problem}", winner.vm));
            }
        }
        for (_, config) in self.existing() {
            let status = self.harness.status.of_life(&config.id);
            let reason = status.as_ref().map(|status| status.reason);
            let is_well = matches!(
                reason,
                Some(Reason::Synced | Reason::NoChange | Reason::AllSkipped | Reason::NovaError)
            );
            if !is_well {
                self.wrong(format!("{} is {reason:?}: {:?}", config.id, status.map(|s| s.message.clone())));
            }
        }
    }

    /// Everybody still looks, and the store has what memory has.
    async fn check_life(&mut self) {
        let before = self.harness.cloud.looks().len();
        self.pass(1400 * SECOND).await;
        let looks = self.harness.cloud.looks().split_off(before);
        for (_, config) in self.existing() {
            if !looks.iter().any(|look| look.config == *config.id.name.name) {
                self.wrong(format!("{} does not look any more: {}", config.id, self.harness.describe()));
            }
        }
    }

    /// A port goes DOWN, comes back, and goes DOWN once more: each time its node is sent five times fast and
    /// then slowly, and once more when it is back.
    async fn check_down_ports(&mut self) {
        for (object, _) in self.existing() {
            self.make_plain(object);
        }
        self.truth.mend_ports();
        self.pass(QUIET).await;
        let Some((object, node, port)) = self.a_delivered_port() else { return };
        for round in ["first", "second"] {
            self.truth.port_is(&port, "DOWN");
            let sent = self.sent_within(&object, &node, 600 * SECOND).await;
            let gaps: Vec<_> = sent.windows(2).map(|pair| (pair[1] - pair[0]).as_secs_f64()).collect();
            let is_fast = gaps.iter().take(4).all(|gap| (19.0..22.0).contains(gap));
            let is_slow = gaps.iter().skip(4).all(|gap| (119.0..123.0).contains(gap));
            if !(7..=10).contains(&sent.len()) || !is_fast || !is_slow {
                let text = format!("{node}, {round} time: sent at {sent:.1?}");
                return self.monitor.violates(Invariant::DownPortsAreSentAgain, text);
            }
            self.truth.port_is(&port, "ACTIVE");
            let sent = self.sent_within(&object, &node, 600 * SECOND).await;
            // One re-send may be due before the look that sees it come back.
            if !(1..=3).contains(&sent.len()) {
                let text = format!("{node}, back the {round} time: sent at {sent:.1?}");
                return self.monitor.violates(Invariant::DownPortsAreSentAgain, text);
            }
        }
    }

    async fn sent_within(&mut self, object: &str, node: &str, time: Duration) -> Vec<Duration> {
        let before = self.harness.viola.posts().len();
        self.pass(time).await;
        let posts = self.harness.viola.posts().split_off(before);
        let of_node = posts.iter().filter(|post| post.config == object && post.names().contains(&node));
        of_node.map(|post| post.at).collect()
    }

    /// A port of a node that is delivered as the cloud has it.
    fn a_delivered_port(&self) -> Option<(String, String, PortId)> {
        for ((provider, name), all) in &self.contenders() {
            let [first, rest @ ..] = all.as_slice() else { continue };
            let is_alone = rest.iter().all(|other| other.vm == first.vm && other.rank == first.rank);
            let node = all.iter().find_map(|contender| contender.node.as_ref()).filter(|_| is_alone);
            let (Some(node), Some(has)) = (node, self.harness.viola.node_at(provider, name)) else {
                continue;
            };
            if has.instance_id == first.vm
                && model::is_whole(node, first.config.rules.order, &has, &[]).is_ok()
            {
                let nic = has.interfaces.first().and_then(|nic| node.must.get(&nic.mac_address));
                if let Some(nic) = nic {
                    return Some((first.config.id.name.name.to_string(), name.clone(), nic.port.clone()));
                }
            }
        }
        None
    }

    /// What was written is what is known, and readers see it.
    async fn check_kept(&mut self) {
        self.monitor.check_kept(&self.harness.inventory().applied());
        let (kept, shown) = (self.harness.store.content(), self.harness.snapshot());
        if kept.records != shown.records || kept.configs != shown.configs {
            self.monitor.violates(Invariant::NothingDeliveredIsForgotten, "the store is behind after hours");
        }
    }
}

fn arrived(config: &Config, node: &Node, vm: &VmId, has: Option<&Arc<NodeConfig>>) -> Result<(), String> {
    if config.change_policy == ChangePolicy::Observe {
        return Ok(());
    }
    let has = has.ok_or("it was never sent")?;
    if has.instance_id != *vm {
        return Err("it is another VM's".to_owned());
    }
    if config.change_policy == ChangePolicy::Auto {
        return model::is_whole(node, config.rules.order, has, &[]);
    }
    // What is new is there, unless there is no room or its address is taken.
    let missing = node.must.iter().find(|(mac, facts)| {
        let is_there = has.interfaces.iter().any(|i| i.mac_address == **mac);
        let is_taken = has.interfaces.iter().any(|i| (i.address, i.cidr) == (facts.address, facts.cidr));
        !is_there && !is_taken && has.interfaces.len() < 10 && node.must.len() + node.may.len() <= 10
    });
    missing.map_or(Ok(()), |(mac, _)| Err(format!("{mac} was not added")))
}
