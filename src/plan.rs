//! One round worked out without sending anything: what each node would get, why each port was taken or
//! left, and what that changes compared with an inventory. Uses the very decisions that the tree uses.

pub mod table;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Instant;

use multinic_actors::boundary::CloudError;
use multinic_actors::domain::change::{describe, diff};
use multinic_actors::domain::claims::{Claimed, Claims};
use multinic_actors::domain::config::{Config, InvalidConfig};
use multinic_actors::domain::ids::{ConfigName, NodeName, ProviderId, VmId};
use multinic_actors::domain::inventory::{Owner, RecordKey, Snapshot, newest_of_vms, ports_of};
use multinic_actors::domain::node::NodeConfig;
use multinic_actors::domain::port::{Observation, PortVerdict};
use multinic_actors::domain::reason::{Reason, SkipReason};
use multinic_actors::domain::settle::{self, History, Settled, settle};
use multinic_actors::domain::status::PendingChange;
use multinic_actors::domain::vm::{Decision, VmInput, VmState, step};
use serde::Serialize;

/// What one round of one config would do.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigPlan {
    /// The object.
    #[serde(flatten)]
    pub name: ConfigName,
    /// Why there is no plan, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<PlanError>,
    /// VM by VM.
    pub vms: Vec<VmPlan>,
}

/// Why a config cannot be planned.
#[derive(Clone, Debug, Serialize)]
pub struct PlanError {
    /// The reason that its `Ready` condition would have.
    pub reason: Reason,
    /// In words.
    pub message: String,
}

/// What would become of one VM.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct VmPlan {
    /// The VM.
    pub vm: VmId,
    /// Its node.
    pub node: Option<NodeName>,
    /// Its ports and their verdicts.
    pub ports: Vec<PortVerdict>,
    /// Why nothing is sent for it, if so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub skipped: Option<Skip>,
    /// The change that would wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<PendingChange>,
    /// What would be sent; nothing where the node has it already.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub send: Option<Arc<NodeConfig>>,
    /// The difference to what the inventory has.
    pub difference: Difference,
}

/// Why a VM is left out.
#[derive(Clone, Debug, Serialize)]
pub struct Skip {
    /// The reason.
    pub reason: SkipReason,
    /// In words.
    pub message: String,
}

/// How what would be sent differs from what the inventory has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", tag = "kind", content = "what")]
pub enum Difference {
    /// Nothing would be sent.
    None,
    /// The node has exactly this.
    Same,
    /// The node is not in the inventory.
    New,
    /// Only new interfaces.
    Additions(String),
    /// Interfaces that are in use would be renamed, removed or readdressed.
    Changes(String),
}

impl ConfigPlan {
    /// The plan of an object that cannot be used as it is.
    pub fn invalid(invalid: &InvalidConfig) -> Self {
        Self::failed(invalid.id.name.clone(), invalid.reason, invalid.message.clone())
    }

    /// The plan of a config whose cloud could not be read.
    pub fn unread(config: &Config, error: &CloudError) -> Self {
        Self::failed(config.id.name.clone(), error.reason, error.message.clone())
    }

    fn failed(name: ConfigName, reason: Reason, message: String) -> Self {
        Self { name, error: Some(PlanError { reason, message }), vms: Vec::new() }
    }
}

/// Works one config out. `claims` carries what the configs before it own.
pub fn work_out(
    config: &Config,
    mut observation: Observation,
    known: &Snapshot,
    claims: &mut Claims,
) -> ConfigPlan {
    let history = Records::of(known, &config.provider);
    let decisions = decide(config, &mut observation, known, &history);
    let owner = Owner { id: config.id.clone(), created: config.created };
    let mut claim = |node: &NodeName, vm: &VmId| {
        let key = RecordKey { provider: config.provider.clone(), node: node.clone() };
        match claims.claim(&key, &owner, vm) {
            Claimed::Granted | Claimed::TakenOver(_) => Ok(()),
            Claimed::Refused(other) => Err(other.to_string()),
        }
    };
    let settled = settle(
        &decisions,
        settle::Context {
            policy: config.change_policy,
            approvals: &config.approvals,
            history: &history,
            // A plan is one look: it believes it.
            empty_before: &config.vms.iter().cloned().collect(),
            claim: &mut claim,
        },
    );
    let vms = decisions.into_values().map(|decision| vm_plan(decision, &settled, &history)).collect();
    ConfigPlan { name: config.id.name.clone(), error: None, vms }
}

