use std::time::{Duration, Instant};

use proptest::prelude::*;

use super::election::{Claim, Effect, Elector, Input, Record, Stored, Timing};

const TIMING: Timing = Timing::CLIENT_GO;

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn stored(holder: &str, renewed: u32, version: u32) -> Stored {
    let record = Record {
        holder: holder.to_owned(),
        lease: TIMING.lease,
        times: [String::new(), renewed.to_string()],
        transitions: 3,
    };
    Stored { record, version: version.to_string() }
}

fn claim(holder: &str, transitions: i32, is_renewal: bool) -> Claim {
    Claim { holder: holder.to_owned(), transitions, is_renewal }
}

/// An elector and its clock.
struct World {
    elector: Elector,
    start: Instant,
}

impl World {
    fn new() -> Self {
        Self { elector: Elector::new("me".to_owned(), TIMING), start: Instant::now() }
    }

    fn leading() -> Self {
        let mut world = Self::new();
        world.at(0.0, Input::Due);
        world.at(0.0, Input::Read(None));
        assert_eq!(world.written(0.0, 0.1), [Effect::Start, Effect::Wait]);
        world
    }

    fn at(&mut self, at: f64, input: Input) -> Vec<Effect> {
        self.elector.step(input, self.start + seconds(at))
    }

    fn written(&mut self, sent_at: f64, at: f64) -> Vec<Effect> {
        let sent_at = self.start + seconds(sent_at);
        self.at(at, Input::Written { sent_at, stored: stored("me", at as u32, 7) })
    }
}

#[test]
fn a_free_lease_is_taken_and_renewed() {
    let mut world = World::new();
    assert_eq!(world.at(0.0, Input::Due), [Effect::Read]);
    assert_eq!(world.at(0.1, Input::Read(None)), [Effect::Create(claim("me", 0, false))]);
    assert_eq!(world.written(0.1, 0.2), [Effect::Start, Effect::Wait]);
    assert_eq!(world.at(2.2, Input::Due), [Effect::Update(claim("me", 3, true), "7".to_owned())]);
    assert_eq!(world.written(2.2, 2.3), [Effect::Wait]);
    // One that was given back belongs to nobody at once.
    let mut world = World::new();
    let taken = world.at(0.0, Input::Read(Some(stored("", 1, 9))));
    assert_eq!(taken, [Effect::Update(claim("me", 4, false), "9".to_owned())]);
}

#[test]
fn anothers_lease_is_taken_when_it_has_not_changed_for_as_long_as_it_lasts() {
    let mut world = World::new();
    assert_eq!(world.at(0.0, Input::Read(Some(stored("other", 1, 1)))), [Effect::Wait]);
    // A change of what is not the record (a label) gives a new version only.
    assert_eq!(world.at(14.9, Input::Read(Some(stored("other", 1, 2)))), [Effect::Wait]);
    let taken = world.at(15.0, Input::Read(Some(stored("other", 1, 2))));
    assert_eq!(taken, [Effect::Update(claim("me", 4, false), "2".to_owned())]);
    // Somebody was faster, or the holder is back.
    assert_eq!(world.at(15.1, Input::Conflict), [Effect::Wait]);
    assert_eq!(world.at(17.0, Input::Read(Some(stored("other", 2, 3)))), [Effect::Wait]);
    assert_eq!(world.at(31.9, Input::Read(Some(stored("other", 2, 3)))), [Effect::Wait]);
    assert_eq!(world.at(32.0, Input::Read(Some(stored("other", 2, 3)))).len(), 1);
}

#[test]
fn a_holder_that_says_its_lease_lasts_longer_is_given_that_time() {
    let mut world = World::new();
    let mut long = stored("other", 1, 1);
    long.record.lease = seconds(60.0);
    world.at(0.0, Input::Read(Some(long.clone())));
    assert_eq!(world.at(59.0, Input::Read(Some(long.clone()))), [Effect::Wait]);
    assert!(matches!(world.at(60.0, Input::Read(Some(long)))[..], [Effect::Update(..)]));
}

