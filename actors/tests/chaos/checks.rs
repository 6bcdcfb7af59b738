//! The invariants, one function each, asked at the moment at which something leaves.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use multinic_actors::domain::config::{ChangePolicy, Config, InterfaceOrder};
use multinic_actors::domain::ids::Mac;
use multinic_actors::domain::node::{Interface, NodeConfig};

use crate::known::{Inner, LookRecord};
use crate::model::{self, Expect};
use crate::monitor::{Invariant, LAG, SECOND, WINDOW};

/// For how long a node may stay without what it needs: a POST may hang for ten minutes, and the pause after
/// it is at most as long.
const PATIENCE: Duration = Duration::from_secs(1500);

/// What does not hold, and in words.
type Verdict<T = ()> = Result<T, (Invariant, String)>;

impl Inner {
    pub fn check_rate(&mut self, what: &str, count: usize, config: &Config, now: Duration) {
        while self.nudges.front().is_some_and(|first| now.saturating_sub(*first) > WINDOW + LAG) {
            self.nudges.pop_front();
        }
        let times = self.begun.get(&config.id.name).into_iter().flatten();
        let fastest = times.map(|(_, fastest)| *fastest).min().unwrap_or(config.polling.fast);
        let fastest = fastest.min(config.polling.fast);
        let by_timer = WINDOW.as_secs_f64() / (0.9 * fastest.as_secs_f64());
        let bound = by_timer.ceil() as usize + 3 * self.nudges.len() + 6;
        if count > bound {
            let text = format!("{}: {count} {what} in ten minutes, at most {bound} have a reason", config.id);
            self.now_violates(Invariant::PollsAndLoginsWithinBounds, now, text);
        }
    }

    /// A node that has not what the looks have shown for long, or of which nobody knows what it has, is sent
    /// again and again, whatever Viola says.
    pub fn check_patience(&mut self, config: &Arc<Config>, now: Duration) {
        let is_calm = now.saturating_sub(self.disorder_until) > PATIENCE && now > self.disorder_until;
        let is_quiet = now.saturating_sub(self.lives_changed) > PATIENCE;
        let declared = self.declared.get(&config.id.name);
        let is_steady = declared
            .is_some_and(|d| d.config.revision == config.revision && now.saturating_sub(d.since) > PATIENCE);
        if !is_calm || !is_quiet || !is_steady || config.change_policy != ChangePolicy::Auto {
            return;
        }
        let looks = self.looks.get(&config.id.name).into_iter().flatten().rev();
        let recent: Vec<_> = looks.take_while(|look| now.saturating_sub(look.at) < PATIENCE).collect();
        let mut forgotten = Vec::new();
        for vm in config.vms.iter().filter(|_| recent.len() > 2 && recent.iter().all(|l| !l.is_unsure)) {
            let Some(track) = self.base_of(&config.provider, vm) else { continue };
            let is_mine = track.by.as_ref() == Some(&config.id.name) && track.base.len() == 1;
            let others = self.looks.iter().filter(|(name, _)| **name != config.id.name);
            // Who had the node may hold it, also when it has nothing for it now.
            let mut others = others.flat_map(|(_, looks)| looks).flat_map(|look| look.vms.iter());
            let name = track.base.first().map_or("", |base| base.node_name.as_str());
            let is_contested = others.any(|(other, expect)| other == vm || is_named(expect, name));
            if is_contested || !is_mine || now.saturating_sub(track.departed) < PATIENCE {
                continue;
            }
            let has = &track.base[0];
            let misses = |look: &&LookRecord| match look.vms.get(vm) {
                Some(Expect::Node(node)) if node.name == has.node_name.as_str() => {
                    let is_alone = look.vms.values().filter(|e| is_named(e, &node.name)).count() == 1;
                    let is_whole = node.must.iter().all(|nic| has_nic(has, nic))
                        || node.must.len() + node.may.len() > 10;
                    is_alone && !node.must.is_empty() && (!is_whole || track.is_owed)
                }
                _ => false,
            };
            if recent.iter().all(misses) {
                forgotten.push(format!("VM {vm}: {} is all that its node has", describe(has)));
            }
        }
        for text in forgotten {
            self.now_violates(Invariant::NothingWantedIsForgotten, now, text);
        }
    }

    /// Once a process has ended, or another leads, nothing of it is under way any more.
    pub fn check_reign(&mut self, config: &Arc<Config>, now: Duration) {
        if self.restarts.is_none() {
            let text = format!("{} sends, and nobody leads", config.id);
            self.now_violates(Invariant::NothingAfterTheEnd, now, text);
        }
    }

