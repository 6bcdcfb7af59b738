//! Whether this process leads: client-go's rules, decided on the monotonic clock. No IO.
//!
//! What others wrote is never compared with a clock of ours: a lease has run out when its record has not
//! changed for as long as it lasts, counted from when we saw it first. What we wrote counts from the moment
//! the request left. So the holder's time always ends before anybody else's begins, whatever the clocks of the
//! machines say and however long an answer took.

use std::time::{Duration, Instant};

/// The times of an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// A record that has not changed for so long may be replaced.
    pub lease: Duration,
    /// A holder that could not renew for so long stops.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry: Duration,
    /// The longest that a reign may take to end by itself after the deadline; then it is killed.
    pub stop: Duration,
    /// When everything must be over, counted back from the end of the lease: killing takes a moment.
    pub margin: Duration,
}

impl Timing {
    /// client-go's, which the previous operator used too: both must wait equally long for each other.
    pub const CLIENT_GO: Self = Self {
        lease: Duration::from_secs(15),
        renew_deadline: Duration::from_secs(10),
        retry: Duration::from_secs(2),
        stop: Duration::from_secs(3),
        margin: Duration::from_secs(2),
    };
}

/// What a Lease says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// Empty: nobody.
    pub holder: String,
    /// How long it lasts by its holder's word.
    pub lease: Duration,
    /// When it was acquired and renewed, as texts of somebody's clock: only their change counts.
    pub times: [String; 2],
    /// How often the holder became another.
    pub transitions: i32,
}

/// A record as it is stored, with the version that an update of it must name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// What it says.
    pub record: Record,
    /// `metadata.resourceVersion`.
    pub version: String,
}

/// What the holder writes; the shell adds the time of day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The new holder; empty: released.
    pub holder: String,
    /// How often the holder became another.
    pub transitions: i32,
    /// The time of acquisition stays as it is: a renewal.
    pub is_renewal: bool,
}

/// What happens to an elector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The pause is over.
    Due,
    /// Time has passed; whether a deadline has come is looked up.
    Tick,
    /// The lease was read.
    Read(Option<Stored>),
    /// A claim was accepted.
    Written {
        /// When the request left.
        sent_at: Instant,
        /// As it stands now.
        stored: Stored,
    },
    /// Somebody else wrote before: the claim did not count.
    Conflict,
    /// No answer, or none that helps. A claim may have been accepted.
    Failed,
    /// The reign has ended, in whatever way.
    ReignOver,
    /// The process is to end.
    End,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Ask for the lease.
    Read,
    /// Make the lease; a conflict if it is there.
    Create(Claim),
    /// Replace this version of it; a conflict if it is another.
    Update(Claim, String),
    /// Tell [`Input::Due`] after a pause.
    Wait,
    /// Begin to reign.
    Start,
    /// End the reign: in order if it takes no longer than this, else at once. [`Input::ReignOver`] follows.
    Stop {
        /// `None`: as long as an orderly end takes; the lease is renewed meanwhile.
        within: Option<Duration>,
    },
    /// There is nothing more to do.
    Finish,
}

/// One replica's view of the election.
#[derive(Clone, Debug)]
pub struct Elector {
    me: String,
    timing: Timing,
    seen: Option<Seen>,
    /// What was seen may not be the newest: it is read before it is replaced.
    must_read: bool,
    /// A question or a claim is not answered yet.
    is_asking: bool,
    phase: Phase,
    is_ending: bool,
}

#[derive(Clone, Debug)]
struct Seen {
    stored: Stored,
    changed_at: Instant,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Somebody else leads, or nobody yet.
    Following,
    /// This process reigns.
    Leading {
        /// When the request of the last renewal that was accepted left.
        renewed_at: Instant,
    },
    /// It reigned and has not stopped yet.
    Deposed,
    /// The lease is being given back, or is to be as soon as what was asked before is answered.
    Releasing {
        /// The empty claim is under way.
        is_sent: bool,
    },
    /// Nothing more is done.
    Finished,
}

