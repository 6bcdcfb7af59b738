//! What happens in a run, made from its seed before it begins: a list that can be shortened.

use std::time::Duration;

use multinic_actors::domain::config::{ChangePolicy, InterfaceOrder, RemovalPolicy};
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::Lie;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

/// How many objects there are at most.
pub const CONFIGS: usize = 3;
/// How many machines there are; each is a VM, and another one after it was rebuilt.
pub const MACHINES: usize = 7;
/// How many subnets there are: the first two are of one network.
pub const SUBNETS: usize = 4;
/// How many things happen.
const STEPS: usize = 140;
/// After how many of them all is healed, and often nothing happens for a while.
const CALM: usize = 23;

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub steps: Vec<Step>,
}

/// Something happens after a while. A step without a happening only lets the time pass.
#[derive(Clone, Debug)]
pub struct Step {
    pub number: usize,
    pub wait: Duration,
    pub what: Option<Happening>,
}

/// Which of what there is then: taken modulo their number.
pub type Pick = usize;

#[derive(Clone, Debug)]
pub enum Happening {
    Spec(Pick, SpecChange),
    Remove(Pick),
    /// Removed if it is there, and made anew with another uid; without a pause, or already declared when the
    /// old one is still there.
    Recreate(Pick, Duration),
    Attach {
        machine: Pick,
        subnet: Pick,
        status: &'static str,
        addresses: usize,
    },
    Crowd(Pick),
    Detach(Pick, Pick),
    Clear(Pick),
    Move {
        from: Pick,
        port: Pick,
        to: Pick,
    },
    Status(Pick, Pick, &'static str),
    /// Another status, and ACTIVE again after a while.
    Flicker(Pick, Pick, &'static str, Duration),
    Readdress(Pick, Pick),
    /// Another Neutron port behind the same MAC.
    Remake(Pick, Pick),
    Odd(Pick, Pick, Oddity),
    Mtu(Pick, i64),
    Rename(Pick, Pick),
    /// A label in the server's metadata names the node.
    Label(Pick, bool),
    Vanish(Pick),
    Rebuild(Pick),
    Cloud(Pick, CloudTrouble),
    Viola(Pick, ViolaTrouble),
    Store(StoreTrouble),
    Actor {
        kind: &'static str,
        message: &'static str,
        trouble: ActorTrouble,
    },
    Strike {
        kind: &'static str,
        which: Pick,
        kill: bool,
    },
    Process {
        crash: bool,
        damaged: bool,
        away: Duration,
    },
    /// Leadership is lost and won again; before it stays, it is lost after each of these terms.
    Lead(Vec<Duration>),
    /// The root dies with everything below it, and is started anew in the same process.
    RootDies,
    /// An object is another replica's for a while: what it has stays.
    LetGo(Pick, Duration),
    /// A machine changes once more while Viola still works on its last change.
    Overtaken(Pick),
    /// A machine changes, the answers are lost, and it is as it was again.
    LostAndBack(Pick),
    Jump(i64),
    Heal,
}

#[derive(Clone, Debug)]
pub enum SpecChange {
    Paused(bool),
    Subnets(Vec<usize>),
    Machine(Pick),
    Policy(ChangePolicy),
    Approve,
    Order(InterfaceOrder),
    Removal(RemovalPolicy),
    Intervals { fast: u64, slow: u64 },
    FastRetries(u32),
    Provider(bool),
    Endpoint(bool),
    MetadataKey(bool),
    Look,
}

#[derive(Clone, Copy, Debug)]
pub enum Oddity {
    Unreadable,
    DoubledMac,
    IpV6Only,
    RoutersPort,
    NoCreationTime,
    Cured,
}

#[derive(Clone, Debug)]
pub enum CloudTrouble {
    LooksFail(Reason, usize),
    LoginsFail(Reason, usize),
    AllLooksFail(Reason),
    WrongPassword,
    LookHangs,
    LookPanics,
    LoginHangs,
    LoginPanics,
    Slow(Duration, Duration),
    Lies(Lie, usize),
    AsksToWait(Duration),
}

#[derive(Clone, Debug)]
pub enum ViolaTrouble {
    Unavailable(usize),
    Refused(usize),
    ServerError(usize),
    Rejected(usize),
    AlwaysUnavailable,
    AnswersLost(usize),
    TakenAndHangs,
    Hangs,
    Panics,
    Slow(Duration),
    AsksToWait(Duration),
    RefusesNode,
    ChokesOn400,
    ChokesOn500,
    TakesAll,
}

#[derive(Clone, Copy, Debug)]
pub enum StoreTrouble {
    Full,
    FailsOnce(usize),
    Slow(Duration),
    Hangs(Duration),
    Panics,
    Unreadable(usize),
    /// A second store refuses, the first has everything.
    InPart,
    Heals,
}

#[derive(Clone, Copy, Debug)]
pub enum ActorTrouble {
    Panic,
    Err,
    Slow(Duration),
    RefusedStarts(usize),
}

/// Every message of every actor that asks for faults.
pub const MESSAGES: [(&str, &[&str]); 5] = [
    ("inventory", &["Record", "Flush", "LoadDone", "SaveDone", "RetryDue", "WriteLate"]),
    (
        "config",
        &[
            "Apply",
            "PollDue",
            "SessionReady",
            "Observed",
            "RoundDone",
            "DeliveryChanged",
            "TokenDue",
            "ViolaDue",
            "PortDue",
        ],
    ),
    ("token", &["Obtain", "Apply", "LoginDone", "RenewalDue"]),
    ("port", &["Observe"]),
    (
        "viola",
        &["Round", "Decided", "Apply", "PostDone", "WakeDue", "DownDue", "ResyncDue", "Kept", "LedgerDue"],
    ),
];

/// One kind of happening, with a fresh draw of its details.
type Maker = fn(&mut StdRng) -> Happening;

/// Groups of happenings. A seed leaves some out and prefers others, so that runs differ in kind.
const GROUPS: [(u32, &[Maker]); 9] = [
    (
        7,
        &[
            attach, attach, attach, status, status, flicker, flicker, detach, detach, readdress, relocate,
            remake, mtu,
        ],
    ),
    (2, &[crowd, clear, odd, odd, vanish]),
    (2, &[rename, rename, label, rebuild]),
    (4, &[spec, spec, spec, remove, recreate]),
    (3, &[cloud]),
    (5, &[viola]),
    (2, &[store]),
    (5, &[actor, actor, actor, strike]),
    (3, &[process, process, lead, lead, root_dies, let_go, jump, heal]),
];

impl Plan {
    /// The run of a seed.
    pub fn of(seed: u64) -> Self {
        let mut dice = StdRng::seed_from_u64(seed);
        let weights: Vec<u32> =
            GROUPS.iter().map(|(weight, _)| weight * [0, 1, 1, 2].choose(&mut dice).unwrap()).collect();
        let total = weights.iter().sum::<u32>().max(1);
        let mut focus = 0;
        let steps = (0..STEPS).map(|number| {
            let mut what = match number {
                // A world in which there is something to see.
                0..6 => attach(&mut dice),
                _ if number % CALM == CALM - 2 => race(&mut dice),
                _ if number % CALM == CALM - 1 => Happening::Heal,
                _ => {
                    let mut draw = dice.random_range(0..total);
                    let group = weights.iter().position(|weight| {
                        let is_it = draw < *weight;
                        draw = draw.wrapping_sub(if is_it { 0 } else { *weight });
                        is_it
                    });
                    GROUPS[group.unwrap_or(0)].1.choose(&mut dice).unwrap()(&mut dice)
                }
            };
            what.stay_near(&mut focus, &mut dice);
            let wait = match number % CALM {
                // What goes wrong shows when nothing happens for a while.
                0 if dice.random_bool(0.5) => millis(&mut dice, 2_000_000..3_000_000),
                last if last == CALM - 1 => millis(&mut dice, 120_000..400_000),
                _ => pause(&mut dice),
            };
            Step { number, wait, what: Some(what) }
        });
        Self { seed, steps: steps.collect() }
    }

    /// Only these steps still do something.
    pub fn keeping(&self, numbers: &[usize]) -> Self {
        let mut plan = self.clone();
        plan.steps
            .iter_mut()
            .filter(|step| !numbers.contains(&step.number))
            .for_each(|step| step.what = None);
        plan
    }

    /// The steps that do something.
    pub fn numbers(&self) -> Vec<usize> {
        self.steps.iter().filter(|step| step.what.is_some()).map(|step| step.number).collect()
    }
}

impl Happening {
    /// Troubles rarely come alone: often the machine of the step before is meant, or the object that lists it.
    fn stay_near(&mut self, focus: &mut Pick, dice: &mut StdRng) {
        let stays = dice.random_bool(0.4);
        match self {
            Self::Attach { machine, .. }
            | Self::Detach(machine, _)
            | Self::Status(machine, ..)
            | Self::Flicker(machine, ..)
            | Self::Readdress(machine, _)
            | Self::Remake(machine, _) => {
                if stays {
                    *machine = *focus;
                }
                *focus = *machine;
            }
            Self::Spec(object, _) | Self::Viola(object, _) | Self::Cloud(object, _) if stays => {
                *object = [0, 0, 0, 0, 1, 2, 2][*focus % MACHINES];
            }
            _ => {}
        }
    }
}

fn millis(dice: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(dice.random_range(range))
}

fn pause(dice: &mut StdRng) -> Duration {
    match dice.random_range(0..100) {
        0..15 => Duration::ZERO,
        15..30 => millis(dice, 0..2_000),
        30..65 => millis(dice, 0..60_000),
        65..92 => millis(dice, 60_000..900_000),
        _ => millis(dice, 900_000..9_000_000),
    }
}

fn pick(dice: &mut StdRng) -> Pick {
    dice.random_range(0..1000)
}

fn attach(dice: &mut StdRng) -> Happening {
    let status = *["ACTIVE", "ACTIVE", "ACTIVE", "ACTIVE", "DOWN", "BUILD"].choose(dice).unwrap();
    let addresses = if dice.random_bool(0.2) { 2 } else { 1 };
    Happening::Attach { machine: pick(dice), subnet: pick(dice), status, addresses }
}

fn crowd(dice: &mut StdRng) -> Happening {
    Happening::Crowd(pick(dice))
}

fn detach(dice: &mut StdRng) -> Happening {
    Happening::Detach(pick(dice), pick(dice))
}

fn clear(dice: &mut StdRng) -> Happening {
    Happening::Clear(pick(dice))
}

fn relocate(dice: &mut StdRng) -> Happening {
    Happening::Move { from: pick(dice), port: pick(dice), to: pick(dice) }
}

fn status(dice: &mut StdRng) -> Happening {
    let status = *["ACTIVE", "ACTIVE", "DOWN", "DOWN", "BUILD", "ERROR"].choose(dice).unwrap();
    Happening::Status(pick(dice), pick(dice), status)
}

fn flicker(dice: &mut StdRng) -> Happening {
    let status = *["DOWN", "ERROR", "ERROR", "BUILD"].choose(dice).unwrap();
    Happening::Flicker(pick(dice), pick(dice), status, millis(dice, 10_000..700_000))
}

fn readdress(dice: &mut StdRng) -> Happening {
    Happening::Readdress(pick(dice), pick(dice))
}

fn remake(dice: &mut StdRng) -> Happening {
    Happening::Remake(pick(dice), pick(dice))
}

fn odd(dice: &mut StdRng) -> Happening {
    use Oddity::{Cured, DoubledMac, IpV6Only, NoCreationTime, RoutersPort, Unreadable};
    let all = [Unreadable, DoubledMac, IpV6Only, RoutersPort, NoCreationTime, Cured, Cured];
    Happening::Odd(pick(dice), pick(dice), *all.choose(dice).unwrap())
}

fn mtu(dice: &mut StdRng) -> Happening {
    let mtu = *[1400, 1450, 1500, 1500, 9000, 68, 67, 0, 9001].choose(dice).unwrap();
    Happening::Mtu(pick(dice), mtu)
}

fn rename(dice: &mut StdRng) -> Happening {
    Happening::Rename(pick(dice), pick(dice))
}

fn label(dice: &mut StdRng) -> Happening {
    Happening::Label(pick(dice), dice.random_bool(0.5))
}

fn vanish(dice: &mut StdRng) -> Happening {
    Happening::Vanish(pick(dice))
}

fn rebuild(dice: &mut StdRng) -> Happening {
    Happening::Rebuild(pick(dice))
}

fn remove(dice: &mut StdRng) -> Happening {
    Happening::Remove(pick(dice))
}

fn recreate(dice: &mut StdRng) -> Happening {
    let gap = *[Duration::ZERO, Duration::ZERO, Duration::from_secs(5), Duration::from_secs(400)]
        .choose(dice)
        .unwrap();
    Happening::Recreate(pick(dice), gap)
}

fn spec(dice: &mut StdRng) -> Happening {
    use ChangePolicy::{AddOnly, Approve, Auto, Observe};
    use InterfaceOrder::{Mac, Sticky, Subnet};
    let change = match dice.random_range(0..26) {
        0..2 => SpecChange::Paused(true),
        2..5 => SpecChange::Paused(false),
        5..8 => {
            let mut subnets: Vec<_> = (0..SUBNETS).filter(|_| dice.random_bool(0.6)).collect();
            if dice.random_bool(0.5) {
                subnets.reverse();
            }
            SpecChange::Subnets(if subnets.is_empty() { vec![0, 2] } else { subnets })
        }
        8..13 => SpecChange::Machine(pick(dice)),
        13..16 => SpecChange::Policy(*[Auto, Auto, AddOnly, Approve, Observe].choose(dice).unwrap()),
        16 => SpecChange::Approve,
        17..19 => SpecChange::Order(*[Sticky, Sticky, Mac, Subnet].choose(dice).unwrap()),
        19 => SpecChange::Removal(
            *[RemovalPolicy::Retain, RemovalPolicy::Retain, RemovalPolicy::Prune].choose(dice).unwrap(),
        ),
        20 => {
            let (fast, slow) = *[(10, 60), (20, 120), (20, 600), (40, 300)].choose(dice).unwrap();
            SpecChange::Intervals { fast, slow }
        }
        21 => SpecChange::FastRetries(dice.random_range(1..8)),
        22 => SpecChange::Provider(dice.random_bool(0.3)),
        23 => SpecChange::Endpoint(dice.random_bool(0.5)),
        24 => SpecChange::MetadataKey(dice.random_bool(0.3)),
        _ => SpecChange::Look,
    };
    Happening::Spec(pick(dice), change)
}

fn cloud(dice: &mut StdRng) -> Happening {
    use Reason::{
        ConfigError, ContrabassError, KeystoneError, NeutronEndpointError, NeutronNetworkError,
        NeutronPortError, NeutronSubnetError, NovaError, SubnetNotFound,
    };
    let looks = [
        NeutronPortError,
        NeutronPortError,
        NeutronSubnetError,
        NeutronNetworkError,
        NovaError,
        SubnetNotFound,
    ];
    let logins = [ConfigError, ContrabassError, KeystoneError, NeutronEndpointError];
    let times = dice.random_range(1..5);
    let trouble = match dice.random_range(0..16) {
        0..3 => CloudTrouble::LooksFail(*looks.choose(dice).unwrap(), times),
        3 => CloudTrouble::LoginsFail(*logins.choose(dice).unwrap(), times),
        4 => CloudTrouble::AllLooksFail(*looks.choose(dice).unwrap()),
        5 => CloudTrouble::WrongPassword,
        6 => CloudTrouble::LookHangs,
        7 => CloudTrouble::LookPanics,
        8 => CloudTrouble::LoginHangs,
        9 => CloudTrouble::LoginPanics,
        10..12 => CloudTrouble::Slow(millis(dice, 0..40_000), millis(dice, 0..10_000)),
        12..15 => {
            CloudTrouble::Lies(*[Lie::NoPorts, Lie::Unfiltered, Lie::NoNames].choose(dice).unwrap(), times)
        }
        _ => CloudTrouble::AsksToWait(millis(dice, 1_000..400_000)),
    };
    Happening::Cloud(pick(dice), trouble)
}

fn viola(dice: &mut StdRng) -> Happening {
    let times = dice.random_range(1..5);
    let trouble = match dice.random_range(0..20) {
        0..2 => ViolaTrouble::Unavailable(times),
        2 => ViolaTrouble::Refused(times),
        3..5 => ViolaTrouble::ServerError(times),
        5 => ViolaTrouble::Rejected(times),
        6 => ViolaTrouble::AlwaysUnavailable,
        7..10 => ViolaTrouble::AnswersLost(times * times),
        10 => ViolaTrouble::TakenAndHangs,
        11 => ViolaTrouble::Hangs,
        12 => ViolaTrouble::Panics,
        13..16 => ViolaTrouble::Slow(millis(dice, 0..90_000)),
        16 => ViolaTrouble::AsksToWait(millis(dice, 1_000..400_000)),
        17 => ViolaTrouble::RefusesNode,
        18 => ViolaTrouble::ChokesOn400,
        _ => [ViolaTrouble::ChokesOn500, ViolaTrouble::TakesAll].choose(dice).unwrap().clone(),
    };
    Happening::Viola(pick(dice), trouble)
}

fn store(dice: &mut StdRng) -> Happening {
    let trouble = match dice.random_range(0..11) {
        10 => StoreTrouble::InPart,
        0..2 => StoreTrouble::Full,
        2 => StoreTrouble::FailsOnce(dice.random_range(1..4)),
        3..5 => StoreTrouble::Slow(millis(dice, 0..9_000)),
        5 => StoreTrouble::Hangs(millis(dice, 11_000..300_000)),
        6 => StoreTrouble::Panics,
        7 => StoreTrouble::Unreadable(dice.random_range(1..4)),
        _ => StoreTrouble::Heals,
    };
    Happening::Store(trouble)
}

fn actor(dice: &mut StdRng) -> Happening {
    let (kind, messages) = *MESSAGES.choose(dice).unwrap();
    let trouble = match dice.random_range(0..10) {
        0..4 => ActorTrouble::Panic,
        4..6 => ActorTrouble::Err,
        6..9 => ActorTrouble::Slow(millis(dice, 100..200_000)),
        _ => ActorTrouble::RefusedStarts(dice.random_range(1..4)),
    };
    Happening::Actor { kind, message: messages.choose(dice).unwrap(), trouble }
}

fn strike(dice: &mut StdRng) -> Happening {
    let (kind, _) = *MESSAGES.choose(dice).unwrap();
    Happening::Strike { kind, which: pick(dice), kill: dice.random_bool(0.6) }
}

fn process(dice: &mut StdRng) -> Happening {
    let crash = dice.random_bool(0.6);
    let away = if dice.random_bool(0.7) { Duration::ZERO } else { millis(dice, 100..900_000) };
    Happening::Process { crash, damaged: crash && dice.random_bool(0.15), away }
}

/// Most terms are short: lost again while the inventory is read, or after the first looks.
fn lead(dice: &mut StdRng) -> Happening {
    let terms = dice.random_range(0..4);
    let mut term = || {
        let longest = if dice.random_bool(0.5) { 50 } else { 60_000 };
        millis(dice, 0..longest)
    };
    Happening::Lead((0..terms).map(|_| term()).collect())
}

fn root_dies(_: &mut StdRng) -> Happening {
    Happening::RootDies
}

fn let_go(dice: &mut StdRng) -> Happening {
    Happening::LetGo(pick(dice), millis(dice, 0..2_000_000))
}

fn race(dice: &mut StdRng) -> Happening {
    let machine = pick(dice);
    if dice.random_bool(0.5) { Happening::Overtaken(machine) } else { Happening::LostAndBack(machine) }
}

fn jump(dice: &mut StdRng) -> Happening {
    Happening::Jump(*[-86_400, -3_600, -30, 30, 3_600, 86_400].choose(dice).unwrap())
}

fn heal(_: &mut StdRng) -> Happening {
    Happening::Heal
}