    /// Who may send at all.
    pub fn check_sender(&mut self, config: &Arc<Config>, now: Duration) {
        let name = &config.id.name;
        let problem = match self.declared.get(name) {
            None => {
                let since = self.gone.get(name).copied().unwrap_or_default();
                (now.saturating_sub(since) > 30 * SECOND).then(|| format!("{name} is gone since {since:.1?}"))
            }
            Some(declared) => {
                let is_settled = now.saturating_sub(declared.since) > 30 * SECOND;
                let is_old = declared.config.generation != config.generation;
                if is_settled && is_old {
                    Some(format!("{name} was changed at {:.1?}, and the old spec is used", declared.since))
                } else {
                    (config.paused).then(|| format!("{name} is paused"))
                }
            }
        };
        if let Some(problem) = problem.filter(|_| now >= self.disorder_until) {
            self.now_violates(Invariant::NothingFromThePausedOrGone, now, problem);
        }
    }

    pub fn check_post(&mut self, config: &Arc<Config>, sent: &Arc<NodeConfig>, now: Duration) -> Verdict {
        is_valid(sent).map_err(|text| (Invariant::NoWrongOrPartialInterface, text))?;
        if config.change_policy == ChangePolicy::Observe {
            return Err((Invariant::NothingThatThePolicyForbids, "nothing may be sent at all".to_owned()));
        }
        let order = self.check_look(config, sent, now)?;
        if order == Some(InterfaceOrder::Sticky) {
            self.check_names(config, sent)?;
        }
        self.check_allocation(config, sent, now)?;
        self.check_policy(config, sent, now)?;
        self.check_owner(config, sent, now)?;
        self.check_need(config, sent, now)
    }

    /// What is sent must be what a look showed, the newest that counts, and none older than the last one sent.
    /// Gives the order of interfaces of that look.
    fn check_look(
        &mut self,
        config: &Arc<Config>,
        sent: &Arc<NodeConfig>,
        now: Duration,
    ) -> Verdict<Option<InterfaceOrder>> {
        let name = &config.id.name;
        let key = (config.provider.clone(), sent.node_name.clone());
        let track = self.base_of(&config.provider, &sent.instance_id);
        let base: Vec<_> = track.map_or_else(Vec::new, |track| track.base.clone());
        let is_known = track.is_some_and(|track| !track.maybe_none && !track.lost_indices);
        let is_held = config.change_policy != ChangePolicy::Auto;
        let mut problem = "no look showed its VM".to_owned();
        let mut fitting: Vec<(u64, InterfaceOrder)> = Vec::new();
        for look in self.looks.get(name).into_iter().flatten().filter(|l| l.provider == config.provider) {
            let fits = match look.vms.get(&sent.instance_id) {
                None => continue,
                Some(Expect::Unclear) => Ok(()),
                Some(Expect::Silence(why)) => Err((*why).to_owned()),
                Some(Expect::Node(node)) if is_held && !base.is_empty() => {
                    adds_only_what_is(node, sent, &base)
                }
                Some(Expect::Node(node)) => {
                    let known = if is_known { base.as_slice() } else { &[] };
                    model::is_whole(node, look.order, sent, known)
                }
            };
            match fits {
                Ok(()) => fitting.push((look.number, look.order)),
                Err(text) => problem = text,
            }
        }
        if fitting.is_empty() {
            return Err((Invariant::NoWrongOrPartialInterface, problem));
        }
        let carried = self.nodes.get(&key).and_then(|track| track.carried.clone());
        let at_least = carried.filter(|(by, _)| by == name).map_or(0, |(_, number)| number);
        let Some(&(number, order)) = fitting.iter().find(|(number, _)| *number >= at_least) else {
            let text = format!("look {} showed it, look {at_least} was sent before", fitting[0].0);
            return Err((Invariant::NoStaleStateAfterANewerOne, text));
        };
        let newest_fitting = fitting.last().map_or(0, |(number, _)| *number);
        let newer = self.looks.get(name).into_iter().flatten().find(|look| {
            let counts = !look.is_unsure && now.saturating_sub(look.at) > LAG;
            counts && look.number > newest_fitting && look.provider == config.provider
        });
        if let Some(newer) = newer.filter(|_| now >= self.disorder_until) {
            let text = format!(
                "look {newest_fitting} showed it, look {} at {:.1?} did not: {problem}",
                newer.number, newer.at
            );
            return Err((Invariant::NoStaleStateAfterANewerOne, text));
        }
        self.nodes.entry(key).or_default().carried = Some((name.clone(), number));
        let by_others = self.looks.get(name).into_iter().flatten();
        let is_mixed = by_others.rev().take(4).any(|look| look.order != InterfaceOrder::Sticky);
        Ok((!is_mixed).then_some(order))
    }

