//! The actors of the small tree: an outer one, its parent actor, and that one's children.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use multinic_actors::domain::restart::RestartPolicy;
use multinic_actors::supervision::{
    ChildExit, ChildSet, ChildSlot, ChildSpec, Hook, Node, Outcome, Suspect, Ticket, stop_children_in_order,
};
use ractor::{Actor, ActorProcessingErr, ActorRef, SupervisionEvent};

use crate::world::{Log, SECOND, policy};

// ---- the leaf ----

#[derive(Debug)]
pub enum ChildMsg {
    Panic,
    Fail,
    StopYourself,
    Hang,
    Phase(&'static str),
}

pub struct Child;

pub struct ChildState {
    node: Node,
    log: Log,
    post_stop_takes: Duration,
}

impl Actor for Child {
    type Msg = ChildMsg;
    type State = ChildState;
    type Arguments = ChildState;

    async fn pre_start(
        &self,
        _me: ActorRef<ChildMsg>,
        args: ChildState,
    ) -> Result<ChildState, ActorProcessingErr> {
        args.node.fault_point(Hook::PreStart).await?;
        Ok(args)
    }

    async fn handle(
        &self,
        me: ActorRef<ChildMsg>,
        message: ChildMsg,
        state: &mut ChildState,
    ) -> Result<(), ActorProcessingErr> {
        state.node.fault_point(Hook::Handle("any")).await?;
        match message {
            ChildMsg::Panic => panic!("boom"),
            ChildMsg::Fail => return Err(Suspect::new("boom").into()),
            ChildMsg::StopYourself => me.stop(Some("boom".to_owned())),
            ChildMsg::Hang => std::future::pending().await,
            ChildMsg::Phase(phase) => state.node.set_phase(phase),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<ChildMsg>,
        state: &mut ChildState,
    ) -> Result<(), ActorProcessingErr> {
        state.node.fault_point(Hook::PostStop).await?;
        tokio::time::sleep(state.post_stop_takes).await;
        state.log.add(format!("post_stop {}", state.node.name()));
        Ok(())
    }
}

// ---- its parent ----

type Look = Box<dyn FnOnce(&mut ParentState) + Send>;

pub enum ParentMsg {
    /// The restart timer of the slot.
    OneDue(Ticket),
    /// The restart timer of a child of the set.
    ManyDue(String, Ticket),
    StartOne,
    StartMany(String),
    Slow(Duration),
    Fail,
    /// A test looks at, or does something with, the state.
    Look(Look),
}

/// What the parent does about a child that gave up.
#[derive(Clone, Copy)]
pub enum OnGaveUp {
    Leave,
    Fail,
    RetryAfter(Duration),
}

#[derive(Clone)]
pub struct Settings {
    pub policy: RestartPolicy,
    pub on_gave_up: OnGaveUp,
    pub post_stop_takes: Duration,
    pub shutdown: Duration,
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            policy: policy(),
            on_gave_up: OnGaveUp::Leave,
            post_stop_takes: Duration::ZERO,
            shutdown: 10 * SECOND,
            seed: 0,
        }
    }
}

pub struct Parent;

pub struct ParentState {
    pub one: ChildSlot<ChildMsg>,
    pub many: ChildSet<String, ChildMsg>,
    pub nodes: Vec<Node>,
    args: ParentArgs,
}

#[derive(Clone)]
pub struct ParentArgs {
    node: Node,
    shared: Shared,
}

/// What survives a restart of the parent.
#[derive(Clone)]
pub struct Shared {
    pub settings: Settings,
    pub log: Log,
    pub exits: Arc<Mutex<Vec<ChildExit>>>,
    pub parent: Arc<Mutex<Option<ActorRef<ParentMsg>>>>,
}

impl ParentState {
    async fn start_one(&mut self, me: &ActorRef<ParentMsg>) -> Result<(), ActorProcessingErr> {
        let Shared { log, settings, .. } = self.args.shared.clone();
        let nodes = &mut self.nodes;
        let started = self.one.start(|node| {
            nodes.push(node.clone());
            let args = ChildState { node, log, post_stop_takes: settings.post_stop_takes };
            Child::spawn_linked(None, Child, args, me.get_cell())
        });
        match started.await {
            Ok(_) => Ok(()),
            Err(exit) => self.on_exit(None, exit),
        }
    }

    async fn start_many(&mut self, me: &ActorRef<ParentMsg>, key: String) -> Result<(), ActorProcessingErr> {
        let Shared { log, settings, .. } = self.args.shared.clone();
        let started = self.many.start(&key, |node| {
            let args = ChildState { node, log, post_stop_takes: settings.post_stop_takes };
            Child::spawn_linked(None, Child, args, me.get_cell())
        });
        match started.await {
            Ok(_) => Ok(()),
            Err(exit) => self.on_exit(Some(key), exit),
        }
    }

