//! Nine of ten clouds fail for a day, each in its own way; the tenth is served as if it were alone.

use std::time::Duration;

use multinic_actors::boundary::{CloudError, PostFailure};
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{ConfigBuilder, Ending, Harness, Lie, config, nic};

use crate::run::{paused, run_apart};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3600);
/// How often a trouble that ends by itself is ordered anew: more often than any poll.
const TIMES: usize = 10_000;

/// How a cloud fails, and what belongs to it: its own Viola, and the actors of its config.
type Failure = (&'static str, fn(&Harness, &str));

const FAILURES: [Failure; 9] = [
    ("Neutron answers 503", |world, name| world.cloud.of(name).looks_fail(error(Reason::NeutronPortError))),
    ("the password is wrong", |world, name| {
        world.cloud.of(name).logins_fail(error(Reason::KeystoneError));
        world.cloud.of(name).looks_fail(error(Reason::KeystoneError));
    }),
    ("no look ends", |world, name| world.cloud.of(name).looks_hang()),
    ("every look panics", |world, name| {
        (0..TIMES).for_each(|_| world.cloud.of(name).next_look_panics());
    }),
    ("looks take longer than the slow interval", |world, name| world.cloud.of(name).looks_take(150 * SECOND)),
    ("it asks for pauses", |world, name| {
        let waits = CloudError { retry_after: Some(HOUR), ..error(Reason::NeutronPortError) };
        world.cloud.of(name).looks_fail(waits);
    }),
    ("its answers are wrong by turns", |world, name| {
        for lie in [Lie::NoPorts, Lie::Unfiltered, Lie::NoNames].into_iter().cycle().take(TIMES) {
            world.cloud.of(name).next_looks_lie(1, lie);
        }
    }),
    ("a VM's actor panics at every look", |world, name| {
        world.faults.always_panic("port", &format!("{name}-1"));
    }),
    ("its ports are DOWN and its Viola is dead", |world, name| {
        world.cloud.vm(&format!("{name}-1")).gets(nic(5).down());
        world.viola.of(name).fails(PostFailure::Unavailable);
    }),
];

fn error(reason: Reason) -> CloudError {
    CloudError::new(reason, format!("the cloud says {reason}"))
}

fn object(number: usize) -> ConfigBuilder {
    let name = format!("cloud{number}");
    config(&name).vms(3).provider(&name)
}

/// What the tenth cloud saw in a day: when it was looked at, and what its nodes were sent.
#[derive(Debug, PartialEq, Eq)]
struct Day {
    looks: Vec<Duration>,
    posts: Vec<(Duration, Vec<String>)>,
    reasons: Vec<Reason>,
}

async fn day_of_the_tenth(hurts: bool) -> (Day, Vec<(String, usize)>) {
    let mut world = Harness::new();
    world.cloud.tokens_live(HOUR);
    let objects: Vec<_> = (0..10).map(object).collect();
    for object in &objects {
        world.cloud.has(object, 2);
    }
    world.start().await;
    objects.iter().for_each(|object| world.declare(object));
    world.synced();
    for object in &objects {
        world.until_delivered(object).await;
    }
    for (number, (_, hurt)) in FAILURES.iter().enumerate().filter(|_| hurts) {
        hurt(&world, &format!("cloud{number}"));
    }
    let before = world.cloud.looks().len();
    for hour in 0..24 {
        world.cloud.vm(&format!("cloud9-{}", hour % 3 + 1)).gets(nic(7 + hour));
        world.pass(HOUR).await;
    }
    let looks = world.cloud.looks().split_off(before);
    let of_others = (0..9).map(|number| {
        let name = format!("cloud{number}");
        let count = looks.iter().filter(|look| look.config == name).count();
        (name, count)
    });
    let of_others = of_others.collect();
    let posts = world.viola.posts_of("cloud9").into_iter().map(|post| {
        let names = post.nodes.iter().map(|node| format!("{} {}", node.node_name, node.hash()));
        (post.at, names.collect())
    });
    let day = Day {
        looks: looks.iter().filter(|look| look.config == "cloud9").map(|look| look.at).collect(),
        posts: posts.collect(),
        reasons: world.status.reasons("cloud9"),
    };
    world.halt(Ending::Stop).await;
    (day, of_others)
}

#[test]
fn with_nine_of_ten_clouds_failing_for_a_day_the_tenth_never_misses_an_interval() {
    let (calm, hurt) = run_apart(|| {
        (paused().block_on(day_of_the_tenth(false)).0, paused().block_on(day_of_the_tenth(true)))
    });
    let (hurt, of_others) = hurt;
    // The slow interval is two minutes, and its jitter a tenth.
    let longest = hurt.looks.windows(2).map(|pair| pair[1] - pair[0]).max();
    assert!(longest.is_some_and(|gap| gap <= 132 * SECOND), "{longest:?}");
    assert!(hurt.looks.len() > 24 * 3600 / 132, "{} looks", hurt.looks.len());
    assert_eq!(hurt.posts.len(), calm.posts.len());
    assert!(hurt.posts.len() > 24, "each of the day's NICs was sent");
    assert_eq!(hurt, calm, "it is served as if the others were well");
    // They really failed, and were tried all the same.
    for ((name, looks), (failure, _)) in of_others.iter().zip(&FAILURES) {
        println!("{name}: {failure}: looked at {looks} times, the tenth {}", hurt.looks.len());
    }
    assert!(of_others.iter().all(|(_, looks)| *looks > 20), "{of_others:?}");
}
