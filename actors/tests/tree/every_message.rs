//! Whichever message an actor dies at, the job goes on.

use std::time::Duration;

use multinic_actors::boundary::PostFailure;
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{Harness, config, nic};

const SECOND: Duration = Duration::from_secs(1);

/// A day with a bit of everything: every message of every actor is sent at least once.
async fn survives_a_panic_at(kind: &'static str, message: &'static str) {
    let a = config("a").vms(3).polling(|polling| polling.resync = Some(900 * SECOND));
    let mut world = Harness::new();
    world.cloud.has(&a, 2);
    world.cloud.tokens_live(1200 * SECOND);
    world.cloud.vm("a-3").port_is(300, "DOWN");
    world.viola.of("a").next_fail(1, PostFailure::Unavailable);
    if message == "WriteLate" {
        world.store.saves_take(15 * SECOND);
    }
    world.faults.panic_at(kind, message);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(30 * SECOND).await;
    // A failing store for a while, an inventory that is away for a moment, and another spec.
    world.store.saves_fail("disk full");
    world.cloud.vm("a-1").gets(nic(7));
    world.pass(60 * SECOND).await;
    world.store.heals();
    let a = a.vm("a-4").generation(2);
    world.cloud.vm("a-4").gets(nic(8));
    world.declare(&a);
    if message == "LedgerDue" {
        world.faults.panic_at("inventory", "Record");
    }
    world.pass(1000 * SECOND).await;
    world.cloud.vm("a-3").port_is(300, "ACTIVE");
    world.pass(1000 * SECOND).await;
    world.until_delivered(&a).await;
    world.until("the config is in order", |world| world.shown("a").ready == Some(true)).await;
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    assert_eq!(world.faults.open(), 0, "{kind} never got {message}\n{}", world.describe());
    assert!(world.restarts_of(kind) >= 1);
    let looks = world.cloud.looks().len();
    world.pass(600 * SECOND).await;
    assert!(world.cloud.looks().len() >= looks + 4, "{kind} {message}\n{}", world.describe());
    assert!(world.shown("a").reason == Reason::NoChange || world.shown("a").reason == Reason::Synced);
    world.until("the store has it", |world| world.store.content().records.len() == 4).await;
    world.end().await;
}

macro_rules! every_message {
    ($($kind:ident: $($message:ident)*;)*) => { $(
        #[allow(non_snake_case, reason = "messages are named as they are")]
        mod $kind { $(
            #[tokio::test(start_paused = true)]
            async fn $message() {
                super::survives_a_panic_at(stringify!($kind), stringify!($message)).await;
            }
        )* }
    )* };
}

every_message! {
    config: Apply PollDue SessionReady Observed RoundDone DeliveryChanged;
    token: Obtain Apply LoginDone RenewalDue;
    viola: Round Decided Apply PostDone WakeDue DownDue ResyncDue Kept LedgerDue;
    port: Observe;
    inventory: Record LoadDone SaveDone RetryDue WriteLate;
}