#[test]
fn a_lease_that_is_deleted_is_still_its_holders_for_a_while() {
    let mut world = World::new();
    world.at(0.0, Input::Read(Some(stored("other", 1, 1))));
    assert_eq!(world.at(2.0, Input::Read(None)), [Effect::Wait]);
    assert_eq!(world.at(15.0, Input::Read(None)), [Effect::Create(claim("me", 3, false))]);
    let mut holder = World::leading();
    holder.at(2.0, Input::Due);
    assert_eq!(holder.at(2.1, Input::Conflict), [Effect::Wait]);
    assert_eq!(holder.at(4.1, Input::Due), [Effect::Read]);
    assert_eq!(holder.at(4.2, Input::Read(None)), [Effect::Create(claim("me", 3, false))]);
}

#[test]
fn a_holder_that_cannot_renew_stops_before_anybody_can_take_the_lease() {
    let mut world = World::leading();
    for at in [2.0, 4.0, 6.0, 8.0] {
        world.at(at, Input::Due);
        assert_eq!(world.at(at + 0.5, Input::Failed), [Effect::Wait]);
    }
    assert_eq!(world.elector.deadline(), Some(world.start + seconds(10.0)));
    assert_eq!(world.at(9.99, Input::Tick), []);
    assert_eq!(world.at(10.0, Input::Tick), [Effect::Stop { within: Some(seconds(3.0)) }]);
    // An answer that comes now changes nothing.
    assert_eq!(world.written(9.5, 10.1), []);
    assert_eq!(world.at(12.0, Input::ReignOver), [Effect::Wait]);
    assert_eq!(world.at(14.0, Input::Due), [Effect::Read]);
}

#[test]
fn a_holder_that_slept_has_no_time_left_to_end_in_order() {
    let mut world = World::leading();
    assert_eq!(world.at(12.5, Input::Due), [Effect::Stop { within: Some(seconds(0.5)) }]);
    let mut world = World::leading();
    assert_eq!(world.written(2.0, 40.0), [Effect::Stop { within: Some(Duration::ZERO) }]);
}

#[test]
fn the_time_of_a_renewal_counts_from_when_it_left() {
    let mut world = World::leading();
    assert_eq!(world.written(2.0, 6.0), [Effect::Wait]);
    assert_eq!(world.elector.deadline(), Some(world.start + seconds(12.0)));
    // An answer to a first claim that took too long is no reign.
    let mut world = World::new();
    world.at(0.0, Input::Read(None));
    assert_eq!(world.written(0.0, 10.0), [Effect::Wait]);
    assert!(!world.elector.is_leading());
}

#[test]
fn a_holder_that_was_replaced_stops_at_once() {
    let mut world = World::leading();
    world.at(2.0, Input::Due);
    world.at(2.1, Input::Conflict);
    let stop = world.at(4.2, Input::Read(Some(stored("other", 1, 8))));
    assert_eq!(stop, [Effect::Stop { within: Some(Duration::ZERO) }]);
}

#[test]
fn the_lease_is_renewed_until_the_reign_has_ended_and_then_given_back() {
    let mut world = World::leading();
    assert_eq!(world.at(1.0, Input::End), [Effect::Stop { within: None }]);
    assert_eq!(world.at(2.0, Input::Due), [Effect::Update(claim("me", 3, true), "7".to_owned())]);
    // The reign is over while the renewal is under way: what it answers names the version to replace.
    assert_eq!(world.at(2.1, Input::ReignOver), []);
    assert_eq!(world.written(2.0, 2.2), [Effect::Update(claim("", 3, false), "7".to_owned())]);
    let sent_at = world.start;
    assert_eq!(world.at(2.3, Input::Written { sent_at, stored: stored("", 2, 9) }), [Effect::Finish]);
}

#[test]
fn an_end_without_a_reign_is_quick_and_one_with_a_lost_lease_gives_nothing_back() {
    assert_eq!(World::new().at(0.0, Input::End), [Effect::Finish]);
    let mut world = World::leading();
    world.at(1.0, Input::End);
    assert_eq!(world.at(10.0, Input::Tick), [Effect::Stop { within: Some(seconds(3.0)) }]);
    assert_eq!(world.at(11.0, Input::ReignOver), [Effect::Finish]);
    // A reign that ends by itself frees the lease for somebody else.
    let mut world = World::leading();
    let given_back = world.at(1.0, Input::ReignOver);
    assert_eq!(given_back, [Effect::Update(claim("", 3, false), "7".to_owned())]);
    assert_eq!(world.at(1.1, Input::Failed), [Effect::Finish]);
}

