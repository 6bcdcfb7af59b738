//! The port actor: one VM's ports → what its node should have.
//!
//! Owned by its config, no children, one per VM. Keeps the VM's index allocation and which ports are being
//! rewired. A crash loses one round of that VM: the allocation comes back from the inventory.

use std::collections::HashSet;
use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::domain::config::Config;
use crate::domain::ids::{PortId, VmId};
use crate::domain::node::NodeConfig;
use crate::domain::port::{ListedPort, Server, TargetSubnet};
use crate::domain::vm::{VmInput, VmState, step};
use crate::inventory::InventoryHandle;
use crate::supervision::{Hook, Node, now};
use crate::viola::{ViolaMsg, ViolaRef};

/// Reference to a port actor.
pub type PortRef = ActorRef<PortMsg>;

/// Messages of a port actor.
#[derive(Debug)]
pub enum PortMsg {
    /// A look at the VM (from its config); the decision goes to the delivery actor.
    Observe(Box<Observe>),
}

/// One look at one VM.
#[derive(Debug)]
pub struct Observe {
    /// The round.
    pub round: u64,
    /// The spec that the round was started with.
    pub config: Arc<Config>,
    /// The target subnets in order.
    pub subnets: Arc<Vec<TargetSubnet>>,
    /// The VM's ports.
    pub ports: Vec<ListedPort>,
    /// What Nova says of it.
    pub server: Server,
    /// What its node was delivered.
    pub delivered: Option<Arc<NodeConfig>>,
    /// All ports that the config's nodes were delivered.
    pub delivered_ports: Arc<HashSet<PortId>>,
    /// Whom to tell.
    pub viola: ViolaRef,
}

/// What a port actor is started with.
pub struct PortArgs {
    /// Its place in the tree.
    pub node: Node,
    /// Its VM.
    pub vm: VmId,
    /// Its config.
    pub config: Arc<Config>,
}

/// The port actor.
pub struct Port {
    /// Where allocations come back from.
    pub inventory: InventoryHandle,
}

/// State of a port actor.
pub struct State {
    node: Node,
    vm: VmId,
    memory: VmState,
}

impl Actor for Port {
    type Msg = PortMsg;
    type State = State;
    type Arguments = PortArgs;

    async fn pre_start(&self, _me: PortRef, args: PortArgs) -> Result<State, ActorProcessingErr> {
        args.node.fault_point(Hook::PreStart).await?;
        let kept = self.inventory.config_state(&args.config.id.name);
        let held = kept.and_then(|kept| kept.allocations.get(&args.vm).cloned()).unwrap_or_default();
        let memory = VmState { held, ..VmState::default() };
        Ok(State { node: args.node, vm: args.vm, memory })
    }

    async fn handle(&self, _me: PortRef, msg: PortMsg, state: &mut State) -> Result<(), ActorProcessingErr> {
        match msg {
            PortMsg::Observe(look) => {
                state.node.fault_point(Hook::Handle("Observe")).await?;
                observe(state, *look);
            }
        }
        Ok(())
    }
}

fn observe(state: &mut State, look: Observe) {
    let (memory, decision) = step(
        &state.memory,
        VmInput {
            vm: &state.vm,
            rules: &look.config.rules,
            is_pinned: look.config.change_policy.pins_indices(),
            node_name_key: look.config.cloud.node_name_metadata_key.as_deref(),
            subnets: &look.subnets,
            ports: &look.ports,
            server: &look.server,
            delivered: look.delivered.as_deref(),
            delivered_ports: &look.delivered_ports,
            now: now(),
        },
    );
    state.memory = memory;
    // A delivery actor that is gone gets the next round's decision.
    let _ = look.viola.send_message(ViolaMsg::Decided { round: look.round, decision: Box::new(decision) });
}
