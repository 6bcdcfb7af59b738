//! What happens in a run, made from its seed before it begins: a list that can be shortened.

use std::time::Duration;

use multinic_actors::domain::config::{ChangePolicy, InterfaceOrder, RemovalPolicy};
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::Lie;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

use crate::draws::{GROUPS, attach, millis, pause, race};

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
    /// Its objects are paused while something is still to be sent.
    PausedAmid(Pick),
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