/// What befalls one request.
#[derive(Clone, Copy, Debug)]
struct Fate {
    /// Steps until it arrives; `None` = never.
    arrives: Option<u32>,
    /// Steps until the answer arrives after that; `None` = never.
    answered: Option<u32>,
    /// Steps for which the whole process stands still just after it was sent.
    sleeps: u32,
    /// Steps that a reign which is to stop takes, as a share of what it may take.
    stops: f64,
}

/// One replica of the model. A step is a tenth of a second.
struct Replica {
    elector: Elector,
    asking: Option<Asking>,
    due: Option<u32>,
    sleeps_until: u32,
    reign: Reign,
    /// When the watchdog ends the process.
    over_by: Option<Instant>,
    fates: Vec<Fate>,
    next: usize,
}

struct Asking {
    id: usize,
    answered: Option<u32>,
    answer: Option<Input>,
    gives_up: u32,
}

/// A request under way: it arrives also when its sender sleeps or does not wait for it any more.
struct OnTheWire {
    sender: usize,
    id: usize,
    effect: Effect,
    sent_at: Instant,
    arrives: u32,
}

#[derive(Clone, Copy, PartialEq)]
enum Reign {
    None,
    On,
    Stopping { over: u32 },
}

/// The API server with one lease.
#[derive(Default)]
struct Server {
    lease: Option<Stored>,
    version: u32,
}

impl Server {
    fn take(&mut self, effect: &Effect, sent_at: Instant, step: u32) -> Input {
        let claim = match effect {
            Effect::Read => return Input::Read(self.lease.clone()),
            Effect::Create(_) if self.lease.is_some() => return Input::Conflict,
            Effect::Update(_, version) if self.lease.as_ref().is_none_or(|l| l.version != *version) => {
                return Input::Conflict;
            }
            Effect::Create(claim) | Effect::Update(claim, _) => claim,
            other => panic!("{other:?} is no request"),
        };
        self.version += 1;
        let mut stored = stored(&claim.holder, step, self.version);
        stored.record.transitions = claim.transitions;
        self.lease = Some(stored.clone());
        Input::Written { sent_at, stored }
    }
}

struct Model {
    start: Instant,
    step: u32,
    server: Server,
    wire: Vec<OnTheWire>,
    replicas: Vec<Replica>,
    reigns: u32,
    lives: u32,
}

impl Model {
    fn new(fates: Vec<Vec<Fate>>) -> Self {
        let replica = |(n, fates): (usize, Vec<Fate>)| Replica {
            elector: Elector::new(format!("r{n}"), TIMING),
            asking: None,
            due: Some(n as u32),
            sleeps_until: 0,
            reign: Reign::None,
            over_by: None,
            fates,
            next: 0,
        };
        let replicas = fates.into_iter().enumerate().map(replica).collect();
        Self {
            start: Instant::now(),
            step: 0,
            server: Server::default(),
            wire: Vec::new(),
            replicas,
            reigns: 0,
            lives: 0,
        }
    }

    fn now(&self) -> Instant {
        self.start + Duration::from_millis(100) * self.step
    }

    fn run(&mut self, steps: u32) {
        for _ in 0..steps {
            self.step += 1;
            self.serve();
            for n in 0..self.replicas.len() {
                self.move_on(n);
            }
            let reigning = |r: &&Replica| r.reign != Reign::None && r.sleeps_until <= self.step;
            let count = self.replicas.iter().filter(reigning).count();
            assert!(count <= 1, "{count} reign at step {}", self.step);
        }
    }

    fn serve(&mut self) {
        let step = self.step;
        for request in self.wire.extract_if(.., |request| request.arrives <= step) {
            let answer = self.server.take(&request.effect, request.sent_at, step);
            let asking = &mut self.replicas[request.sender].asking;
            if let Some(asking) = asking.as_mut().filter(|asking| asking.id == request.id) {
                asking.answer = Some(answer);
            }
        }
    }

