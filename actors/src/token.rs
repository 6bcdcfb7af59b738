//! The token actor: one config's client of the shared session.
//!
//! Owned by its config, no children. Asks the cloud for a session when the config needs one, renews it at
//! half of its life, and says in which phase it is. A crash loses nothing: the session itself lives in the
//! adapter's pool, and the config asks again.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::boundary::{Cloud, CloudError, Session};
use crate::config::{ConfigMsg, ConfigRef};
use crate::domain::backoff::{Backoff, BackoffPolicy, seed_for};
use crate::domain::config::Config;
use crate::domain::reason::Reason;
use crate::supervision::{Hook, Node, TaskPanicked, TaskSlot, Ticket, TimerSlot, now};

/// A login behind which everything waits ends at the latest after this many request timeouts: the
/// look-up of the provider, the login, and the same once more.
const LOGIN_TIMEOUTS: u32 = 5;
/// Pauses between tries to renew a token that still works.
const RENEWAL_RETRY: BackoffPolicy =
    BackoffPolicy::doubling(Duration::from_secs(30), Duration::from_secs(300));

/// Reference to a token actor.
pub type TokenRef = ActorRef<TokenMsg>;

/// Messages of a token actor.
#[derive(Debug)]
pub enum TokenMsg {
    /// The config needs a session for a round; answered with [`ConfigMsg::SessionReady`].
    Obtain {
        /// The round.
        round: u64,
    },
    /// The config's spec changed: the session may be another one now.
    Apply(Arc<Config>),
    /// The login or renewal under way ended.
    LoginDone(Ticket, Result<Result<Session, CloudError>, TaskPanicked>),
    /// Half of the token's life is over.
    RenewalDue(Ticket),
}

impl TokenMsg {
    fn word(&self) -> &'static str {
        match self {
            Self::Obtain { .. } => "Obtain",
            Self::Apply(_) => "Apply",
            Self::LoginDone(..) => "LoginDone",
            Self::RenewalDue(_) => "RenewalDue",
        }
    }
}

/// What a token actor is started with.
pub struct TokenArgs {
    /// Its place in the tree.
    pub node: Node,
    /// The config's spec.
    pub config: Arc<Config>,
    /// Its owner.
    pub owner: ConfigRef,
}

/// The token actor.
pub struct Token {
    /// Where sessions come from.
    pub cloud: Arc<dyn Cloud>,
    /// For the jitter of renewals.
    pub seed: u64,
}

/// What the actor is doing right now.
enum Phase {
    /// Nobody has asked for a session yet, or the last login failed: the next request tries again.
    Vacant,
    /// A login is under way; the round to answer.
    LoggingIn { round: u64 },
    /// There is a session that works.
    Ready(Session),
}

/// State of a token actor.
pub struct State {
    node: Node,
    config: Arc<Config>,
    owner: ConfigRef,
    phase: Phase,
    login: TaskSlot,
    renewal: TimerSlot,
    backoff: Backoff,
}

impl Actor for Token {
    type Msg = TokenMsg;
    type State = State;
    type Arguments = TokenArgs;

    async fn pre_start(&self, _me: TokenRef, args: TokenArgs) -> Result<State, ActorProcessingErr> {
        args.node.fault_point(Hook::PreStart).await?;
        let seed = seed_for(self.seed, &args.config.id.to_string());
        Ok(State {
            node: args.node,
            config: args.config,
            owner: args.owner,
            phase: Phase::Vacant,
            login: TaskSlot::new(),
            renewal: TimerSlot::new(),
            backoff: Backoff::new(RENEWAL_RETRY, seed, now()),
        })
    }

    async fn handle(&self, me: TokenRef, msg: TokenMsg, state: &mut State) -> Result<(), ActorProcessingErr> {
        state.node.fault_point(Hook::Handle(msg.word())).await?;
        match msg {
            TokenMsg::Obtain { round } => self.obtain(&me, state, round),
            TokenMsg::Apply(config) => self.apply(state, config),
            TokenMsg::LoginDone(ticket, result) => self.login_done(&me, state, ticket, result),
            TokenMsg::RenewalDue(ticket) => self.renewal_due(&me, state, ticket),
        }
        Ok(())
    }
}