    fn check_names(&self, config: &Config, sent: &NodeConfig) -> Verdict {
        let Some(track) = self.base_of(&config.provider, &sent.instance_id) else {
            return Ok(());
        };
        if track.lost_indices || track.maybe_none || track.base.is_empty() {
            return Ok(());
        }
        let renames = |base: &Arc<NodeConfig>| {
            let known = base.interfaces.iter().filter(|_| base.instance_id == sent.instance_id);
            known
                .flat_map(|old| sent.interfaces.iter().map(move |new| (old, new)))
                .filter(|(old, _)| !self.doubled.contains(&old.mac_address))
                .find(|(old, new)| old.mac_address == new.mac_address && old.name != new.name)
                .map(|(old, new)| format!("{} was {} and is {}", old.mac_address, old.name, new.name))
        };
        let renames: Vec<_> = track.base.iter().map(renames).collect();
        match renames.into_iter().collect::<Option<Vec<_>>>() {
            Some(all) => Err((Invariant::NoRenameUnderSticky, all.join("; "))),
            None => Ok(()),
        }
    }

    /// An index is in the store before anything is sent that uses it.
    fn check_allocation(&self, config: &Config, sent: &NodeConfig, now: Duration) -> Verdict {
        let is_foreseen = config.change_policy == ChangePolicy::Auto && now >= self.store_refuses_until;
        if !is_foreseen {
            return Ok(());
        }
        let allocations = self.store.allocations(&config.id.name, &sent.instance_id);
        let is_kept = |interface: &&Interface| {
            allocations.iter().any(|held| held.index == interface.id && held.mac == interface.mac_address)
        };
        match sent.interfaces.iter().find(|interface| !is_kept(interface)) {
            Some(interface) => {
                let text =
                    format!("{} of {} is not kept: {allocations:?}", interface.name, interface.mac_address);
                Err((Invariant::NoPostBeforeItsAllocationIsKept, text))
            }
            None => Ok(()),
        }
    }

    fn check_policy(&self, config: &Config, sent: &NodeConfig, now: Duration) -> Verdict {
        let is_approved = config.change_policy == ChangePolicy::Approve
            && config.approvals.iter().any(|id| sent.hash().as_str().starts_with(id.as_str()));
        if config.change_policy == ChangePolicy::Auto || is_approved {
            return Ok(());
        }
        let Some(track) = self.base_of(&config.provider, &sent.instance_id) else {
            return Ok(());
        };
        let is_sure = !track.maybe_none && now >= self.disorder_until;
        let taken: Vec<_> = track.base.iter().filter_map(|base| taken_by(sent, base)).collect();
        if is_sure && !taken.is_empty() && taken.len() == track.base.len() {
            let text = format!("{:?} takes or changes {:?}", config.change_policy, taken[0]);
            return Err((Invariant::NothingThatThePolicyForbids, text));
        }
        Ok(())
    }

    /// An older object that has had the node, and has wanted it for long, is its owner.
    fn check_owner(&self, config: &Config, sent: &NodeConfig, now: Duration) -> Verdict {
        let rank = |config: &Config| (config.created, config.id.name.clone());
        let key = (config.provider.clone(), sent.node_name.clone());
        let had = self.nodes.get(&key).and_then(|track| track.by.clone());
        for other in self.declared.values().filter(|other| Some(&other.config.id.name) == had.as_ref()) {
            let is_older = rank(&other.config) < rank(config) && other.config.provider == config.provider;
            let is_steady = now.saturating_sub(other.since) > 1500 * SECOND && !other.config.paused;
            let is_quiet = now.saturating_sub(self.lives_changed) > 1500 * SECOND;
            if !is_older || !is_steady || !is_quiet || now < self.disorder_until {
                continue;
            }
            let looks = self.looks.get(&other.config.id.name).into_iter().flatten().rev();
            let recent: Vec<_> = looks.take_while(|l| now.saturating_sub(l.at) < 1500 * SECOND).collect();
            let is_it = |expect: &&Expect| matches!(expect, Expect::Node(node) if node.name == sent.node_name.as_str() && !node.must.is_empty());
            // Of two VMs with the name, none may have it.
            let wants = |look: &&LookRecord| look.vms.values().filter(is_it).count() == 1;
            let for_long = recent.last().is_some_and(|look| now.saturating_sub(look.at) > 800 * SECOND);
            if recent.len() > 2 && for_long && recent.iter().all(wants) {
                let text = format!("the node is {}'s", other.config.id.name);
                return Err((Invariant::NoNodeOfAnother, text));
            }
        }
        Ok(())
    }

