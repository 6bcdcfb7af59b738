//! Whatever the round is doing when something else happens, some event leads out of it.

use std::time::Duration;

use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{ConfigBuilder, Harness, Strike, config, nic};

const SECOND: Duration = Duration::from_secs(1);

/// What holds a round in a phase of it for a few seconds, and the phase.
type Hold = (&'static str, fn(&Harness));
/// What happens meanwhile. Gives back the object as it is declared then.
type Happening = (&'static str, fn(&Harness, &ConfigBuilder) -> ConfigBuilder);

const HOLDS: [Hold; 9] = [
    ("the token actor is slow to answer", |world| world.faults.slow_at("token", "Obtain", 3 * SECOND)),
    ("a login is under way", |world| world.cloud.of("a").logins_take(3 * SECOND)),
    ("a look is under way", |world| world.cloud.of("a").looks_take(3 * SECOND)),
    ("the answer of the look waits", |world| world.faults.slow_at("config", "Observed", 3 * SECOND)),
    ("a VM is being decided", |world| world.faults.slow_at("port", "Observe", 3 * SECOND)),
    ("the round waits at viola", |world| world.faults.slow_at("viola", "Round", 3 * SECOND)),
    ("a decision waits at viola", |world| world.faults.slow_at("viola", "Decided", 3 * SECOND)),
    ("a POST is under way", |world| world.viola.of("a").takes(3 * SECOND)),
    ("viola is down", |world| {
        world.strike("viola", Strike::RefuseStart);
        world.faults.refuse_starts("viola", 3);
    }),
];

const HAPPENINGS: [Happening; 9] = [
    ("another spec", |world, a| {
        let a = a.clone().fast_retries(2);
        world.declare(&a);
        a
    }),
    ("a pause and its end", |world, a| {
        world.declare(&a.clone().paused(true));
        world.declare(a);
        a.clone()
    }),
    ("a pause for a minute", |world, a| {
        let (root, a) = (world.declarer(), a.clone());
        root(&a.clone().paused(true));
        let later = a.clone();
        tokio::spawn(async move {
            tokio::time::sleep(60 * SECOND).await;
            root(&later);
        });
        a
    }),
    ("a VM out and in", |world, a| {
        world.declare(&a.clone().without("a-2"));
        world.declare(a);
        a.clone()
    }),
    ("gone and back", |world, a| {
        world.remove(a.id());
        world.declare(a);
        a.clone()
    }),
    ("another life", |world, a| {
        let a = a.clone().recreated("uid-2", multinic_actors::testing::START);
        world.declare(&a);
        a
    }),
    ("another delivery target", |world, a| {
        let a = a.clone().provider("other");
        world.declare(&a);
        a
    }),
    ("the death of viola", |world, a| {
        world.actors("viola").iter().for_each(|viola| viola.actor.kill());
        a.clone()
    }),
    ("the death of the token actor", |world, a| {
        world.actors("token").iter().for_each(|token| token.actor.kill());
        a.clone()
    }),
];

#[tokio::test(start_paused = true)]
async fn whatever_happens_in_whichever_phase_the_job_goes_on() {
    for (phase, hold) in HOLDS {
        for (event, happen) in HAPPENINGS {
            println!("{event} while {phase}");
            let a = config("a").vms(3);
            let world = Harness::with(&a, 2).await;
            world.until_delivered(&a).await;
            world.until_reason("a", Reason::Synced).await;
            hold(&world);
            world.cloud.vm("a-2").gets(nic(7));
            // The spec drops the session, so that the login is part of the round.
            world.declare(&a.clone().generation(2));
            world.pass(SECOND).await;
            let a = happen(&world, &a.generation(3));
            world.until_delivered(&a).await;
            world.until("it is in order", |world| world.shown("a").ready == Some(true)).await;
            assert_eq!(world.viola.renames(), Vec::<String>::new());
            let looks = world.cloud.looks().len();
            world.pass(600 * SECOND).await;
            assert!(world.cloud.looks().len() >= looks + 4, "{}", world.describe());
            world.end().await;
        }
    }
}