impl Elector {
    /// One that has seen nothing. `me` must be unique among all that ever ask for this lease.
    pub fn new(me: String, timing: Timing) -> Self {
        Self {
            me,
            timing,
            seen: None,
            must_read: true,
            is_asking: false,
            phase: Phase::Following,
            is_ending: false,
        }
    }

    /// As whom it stands for election.
    pub fn me(&self) -> &str {
        &self.me
    }

    /// The holder that was seen last; `None` when there is none.
    pub fn holder(&self) -> Option<&str> {
        let seen = self.seen.as_ref()?;
        Some(seen.stored.record.holder.as_str()).filter(|holder| !holder.is_empty())
    }

    /// Whether the reign may go on.
    pub fn is_leading(&self) -> bool {
        matches!(self.phase, Phase::Leading { .. })
    }

    /// When [`Input::Tick`] is to come at the latest.
    pub fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Leading { renewed_at } => Some(renewed_at + self.timing.renew_deadline),
            _ => None,
        }
    }

    /// Until when nobody else can lead: whatever the reign does must be over by then.
    pub fn safe_until(&self) -> Option<Instant> {
        match self.phase {
            Phase::Leading { renewed_at } => Some(renewed_at + self.timing.lease),
            _ => None,
        }
    }

    /// What is to be done about what happened.
    pub fn step(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        if matches!(input, Input::Read(_) | Input::Written { .. } | Input::Conflict | Input::Failed) {
            self.is_asking = false;
        }
        let effects = match self.phase {
            Phase::Following => self.following(input, now),
            Phase::Leading { renewed_at } if now >= renewed_at + self.timing.renew_deadline => {
                self.too_late(&input, renewed_at, now)
            }
            Phase::Leading { .. } => self.leading(input, now),
            Phase::Deposed => self.deposed(&input),
            Phase::Releasing { is_sent } => self.releasing(input, is_sent, now),
            Phase::Finished => Vec::new(),
        };
        self.is_asking |= effects
            .iter()
            .any(|effect| matches!(effect, Effect::Read | Effect::Create(_) | Effect::Update(..)));
        effects
    }

    fn following(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        match input {
            Input::Due => vec![Effect::Read],
            Input::Read(None) => self.followed_is_gone(now),
            Input::Read(Some(stored)) => {
                self.note(stored.clone(), now);
                let is_free = stored.record.holder.is_empty() || stored.record.holder == self.me;
                match is_free || self.has_run_out(now) {
                    true => vec![self.claim(&stored)],
                    false => vec![Effect::Wait],
                }
            }
            Input::Written { sent_at, stored } => {
                self.note(stored, now);
                if now >= sent_at + self.timing.renew_deadline {
                    // The answer took so long that what it grants is over; the next try tells.
                    return vec![Effect::Wait];
                }
                self.phase = Phase::Leading { renewed_at: sent_at };
                vec![Effect::Start, Effect::Wait]
            }
            Input::Conflict | Input::Failed => vec![Effect::Wait],
            Input::End => self.finish(),
            Input::Tick | Input::ReignOver => Vec::new(),
        }
    }

    /// A lease that was deleted under its holder makes that holder no less of one: it gets the time to notice.
    fn followed_is_gone(&self, now: Instant) -> Vec<Effect> {
        let is_held = self.holder().is_some_and(|holder| holder != self.me);
        match is_held && !self.has_run_out(now) {
            true => vec![Effect::Wait],
            false => vec![self.first_claim()],
        }
    }

    fn leading(&mut self, input: Input, now: Instant) -> Vec<Effect> {
        match input {
            Input::Due => match &self.seen {
                Some(seen) if !self.must_read => vec![self.claim(&seen.stored)],
                _ => vec![Effect::Read],
            },
            Input::Read(None) => vec![self.first_claim()],
            Input::Read(Some(stored)) => {
                self.note(stored.clone(), now);
                match stored.record.holder.is_empty() || stored.record.holder == self.me {
                    true => vec![self.claim(&stored)],
                    // Somebody reigns already: there is no time to end in order.
                    false => self.depose(Duration::ZERO),
                }
            }
            Input::Written { sent_at, stored } => {
                self.note(stored, now);
                self.phase = Phase::Leading { renewed_at: sent_at };
                vec![Effect::Wait]
            }
            Input::Conflict | Input::Failed => {
                self.must_read = true;
                vec![Effect::Wait]
            }
            Input::End => {
                self.is_ending = true;
                vec![Effect::Stop { within: None }]
            }
            // Also when it ended by itself: another replica may do better.
            Input::ReignOver => {
                self.phase = Phase::Releasing { is_sent: false };
                match self.is_asking {
                    true => Vec::new(),
                    false => self.release(),
                }
            }
            Input::Tick => Vec::new(),
        }
    }

    /// The deadline has come. Whatever came with it came too late.
    fn too_late(&mut self, input: &Input, renewed_at: Instant, now: Instant) -> Vec<Effect> {
        self.is_ending |= *input == Input::End;
        let last = renewed_at + self.timing.lease - self.timing.margin;
        let within = last.saturating_duration_since(now).min(self.timing.stop);
        let effects = self.depose(within);
        if *input == Input::ReignOver { self.deposed(input) } else { effects }
    }

    fn depose(&mut self, within: Duration) -> Vec<Effect> {
        self.phase = Phase::Deposed;
        // A claim under way may still be accepted. It makes others wait and nobody reign.
        self.is_asking = false;
        vec![Effect::Stop { within: Some(within) }]
    }

    fn deposed(&mut self, input: &Input) -> Vec<Effect> {
        match input {
            Input::End => self.is_ending = true,
            Input::ReignOver if self.is_ending => return self.finish(),
            Input::ReignOver => {
                self.phase = Phase::Following;
                return vec![Effect::Wait];
            }
            _ => {}
        }
        Vec::new()
    }

    fn releasing(&mut self, input: Input, is_sent: bool, now: Instant) -> Vec<Effect> {
        match input {
            Input::Written { stored, .. } | Input::Read(Some(stored)) if !is_sent => {
                let is_ours = stored.record.holder == self.me;
                self.note(stored, now);
                if is_ours { self.release() } else { self.finish() }
            }
            Input::Conflict if !is_sent => vec![Effect::Read],
            // What could not be given back runs out: nothing is lost but the others' time.
            Input::Written { .. } | Input::Read(_) | Input::Conflict | Input::Failed => self.finish(),
            Input::Due | Input::Tick | Input::ReignOver | Input::End => Vec::new(),
        }
    }

    fn release(&mut self) -> Vec<Effect> {
        match &self.seen {
            Some(seen) if !self.must_read => {
                let transitions = seen.stored.record.transitions;
                let claim = Claim { holder: String::new(), transitions, is_renewal: false };
                let update = Effect::Update(claim, seen.stored.version.clone());
                self.phase = Phase::Releasing { is_sent: true };
                vec![update]
            }
            _ => vec![Effect::Read],
        }
    }

    fn has_run_out(&self, now: Instant) -> bool {
        self.seen.as_ref().is_none_or(|seen| {
            let lasts = self.timing.lease.max(seen.stored.record.lease);
            now >= seen.changed_at + lasts
        })
    }

    fn note(&mut self, stored: Stored, now: Instant) {
        let is_same = |seen: &&Seen| seen.stored.record == stored.record;
        let changed_at = self.seen.as_ref().filter(is_same).map_or(now, |seen| seen.changed_at);
        self.seen = Some(Seen { stored, changed_at });
        self.must_read = false;
    }

    fn claim(&self, stored: &Stored) -> Effect {
        let record = &stored.record;
        let is_renewal = record.holder == self.me;
        let transitions = if is_renewal { record.transitions } else { record.transitions.saturating_add(1) };
        let claim = Claim { holder: self.me.clone(), transitions, is_renewal };
        Effect::Update(claim, stored.version.clone())
    }

    fn first_claim(&self) -> Effect {
        let transitions = self.seen.as_ref().map_or(0, |seen| seen.stored.record.transitions);
        Effect::Create(Claim { holder: self.me.clone(), transitions, is_renewal: false })
    }

    fn finish(&mut self) -> Vec<Effect> {
        self.phase = Phase::Finished;
        vec![Effect::Finish]
    }
}
