//! One kind of happening after the other, each drawn from the dice with its details.

use std::time::Duration;

use multinic_actors::domain::config::{ChangePolicy, InterfaceOrder, RemovalPolicy};
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::Lie;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;

use crate::plan::{
    ActorTrouble, CloudTrouble, Happening, Oddity, Pick, SUBNETS, SpecChange, StoreTrouble, ViolaTrouble,
};

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
pub type Maker = fn(&mut StdRng) -> Happening;

/// Groups of happenings. A seed leaves some out and prefers others, so that runs differ in kind.
pub const GROUPS: [(u32, &[Maker]); 9] = [
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

pub fn millis(dice: &mut StdRng, range: std::ops::Range<u64>) -> Duration {
    Duration::from_millis(dice.random_range(range))
}

pub fn pause(dice: &mut StdRng) -> Duration {
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

pub fn attach(dice: &mut StdRng) -> Happening {
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

pub fn race(dice: &mut StdRng) -> Happening {
    let races = [Happening::Overtaken, Happening::LostAndBack, Happening::PausedAmid];
    races.choose(dice).unwrap()(pick(dice))
}

fn jump(dice: &mut StdRng) -> Happening {
    Happening::Jump(*[-86_400, -3_600, -30, 30, 3_600, 86_400].choose(dice).unwrap())
}

fn heal(_: &mut StdRng) -> Happening {
    Happening::Heal
}