fn decide(
    config: &Config,
    observation: &mut Observation,
    known: &Snapshot,
    history: &Records,
) -> BTreeMap<VmId, Decision> {
    let kept = known.configs.get(&config.id.name);
    let delivered_ports = ports_of(config.vms.iter().filter_map(|vm| history.by_vm.get(vm)));
    let subnets = std::mem::take(&mut observation.subnets);
    let decision = |vm: &VmId| {
        let (ports, server) = observation.take(vm);
        let held = kept.and_then(|kept| kept.allocations.get(vm)).cloned().unwrap_or_default();
        let (_, decision) = step(
            &VmState { held, ..VmState::default() },
            VmInput {
                vm,
                rules: &config.rules,
                is_pinned: config.change_policy.pins_indices(),
                node_name_key: config.cloud.node_name_metadata_key.as_deref(),
                subnets: &subnets,
                ports: &ports,
                server: &server,
                delivered: history.of_vm(vm).as_deref(),
                delivered_ports: &delivered_ports,
                now: Instant::now(),
            },
        );
        (vm.clone(), decision)
    };
    config.vms.iter().map(decision).collect()
}

fn vm_plan(decision: Decision, settled: &Settled, history: &Records) -> VmPlan {
    let wanted = decision.node.as_ref().and_then(|node| settled.wanted.get(node));
    let wanted = wanted.filter(|wanted| wanted.vm == decision.vm).map(|wanted| Arc::clone(&wanted.node));
    let delivered = history.of_vm(&decision.vm);
    let difference = match (&delivered, &wanted) {
        (_, None) => Difference::None,
        (None, Some(_)) => Difference::New,
        (Some(delivered), Some(wanted)) => compare(delivered, wanted),
    };
    let pending = settled.pending.iter().find(|pending| Some(&pending.node) == decision.node.as_ref());
    let skipped = settled.skipped.get(&decision.vm);
    VmPlan {
        send: wanted.filter(|_| difference != Difference::Same),
        difference,
        pending: pending.filter(|_| skipped.is_some()).cloned(),
        skipped: skipped.map(|(reason, message)| Skip { reason: *reason, message: message.clone() }),
        vm: decision.vm,
        node: decision.node,
        ports: decision.verdicts,
    }
}

fn compare(delivered: &NodeConfig, wanted: &NodeConfig) -> Difference {
    if delivered.is_same(wanted) {
        return Difference::Same;
    }
    let change = diff(delivered, wanted);
    let mut what = describe(delivered, wanted);
    if delivered.node_name != wanted.node_name {
        what = format!("the node was {} before; {what}", delivered.node_name);
        return Difference::Changes(what);
    }
    match change.is_only_additions() {
        true => Difference::Additions(what),
        false => Difference::Changes(what),
    }
}

/// The records of one delivery target.
struct Records {
    by_node: BTreeMap<NodeName, Arc<NodeConfig>>,
    by_vm: HashMap<VmId, Arc<NodeConfig>>,
}

impl Records {
    fn of(known: &Snapshot, provider: &ProviderId) -> Self {
        let records = || known.records.iter().filter(|(key, _)| &key.provider == provider);
        Self {
            by_node: records().map(|(key, r)| (key.node.clone(), Arc::clone(&r.config))).collect(),
            by_vm: newest_of_vms(records().map(|(_, record)| record))
                .into_iter()
                .map(|(vm, node)| (vm.clone(), Arc::clone(node)))
                .collect(),
        }
    }
}

impl History for Records {
    fn at_node(&self, node: &NodeName) -> Option<Arc<NodeConfig>> {
        self.by_node.get(node).cloned()
    }

    fn of_vm(&self, vm: &VmId) -> Option<Arc<NodeConfig>> {
        self.by_vm.get(vm).cloned()
    }
}

/// How many VMs would be sent something, are skipped, and are in use and would change.
pub fn totals(plans: &[ConfigPlan]) -> Totals {
    let vms = || plans.iter().flat_map(|plan| &plan.vms);
    Totals {
        configs: plans.len(),
        failed: plans.iter().filter(|plan| plan.error.is_some()).count(),
        send: vms().filter(|vm| vm.send.is_some()).count(),
        same: vms().filter(|vm| vm.difference == Difference::Same).count(),
        skipped: vms().filter(|vm| vm.skipped.is_some()).count(),
        changed: vms().filter(|vm| matches!(vm.difference, Difference::Changes(_))).count(),
    }
}

/// Sums over all configs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Configs looked at.
    pub configs: usize,
    /// Configs that could not be planned.
    pub failed: usize,
    /// Nodes that would be sent something.
    pub send: usize,
    /// Nodes that have what they should.
    pub same: usize,
    /// VMs that are left out.
    pub skipped: usize,
    /// Nodes in use whose interfaces would be renamed, removed or readdressed.
    pub changed: usize,
}