    fn move_on(&mut self, n: usize) {
        if self.replicas[n].sleeps_until > self.step {
            return;
        }
        if self.replicas[n].over_by.is_some_and(|over_by| over_by <= self.now()) {
            self.start_anew(n);
        }
        if let Reign::Stopping { over } = self.replicas[n].reign
            && over <= self.step
        {
            self.replicas[n].reign = Reign::None;
            self.tell(n, Input::ReignOver);
        }
        self.tell(n, Input::Tick);
        let step = self.step;
        let replica = &mut self.replicas[n];
        if let Some(asking) = &mut replica.asking {
            let is_answered = asking.answered.is_some_and(|at| at <= step) && asking.answer.is_some();
            let input = match is_answered {
                true => asking.answer.take(),
                false => (asking.gives_up <= step).then_some(Input::Failed),
            };
            if let Some(input) = input {
                replica.asking = None;
                self.tell(n, input);
            }
        } else if replica.due.is_some_and(|due| due <= step) {
            replica.due = None;
            self.tell(n, Input::Due);
        }
    }

    /// The process has ended, and there is another one with another name.
    fn start_anew(&mut self, n: usize) {
        self.lives += 1;
        let name = format!("r{n}-{}", self.lives);
        let replica = &mut self.replicas[n];
        replica.elector = Elector::new(name, TIMING);
        (replica.asking, replica.due, replica.over_by) = (None, Some(self.step), None);
        replica.reign = Reign::None;
    }

    fn tell(&mut self, n: usize, input: Input) {
        let (now, step) = (self.now(), self.step);
        let is_over = input == Input::ReignOver;
        let replica = &mut self.replicas[n];
        let effects = replica.elector.step(input, now);
        let last_moment = replica.elector.safe_until().map(|until| until - seconds(0.5));
        replica.over_by = if is_over { None } else { last_moment.or(replica.over_by) };
        for effect in effects {
            let fate = replica.fates[replica.next % replica.fates.len()];
            match effect {
                Effect::Wait => replica.due = Some(step + 20),
                Effect::Start => {
                    self.reigns += 1;
                    replica.reign = Reign::On;
                }
                Effect::Stop { within } => {
                    replica.asking = None;
                    let within = within.map_or(50.0, |within| within.as_secs_f64() * 10.0);
                    // Killing takes up to a second.
                    let over = step + (within * fate.stops) as u32 + (10.0 * fate.stops) as u32;
                    replica.reign = Reign::Stopping { over };
                }
                Effect::Finish => {}
                request => {
                    replica.next += 1;
                    let (id, answered) = (replica.next, fate.arrives.zip(fate.answered));
                    if let Some(steps) = fate.arrives {
                        let arrives = step + 1 + steps;
                        self.wire.push(OnTheWire { sender: n, id, effect: request, sent_at: now, arrives });
                    }
                    replica.sleeps_until = step + fate.sleeps;
                    let answered = answered.map(|(there, back)| step + 1 + there + back);
                    replica.asking = Some(Asking { id, answered, answer: None, gives_up: step + 50 });
                }
            }
        }
    }
}

fn fate() -> impl Strategy<Value = Fate> {
    let delay =
        || prop_oneof![6 => (0_u32..3).prop_map(Some), 2 => (3_u32..60).prop_map(Some), 1 => Just(None)];
    let sleeps = prop_oneof![12 => Just(0_u32), 1 => 1_u32..30, 1 => 30_u32..300];
    (delay(), delay(), sleeps, 0.0..=1.0_f64).prop_map(|(arrives, answered, sleeps, stops)| Fate {
        arrives,
        answered,
        sleeps,
        stops,
    })
}

proptest! {
    #[test]
    fn never_two_reign_at_once(fates in prop::collection::vec(prop::collection::vec(fate(), 1..40), 2..4)) {
        Model::new(fates).run(3000);
    }
}

#[test]
fn with_lost_answers_one_reigns_again_and_again() {
    let well = Fate { arrives: Some(1), answered: Some(1), sleeps: 0, stops: 1.0 };
    let lost = Fate { answered: None, ..well };
    let fates = [vec![well; 6], vec![lost; 8]].concat();
    let mut model = Model::new(vec![fates.clone(), fates]);
    model.run(6000);
    assert!(model.reigns >= 3, "{} reigns", model.reigns);
    let mut model = Model::new(vec![vec![well], vec![well], vec![well]]);
    model.run(6000);
    assert_eq!(model.reigns, 1);
}