    fn check_need(&self, config: &Config, sent: &NodeConfig, now: Duration) -> Verdict {
        let Some(track) = self.base_of(&config.provider, &sent.instance_id) else {
            return Ok(());
        };
        let is_same = track.base.len() == 1 && track.base[0].is_same(sent);
        let is_excused = track.is_in_doubt || track.may_resend.contains(&config.id.name) || track.maybe_none;
        if !is_same || is_excused || config.polling.resync.is_some() || now < self.disorder_until {
            return Ok(());
        }
        let downs = self.downs.get(&(config.id.name.clone(), sent.instance_id.clone()));
        let has_news = downs.is_some_and(|downs| downs.is_down || downs.last_news >= track.departed);
        if !has_news {
            return Err((Invariant::NoNeedlessPost, "it has exactly that".to_owned()));
        }
        let pause = now.saturating_sub(track.departed);
        // The first re-send follows the look, not the delivery, which may have been late.
        let was_re_sent = track.before.iter().any(|before| before.is_same(sent));
        if was_re_sent
            && downs.is_some_and(|downs| downs.is_down && downs.last_news < track.departed)
            && pause < config.polling.fast.mul_f64(0.5)
        {
            let text = format!("a DOWN port, but sent {pause:.1?} ago");
            return Err((Invariant::NoNeedlessPost, text));
        }
        Ok(())
    }
}

/// Whether the node has the NIC, with these facts.
fn has_nic(node: &NodeConfig, (mac, facts): (&Mac, &model::Facts)) -> bool {
    node.interfaces.iter().any(|i| {
        (i.mac_address, i.address, i.cidr, i64::from(i.mtu)) == (*mac, facts.address, facts.cidr, facts.mtu)
    })
}

fn is_named(expect: &Expect, name: &str) -> bool {
    matches!(expect, Expect::Node(node) if node.name == name)
}

/// A NIC of the same VM that is gone or is another one now.
fn taken_by<'a>(sent: &NodeConfig, base: &'a NodeConfig) -> Option<&'a Interface> {
    let essence = |i: &Interface| (i.id, i.name.clone(), i.mac_address, i.address, i.cidr, i.mtu);
    let of_vm = base.interfaces.iter().filter(|_| base.instance_id == sent.instance_id);
    of_vm.into_iter().find(|old| !sent.interfaces.iter().any(|new| essence(new) == essence(old)))
}

/// Under a policy: everything that the node did not have is what the look shows.
fn adds_only_what_is(node: &model::Node, sent: &NodeConfig, base: &[Arc<NodeConfig>]) -> Result<(), String> {
    let had = |mac| base.iter().flat_map(|base| &base.interfaces).any(|i| i.mac_address == mac);
    for interface in &sent.interfaces {
        let mac = interface.mac_address;
        let facts = node.must.get(&mac).or_else(|| node.may.get(&mac));
        let is_so = |facts: &model::Facts| {
            (interface.address, interface.cidr, i64::from(interface.mtu))
                == (facts.address, facts.cidr, facts.mtu)
        };
        if !facts.is_some_and(is_so) && !had(mac) {
            return Err(format!("{mac} is neither new nor was it there"));
        }
    }
    Ok(())
}

/// By the documents of the node agent, not by the product's own check.
fn is_valid(node: &NodeConfig) -> Result<(), String> {
    let mut names = BTreeSet::new();
    let mut macs = BTreeSet::new();
    for interface in &node.interfaces {
        let is_named = interface.name == format!("multinic{}", interface.id) && interface.id <= 9;
        let is_sound = interface.cidr.contains(&interface.address) && (68..=9000).contains(&interface.mtu);
        if !is_named || !is_sound {
            return Err(format!("{interface:?} is not valid"));
        }
        if !names.insert(interface.name.clone()) || !macs.insert(interface.mac_address) {
            return Err(format!("{} or {} is there twice", interface.name, interface.mac_address));
        }
    }
    if node.interfaces.is_empty() || node.interfaces.len() > 10 {
        return Err(format!("{} interfaces", node.interfaces.len()));
    }
    Ok(())
}

/// A node's list in one line.
pub fn describe(node: &NodeConfig) -> String {
    let interfaces: Vec<_> = node
        .interfaces
        .iter()
        .map(|i| {
            format!("{}={}@{}/{}", i.name.trim_start_matches("multinic"), i.mac_address, i.address, i.mtu)
        })
        .collect();
    format!("{} ({}) [{}]", node.node_name, node.instance_id, interfaces.join(" "))
}
