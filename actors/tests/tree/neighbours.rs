//! What happens to one config does not show in another; and nothing that hangs hangs for ever.

use std::collections::BTreeMap;
use std::time::Duration;

use multinic_actors::boundary::{CloudError, PostFailure};
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{Harness, config, nic};

const SECOND: Duration = Duration::from_secs(1);

fn neutron(message: &str) -> CloudError {
    CloudError::new(Reason::NeutronPortError, format!("neutron: list ports: {message}"))
}

/// Something bad that happens to `a`.
type Hurt = (&'static str, fn(&Harness));

/// When `b` looked and posted, in an hour beside `a`.
async fn hour_of_b(hurt: impl Fn(&Harness)) -> Vec<String> {
    let (a, b) = (config("a").vms(20), config("b").vms(3));
    let mut world = Harness::new();
    world.cloud.has(&a, 1).has(&b, 1);
    hurt(&world);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.declare(&b);
    world.pass(1800 * SECOND).await;
    world.cloud.vm("b-1").gets(nic(7));
    world.pass(1800 * SECOND).await;
    let looks = world.cloud.looks().into_iter().filter(|look| look.config == "b");
    let looks = looks.map(|look| format!("{:?} look", look.at));
    let posts = world.viola.posts_of("b").into_iter().map(|post| format!("{:?} post", post.at));
    let line = looks.chain(posts).collect();
    world.end().await;
    line
}

#[tokio::test(start_paused = true)]
async fn whatever_happens_to_one_config_the_time_line_of_the_other_is_the_same() {
    let calm = hour_of_b(|_| {}).await;
    assert!(calm.len() > 30);
    let hurts: [Hurt; 9] = [
        ("slow cloud", |world| world.cloud.of("a").looks_take(45 * SECOND)),
        ("dead cloud", |world| world.cloud.of("a").next_look_hangs()),
        ("dead keystone", |world| world.cloud.of("a").next_login_hangs()),
        ("failing cloud", |world| world.cloud.of("a").looks_fail(neutron("503"))),
        ("broken adapter", |world| world.cloud.of("a").next_look_panics()),
        ("slow viola", |world| world.viola.of("a").takes(29 * SECOND)),
        ("dead viola", |world| world.viola.of("a").fails(PostFailure::Unavailable)),
        ("hanging viola", |world| world.viola.of("a").next_hangs()),
        ("crashing actor", |world| world.faults.always_panic("port", "a-1")),
    ];
    for (name, hurt) in hurts {
        assert_eq!(hour_of_b(hurt).await, calm, "{name}");
    }
}

/// The time line of each of 100 configs on 10 clouds over an hour, with a change in the middle; the ten
/// configs of the fourth cloud are hurt.
async fn hour_of_a_hundred(hurt: impl Fn(&Harness, &str)) -> BTreeMap<String, Vec<String>> {
    let configs: Vec<_> = (0..100).map(|n| config(&format!("cloud{}-{}", n / 10, n % 10)).vms(3)).collect();
    let mut world = Harness::new();
    for config in &configs {
        world.cloud.has(config, 1);
    }
    for n in 0..10 {
        hurt(&world, &format!("cloud3-{n}"));
    }
    world.start().await;
    configs.iter().for_each(|config| world.declare(config));
    world.synced();
    world.pass(1800 * SECOND).await;
    for config in &configs {
        world.cloud.vm(&format!("{}-1", config.id().name.name)).gets(nic(7));
    }
    world.pass(1800 * SECOND).await;
    let looks = world.cloud.looks().into_iter().map(|look| (look.config, format!("{:?} look", look.at)));
    let posts = world.viola.posts().into_iter().map(|post| {
        let line = format!("{:?} post of {:?}", post.at, post.names());
        (post.config, line)
    });
    let mut lines: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for (config, line) in looks.chain(posts) {
        lines.entry(config).or_default().push(line);
    }
    world.end().await;
    lines
}

#[tokio::test(start_paused = true)]
async fn while_one_of_ten_clouds_hangs_the_other_ninety_configs_keep_exactly_their_time_lines() {
    let mut calm = hour_of_a_hundred(|_, _| {}).await;
    let mut hurt = hour_of_a_hundred(|world, name| world.cloud.of(name).looks_hang()).await;
    for n in 0..10 {
        let name = format!("cloud3-{n}");
        let (calm, hurt) = (calm.remove(&name).unwrap(), hurt.remove(&name).unwrap());
        assert!(calm.len() > 4 * hurt.len(), "{name} hangs: {hurt:?}");
    }
    assert_eq!(calm.len(), 90);
    for (name, line) in &calm {
        assert!(line.len() > 30 && line.iter().any(|event| event.contains("post")), "{name}: {line:?}");
        assert_eq!(hurt[name], *line, "{name}");
    }
    assert_eq!(hurt.len(), 90);
}

#[tokio::test(start_paused = true)]
async fn a_look_that_never_ends_is_given_up_and_polls_go_on() {
    let a = config("a").vms(1);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.cloud.of("a").next_look_hangs();
    world.until_reason("a", Reason::NeutronPortError).await;
    world.until_reason("a", Reason::NoChange).await;
    assert!(world.clock.elapsed() < 1200 * SECOND);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_login_that_never_ends_is_given_up_and_polls_go_on() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.cloud.of("a").next_login_hangs();
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::KeystoneError).await;
    world.until_delivered(&a).await;
    assert!(world.clock.elapsed() < 300 * SECOND);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn first_polls_after_a_start_are_spread() {
    let mut world = Harness::new();
    let configs: Vec<_> = (0..50).map(|n| config(&format!("c{n:02}")).vms(1)).collect();
    for config in &configs {
        world.cloud.has(config, 1);
    }
    world.start().await;
    configs.iter().for_each(|config| world.declare(config));
    world.synced();
    world.pass(SECOND).await;
    let mut at: Vec<_> = world.cloud.looks().iter().map(|look| look.at).collect();
    at.sort();
    assert_eq!(at.len(), 50);
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= SECOND / 100), "{at:?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_hundred_configs_do_not_get_in_each_others_way() {
    let mut world = Harness::new();
    let configs: Vec<_> = (0..100).map(|n| config(&format!("c{n:02}")).vms(5)).collect();
    for config in &configs {
        world.cloud.has(config, 2);
    }
    for n in (0..100).step_by(10) {
        let name = format!("c{n:02}");
        world.cloud.of(&name).looks_fail(neutron("503"));
        world.viola.of(&format!("c{:02}", n + 1)).fails(PostFailure::Unavailable);
        world.cloud.of(&format!("c{:02}", n + 2)).next_look_hangs();
    }
    world.start().await;
    configs.iter().for_each(|config| world.declare(config));
    world.synced();
    world.pass(30 * SECOND).await;
    let is_hurt = |n: &usize| n % 10 < 3;
    for (n, config) in configs.iter().enumerate() {
        assert_eq!(world.is_delivered(config), !is_hurt(&n), "{n}");
    }
    for n in 0..100 {
        world.cloud.of(&format!("c{n:02}")).heals();
        world.viola.of(&format!("c{n:02}")).heals();
    }
    world.until("all are delivered", |world| configs.iter().all(|config| world.is_delivered(config))).await;
    assert_eq!(world.snapshot().records.len(), 500);
    assert!(world.store.saves() < 250, "{}", world.store.saves());
    world.end().await;
}
