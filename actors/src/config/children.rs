//! The children of a config: how they are started, and what their ends mean.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr};

use super::{ConfigActor, ConfigMsg, ConfigRef, Demand, Phase, State};
use crate::domain::backoff::seed_for;
use crate::domain::cadence::Cadence;
use crate::domain::config::Config;
use crate::domain::ids::VmId;
use crate::domain::progress::Progress;
use crate::port::{Port, PortArgs};
use crate::supervision::{
    ChildExit, ChildSet, ChildSlot, ChildSpec, Node, Outcome, TaskSlot, TimerSlot, now,
};
use crate::token::{Token, TokenArgs};
use crate::viola::{Viola, ViolaArgs};

/// How long a VM whose actor failed too often is left out.
const PORT_PAUSE: Duration = Duration::from_secs(60);

impl ConfigActor {
    pub(super) fn new_state(&self, me: ConfigRef, node: Node, config: Arc<Config>) -> State {
        let (policy, seed) = (self.shared.restart, seed_for(self.shared.seed, &config.id.to_string()));
        let (to_token, to_viola, to_port) = (me.clone(), me.clone(), me.clone());
        // A config that is gone restarts nobody.
        let token = ChildSlot::new(
            ChildSpec::new("token", "token").policy(policy).seed(seed),
            &node,
            move |ticket| drop(to_token.send_message(ConfigMsg::TokenDue(ticket))),
        );
        let viola = ChildSlot::new(
            ChildSpec::new("viola", "viola").policy(policy).seed(seed),
            &node,
            move |ticket| drop(to_viola.send_message(ConfigMsg::ViolaDue(ticket))),
        );
        let ports = ChildSet::new("port", policy, seed, &node, move |vm, ticket| {
            drop(to_port.send_message(ConfigMsg::PortDue(vm, ticket)));
        });
        State {
            me,
            node,
            phase: Phase::Resting,
            round: 0,
            demand: Demand::EVENT,
            round_config: Arc::clone(&config),
            next_demand: None,
            poll: TimerSlot::new(),
            look: TaskSlot::new(),
            cadence: Cadence::new(config.polling, seed, now()),
            token,
            viola,
            ports,
            progress: Progress::default(),
            config,
        }
    }

    pub(super) async fn start_token(&self, state: &mut State) -> Result<(), ActorProcessingErr> {
        let actor = Token { cloud: Arc::clone(&self.shared.cloud), seed: self.shared.seed };
        let (me, config) = (state.me.clone(), Arc::clone(&state.config));
        let spawn = |node| {
            let args = TokenArgs { node, config, owner: me.clone() };
            Actor::spawn_linked(None, actor, args, me.get_cell())
        };
        match state.token.start(spawn).await {
            Ok(_) => Ok(()),
            Err(exit) => self.needed_child_ended(state, exit),
        }
    }

    pub(super) async fn start_viola(&self, state: &mut State) -> Result<(), ActorProcessingErr> {
        let actor = Viola {
            delivery: Arc::clone(&self.shared.delivery),
            inventory: self.shared.inventory.clone(),
            claims: self.shared.claims.clone(),
            clock: Arc::clone(&self.shared.clock),
            seed: self.shared.seed,
        };
        let (me, config) = (state.me.clone(), Arc::clone(&state.config));
        let spawn = |node| {
            let args = ViolaArgs { node, config, owner: me.clone() };
            Actor::spawn_linked(None, actor, args, me.get_cell())
        };
        match state.viola.start(spawn).await {
            Ok(_) => Ok(()),
            Err(exit) => {
                state.give_up_round();
                self.needed_child_ended(state, exit)
            }
        }
    }

    /// One actor for each VM that is listed, none for others.
    pub(super) async fn start_ports(&self, state: &mut State) {
        let listed: BTreeSet<_> = state.config.vms.iter().cloned().collect();
        let gone: Vec<_> = state.ports.keys().filter(|vm| !listed.contains(vm)).cloned().collect();
        for vm in &gone {
            state.ports.remove(vm);
        }
        for vm in &listed {
            if state.ports.get(vm).is_none() {
                self.start_port(state, vm).await;
            }
        }
    }

    pub(super) async fn start_port(&self, state: &mut State, vm: &VmId) {
        let actor = Port { inventory: self.shared.inventory.clone() };
        let (me, config) = (state.me.get_cell(), Arc::clone(&state.config));
        let spawn = |node| {
            let args = PortArgs { node, vm: vm.clone(), config };
            Actor::spawn_linked(None, actor, args, me)
        };
        if let Err(exit) = state.ports.start(vm, spawn).await {
            self.port_ended(state, vm, &exit);
        }
    }

    /// The token or viola actor ended. Without it nothing works: too many failures end the config too.
    pub(super) fn needed_child_ended(
        &self,
        state: &State,
        exit: ChildExit,
    ) -> Result<(), ActorProcessingErr> {
        match exit.outcome {
            Outcome::Stopped => Ok(()),
            Outcome::RestartIn(_) => {
                tracing::warn!("{}: {exit}", state.config.id.name);
                Ok(())
            }
            Outcome::GaveUp => Err(exit.into()),
        }
    }

    /// A VM was taken out and put back in before its actor was gone.
    pub(super) async fn start_port_again(&self, state: &mut State, vm: &VmId) {
        if state.config.vms.contains(vm) {
            self.start_port(state, vm).await;
            self.demand(state, Demand::EVENT);
        }
    }

    /// A port actor ended: its VM sits this round out, the others go on.
    pub(super) fn port_ended(&self, state: &mut State, vm: &VmId, exit: &ChildExit) {
        match exit.outcome {
            Outcome::Stopped => {}
            Outcome::RestartIn(_) => tracing::warn!("{}: {exit}", state.config.id.name),
            Outcome::GaveUp => {
                tracing::error!("{}: {exit}, trying again in {PORT_PAUSE:?}", state.config.id.name);
                if let Some(slot) = state.ports.get_mut(vm) {
                    slot.retry_after(PORT_PAUSE);
                }
            }
        }
        if state.phase == Phase::Deciding {
            state.answer_for(vm, &format!("its actor failed: {}", exit.error));
        }
    }
}