    fn on_exit(&mut self, key: Option<String>, exit: ChildExit) -> Result<(), ActorProcessingErr> {
        self.args.shared.exits.lock().unwrap().push(exit.clone());
        if exit.outcome == Outcome::GaveUp {
            match self.args.shared.settings.on_gave_up {
                OnGaveUp::Leave => {}
                OnGaveUp::Fail => return Err(exit.into()),
                OnGaveUp::RetryAfter(delay) => match key {
                    None => self.one.retry_after(delay),
                    Some(key) => self.many.get_mut(&key).unwrap().retry_after(delay),
                },
            }
        }
        Ok(())
    }
}

impl Actor for Parent {
    type Msg = ParentMsg;
    type State = ParentState;
    type Arguments = ParentArgs;

    async fn pre_start(
        &self,
        me: ActorRef<ParentMsg>,
        args: ParentArgs,
    ) -> Result<ParentState, ActorProcessingErr> {
        *args.shared.parent.lock().unwrap() = Some(me.clone());
        let Settings { policy, seed, .. } = args.shared.settings;
        let (to_me, to_me_too) = (me.clone(), me.clone());
        let mut state = ParentState {
            one: ChildSlot::new(
                ChildSpec::new("child", "one").policy(policy).seed(seed),
                &args.node,
                move |ticket| {
                    let _ = to_me.cast(ParentMsg::OneDue(ticket));
                },
            ),
            many: ChildSet::new("child", policy, seed, &args.node, move |key, ticket| {
                let _ = to_me_too.cast(ParentMsg::ManyDue(key, ticket));
            }),
            nodes: Vec::new(),
            args,
        };
        state.start_one(&me).await?;
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<ParentMsg>,
        message: ParentMsg,
        state: &mut ParentState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            ParentMsg::OneDue(ticket) => {
                if state.one.is_due(ticket) {
                    return state.start_one(&me).await;
                }
                state.args.shared.log.add("stale restart of one");
            }
            ParentMsg::ManyDue(key, ticket) => {
                if state.many.is_due(&key, ticket) {
                    return state.start_many(&me, key).await;
                }
                state.args.shared.log.add(format!("stale restart of {key}"));
            }
            ParentMsg::StartOne => return state.start_one(&me).await,
            ParentMsg::StartMany(key) => return state.start_many(&me, key).await,
            ParentMsg::Slow(time) => tokio::time::sleep(time).await,
            ParentMsg::Fail => return Err(Suspect::new("parent boom").into()),
            ParentMsg::Look(look) => look(state),
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _me: ActorRef<ParentMsg>,
        event: SupervisionEvent,
        state: &mut ParentState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(exit) = state.one.on_event(&event) {
            return state.on_exit(None, exit);
        }
        if let Some((key, exit)) = state.many.on_event(&event) {
            return state.on_exit(Some(key), exit);
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<ParentMsg>,
        state: &mut ParentState,
    ) -> Result<(), ActorProcessingErr> {
        let groups = vec![state.many.expect_stop_all(), state.one.expect_stop().into_iter().collect()];
        let stopped = stop_children_in_order(groups, state.args.shared.settings.shutdown).await;
        state.args.shared.log.add(format!("parent stopped {} killed {}", stopped.gracefully, stopped.killed));
        Ok(())
    }
}

// ---- the parent's parent ----

pub struct Outer;

pub struct OuterState {
    parent: ChildSlot<ParentMsg>,
    shared: Shared,
}

pub enum OuterMsg {
    ParentDue(Ticket),
}

impl OuterState {
    async fn start_parent(&mut self, me: &ActorRef<OuterMsg>) {
        let shared = self.shared.clone();
        let started = self
            .parent
            .start(|node| Parent::spawn_linked(None, Parent, ParentArgs { node, shared }, me.get_cell()));
        if let Err(exit) = started.await {
            self.shared.exits.lock().unwrap().push(exit);
        }
    }
}

impl Actor for Outer {
    type Msg = OuterMsg;
    type State = OuterState;
    type Arguments = (Node, Shared);

    async fn pre_start(
        &self,
        me: ActorRef<OuterMsg>,
        (node, shared): (Node, Shared),
    ) -> Result<OuterState, ActorProcessingErr> {
        let to_me = me.clone();
        let spec = ChildSpec::new("parent", "p").policy(policy());
        let parent = ChildSlot::new(spec, &node, move |ticket| {
            let _ = to_me.cast(OuterMsg::ParentDue(ticket));
        });
        let mut state = OuterState { parent, shared };
        state.start_parent(&me).await;
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<OuterMsg>,
        message: OuterMsg,
        state: &mut OuterState,
    ) -> Result<(), ActorProcessingErr> {
        let OuterMsg::ParentDue(ticket) = message;
        if state.parent.is_due(ticket) {
            state.start_parent(&me).await;
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _me: ActorRef<OuterMsg>,
        event: SupervisionEvent,
        state: &mut OuterState,
    ) -> Result<(), ActorProcessingErr> {
        if let Some(exit) = state.parent.on_event(&event) {
            state.shared.exits.lock().unwrap().push(exit);
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<OuterMsg>,
        state: &mut OuterState,
    ) -> Result<(), ActorProcessingErr> {
        let groups = vec![state.parent.expect_stop().into_iter().collect()];
        stop_children_in_order(groups, 60 * SECOND).await;
        Ok(())
    }
}