impl Token {
    fn obtain(&self, me: &TokenRef, state: &mut State, round: u64) {
        match &mut state.phase {
            Phase::Ready(session) => answer(&state.owner, round, Ok(session.clone())),
            Phase::LoggingIn { round: waiting } => *waiting = round,
            Phase::Vacant => {
                state.phase = Phase::LoggingIn { round };
                state.node.set_phase("logging in");
                self.log_in(me, state, false);
            }
        }
    }

    fn apply(&self, state: &mut State, config: Arc<Config>) {
        state.config = config;
        // The pool gives the same session again where nothing that matters changed.
        state.phase = Phase::Vacant;
        state.login.cancel();
        state.renewal.cancel();
        state.node.set_phase("vacant");
    }

    fn log_in(&self, me: &TokenRef, state: &mut State, renew: bool) {
        let (cloud, config) = (Arc::clone(&self.cloud), Arc::clone(&state.config));
        let limit = login_limit(&config);
        let login = async move {
            let login = tokio::time::timeout(limit, cloud.session(config, renew));
            let late = |_| Err(CloudError::new(Reason::KeystoneError, "keystone: log in: no answer in time"));
            login.await.unwrap_or_else(late)
        };
        state.login.start(me, login, TokenMsg::LoginDone);
    }

    fn login_done(
        &self,
        me: &TokenRef,
        state: &mut State,
        ticket: Ticket,
        result: Result<Result<Session, CloudError>, TaskPanicked>,
    ) {
        if !state.login.accept(ticket) {
            return;
        }
        let result = result.unwrap_or_else(|panicked| {
            Err(CloudError::new(Reason::InternalError, format!("the login failed inside: {panicked}")))
        });
        let waiting = match state.phase {
            Phase::LoggingIn { round } => Some(round),
            Phase::Vacant | Phase::Ready(_) => None,
        };
        match &result {
            Ok(session) => self.ready(me, state, session.clone()),
            Err(error) => self.failed(me, state, error),
        }
        if let Some(round) = waiting {
            answer(&state.owner, round, result);
        }
    }

    fn ready(&self, me: &TokenRef, state: &mut State, session: Session) {
        state.backoff.reset(now());
        state.node.set_phase("ready");
        state.node.set_last_error(None);
        let wait = session.renew_at.saturating_duration_since(now());
        // A session of almost no life must not make a hot loop.
        state.renewal.arm(wait.max(Duration::from_secs(1)), me, TokenMsg::RenewalDue);
        state.phase = Phase::Ready(session);
    }

    fn failed(&self, me: &TokenRef, state: &mut State, error: &CloudError) {
        state.node.set_last_error(Some(error.message.clone()));
        match state.phase {
            // A renewal failed, the token still works: the pool decides when it is over.
            Phase::Ready(_) => {
                let wait = state.backoff.next(now());
                state.renewal.arm(wait, me, TokenMsg::RenewalDue);
            }
            Phase::LoggingIn { .. } | Phase::Vacant => {
                state.phase = Phase::Vacant;
                state.node.set_phase("login failed");
            }
        }
    }

    fn renewal_due(&self, me: &TokenRef, state: &mut State, ticket: Ticket) {
        if state.renewal.accept(ticket) && matches!(state.phase, Phase::Ready(_)) && !state.config.paused {
            self.log_in(me, state, true);
        }
    }
}

fn answer(owner: &ConfigRef, round: u64, result: Result<Session, CloudError>) {
    // A config that is gone needs no session.
    let _ = owner.send_message(ConfigMsg::SessionReady { round, result });
}

fn login_limit(config: &Config) -> Duration {
    let crate::domain::config::CredentialSource::Contrabass { timeout, .. } = &config.cloud.source;
    (config.cloud.timeout.max(*timeout)) * LOGIN_TIMEOUTS
}
