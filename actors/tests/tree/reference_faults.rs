//! What the previous operator did wrong, measured on it: none of it comes back.
//!
//! Line by line, with the test that names it. A test without a path is in this file; `tree::` is this crate's
//! tree under virtual time, the others are the workspace's tests.
//!
//! | fault | tests |
//! |---|---|
//! | id 0 dropped from JSON | `domain::node::id_zero_is_always_written` |
//! | a lower MAC renames all others | [`a_nic_with_a_lower_mac_renames_nobody`], `e2e_sim::cost::twenty_added_ports_rename_nobody` |
//! | a failed network look-up sends mtu 0 | [`an_mtu_that_cannot_be_is_not_sent`], `e2e_sim::bad_cloud::a_network_look_up_that_fails_sends_no_mtu_of_zero` |
//! | a Nova error sends the UUID as node name | [`a_server_whose_name_is_not_known_is_never_sent_by_its_uuid`], `e2e_sim::odd_vms::a_nova_that_never_answered_is_an_error` |
//! | a cut-off or empty list says NoChange | [`a_failed_look_is_an_error_that_takes_nothing_away`], `e2e_sim::bad_cloud::{half_of_a_json_text, a_body_that_ends_half_way, a_list_that_is_suddenly_empty_takes_nothing_away}` |
//! | unpaged lists | `e2e_sim::cost::all_fifty_nodes_are_right_with_pages_of_ten` |
//! | hundreds of ids in one URL | `e2e_sim::cost::two_hundred_vms_work_behind_a_front_end_with_a_small_buffer` |
//! | look-ups, logins, calls and connections at every poll | [`one_login_and_one_post_serve_an_hour_of_polls`], `e2e_sim::cost::a_steady_poll_of_fifty_vms_is_two_neutron_requests_and_nothing_else` |
//! | one slow cloud or Viola delays every config | `tree::neighbours::{while_one_of_ten_clouds_hangs_the_other_ninety_configs_keep_exactly_their_time_lines, whatever_happens_to_one_config_the_time_line_of_the_other_is_the_same}` |
//! | a varying error text changes the status, which polls at once | [`a_failed_poll_is_retried_later_each_time_and_writes_one_status`], `e2e_sim::bad_cloud::an_error_has_the_same_text_every_time` |
//! | two VMs with one name overwrite each other | `tree::node_conflicts::two_vms_of_one_name_are_both_left_out_and_nobody_overwrites_anybody` |
//! | two configs over one node overwrite each other | `tree::node_conflicts::two_configs_over_one_node_do_not_fight_whoever_comes_first` |
//! | one bad node fails the batch | [`one_bad_node_answered_with_400_holds_back_none_of_the_other_99`], [`one_bad_node_answered_with_500_holds_back_none_of_the_other_99`] |
//! | a Viola failure repeats the cloud poll | [`a_viola_failure_repeats_the_post_and_not_the_poll`] |
//! | DOWN re-sends in pairs, each opens the fast window | [`a_down_port_is_re_sent_one_by_one_and_opens_no_fast_window`] |
//! | the whole file is written per node | `tree::store::many_nodes_are_written_together_not_one_by_one` |
//! | the file is not fsynced | `store::file::tests::a_crash_at_any_step_leaves_the_old_or_the_new_inventory` |
//! | a bad file is a crash loop | `e2e_sim::inventory::{a_torn_file_is_set_aside_and_the_previous_generation_used, an_empty_file_is_set_aside, a_foreign_file_is_set_aside}` |
//! | random order in answers | `edge_http::the_inventory_routes_answer_as_documented` |
//! | memory grows with size × readers | [`many_readers_of_all_records_share_one_inventory`], `edge_http::a_large_inventory_comes_whole_to_many_readers` |
//! | status writes that trigger polls | [`a_status_that_is_written_triggers_no_poll`], [`a_status_of_a_config_that_gave_up_wakes_it_no_sooner`] |
//! | no spread after a restart | [`after_a_restart_the_first_polls_are_spread`] |
//! | cluster-wide write access to Secrets | `tests/charts/check.py::test_secrets_are_only_read_by_name` |
//! | metrics off | `e2e_sim::rest::metrics_are_served_and_name_no_vm_port_mac_or_address` |
//! | Swagger from a CDN | there is no Swagger page yet |

use std::sync::Arc;
use std::time::Duration;

use multinic_actors::boundary::{CloudError, PostFailure, Urgency};
use multinic_actors::domain::config::InterfaceOrder;
use multinic_actors::domain::port::Server;
use multinic_actors::domain::reason::Reason;
use multinic_actors::testing::{Ending, Harness, config, names_by_mac, nic};

const SECOND: Duration = Duration::from_secs(1);

fn neutron(message: &str) -> CloudError {
    CloudError::new(Reason::NeutronPortError, format!("neutron: list ports: {message}"))
}

#[tokio::test(start_paused = true)]
async fn a_nic_with_a_lower_mac_renames_nobody() {
    let a = config("a").vms(20);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    for (number, vm) in (1..=20).zip(a.vm_ids()) {
        world.cloud.vm(vm.as_str()).gets(nic(number));
    }
    world.until_delivered(&a).await;
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    let node = world.viola.node("node-a-1").unwrap();
    let names: Vec<_> = names_by_mac(&node).into_values().collect();
    assert_eq!(names, ["multinic2", "multinic0", "multinic1"], "by MAC");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_removed_nic_renames_nobody_and_its_index_is_used_again() {
    let a = config("a").vms(1);
    let world = Harness::with(&a, 0).await;
    world.cloud.vm("a-1").gets(nic(1)).gets(nic(2)).gets(nic(3));
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").loses(1);
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").gets(nic(9));
    world.until_delivered(&a).await;
    let names: Vec<_> = names_by_mac(&world.viola.node("node-a-1").unwrap()).into_values().collect();
    assert_eq!(names, ["multinic1", "multinic2", "multinic0"], "by MAC");
    assert_eq!(world.viola.renames(), Vec::<String>::new());
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn numbering_by_mac_is_there_for_those_who_ask_for_it() {
    let a = config("a").vms(1).order(InterfaceOrder::Mac);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.cloud.vm("a-1").gets(nic(1));
    world.until_delivered(&a).await;
    assert_eq!(world.viola.renames().len(), 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn an_mtu_that_cannot_be_is_not_sent() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.cloud.mtu_is(0);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::AllSkipped).await;
    assert_eq!(world.viola.posts().len(), 0);
    assert_eq!(world.skip_of("a", "a-1").as_deref(), Some("InvalidPort"));
    world.cloud.mtu_is(1450);
    world.until_delivered(&a).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_name_is_not_known_is_never_sent_by_its_uuid() {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    for vm in ["a-1", "a-2"] {
        world.cloud.vm(vm).server_is(Server::Unknown("nova: 503".to_owned()));
    }
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::NovaError).await;
    assert_eq!(world.viola.posts().len(), 0);
    world.cloud.vm("a-1").is_named("node-a-1");
    world.until("the one that is known is sent", |world| world.viola.node("node-a-1").is_some()).await;
    assert_eq!(world.skip_of("a", "a-2").as_deref(), Some("NodeNameUnknown"));
    assert_eq!(world.viola.node_count(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_look_is_an_error_that_takes_nothing_away() {
    let a = config("a").vms(3);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.cloud.of("a").looks_fail(neutron("connection closed before the end"));
    world.until_reason("a", Reason::NeutronPortError).await;
    world.pass(1200 * SECOND).await;
    assert_eq!(world.shown("a").reason, Reason::NeutronPortError);
    assert_eq!(world.viola.posts().len(), 1);
    assert_eq!(world.snapshot().records.len(), 3);
    world.cloud.of("a").heals();
    world.until_reason("a", Reason::NoChange).await;
    assert_eq!(world.viola.posts().len(), 1);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_poll_is_retried_later_each_time_and_writes_one_status() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.cloud.of("a").looks_fail(neutron("read: connection reset by peer"));
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(1500 * SECOND).await;
    let looks = world.cloud.looks();
    let gaps: Vec<_> = looks.windows(2).map(|pair| (pair[1].at - pair[0].at).as_secs()).collect();
    let spans = [27..=33, 54..=66, 108..=132, 216..=240, 216..=240, 216..=240];
    assert!(gaps.iter().zip(&spans).all(|(gap, span)| span.contains(gap)), "{gaps:?}");
    assert_eq!(world.status.reasons("a"), [Reason::Pending, Reason::NeutronPortError]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn what_a_service_asks_us_to_wait_is_waited() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    let mut busy = neutron("429 Too Many Requests");
    busy.retry_after = Some(500 * SECOND);
    world.cloud.of("a").next_looks_fail(1, busy);
    world.viola.of("a").next_asks_to_wait(100 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    let (looks, posts) = (world.cloud.looks(), world.viola.posts());
    assert!((500 * SECOND..=550 * SECOND).contains(&looks[1].at), "{looks:?}");
    assert!(posts[1].at - posts[0].at >= 100 * SECOND);
    world.end().await;
}

/// A hundred nodes, one of which Viola cannot take.
async fn one_bad_node_in_a_hundred(failure: PostFailure) -> usize {
    let a = config("a").vms(100);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.chokes_on("node-a-37", failure);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("the others are delivered", |world| world.viola.node_count() == 99).await;
    world.until("it is named", |world| world.skip_of("a", "a-37").as_deref() == Some("NodeRejected")).await;
    assert_eq!((world.shown("a").ready, world.shown("a").nodes.delivered), (Some(true), 99));
    assert_eq!(world.cloud.looks().len(), 1, "POSTs are repeated, not the look");
    let posts = world.viola.posts().len();
    world.pass(100 * SECOND).await;
    assert_eq!(world.viola.posts().len(), posts, "what was refused rests");
    world.viola.takes_all();
    world.until_delivered(&a).await;
    assert_eq!(
        world.viola.times_sent("node-a-1"),
        1 + times_before_success(&world),
        "sent once more at most"
    );
    world.end().await;
    posts
}

/// How often node-a-1 was in a batch that failed.
fn times_before_success(world: &Harness) -> usize {
    let posts = world.viola.posts();
    let with_it = posts.iter().filter(|post| post.names().contains(&"node-a-1"));
    with_it.filter(|post| matches!(post.answer, Some(Err(_)))).count()
}

#[tokio::test(start_paused = true)]
async fn one_bad_node_answered_with_400_holds_back_none_of_the_other_99() {
    let posts = one_bad_node_in_a_hundred(PostFailure::Refused).await;
    assert!(posts <= 16, "{posts} POSTs");
}

#[tokio::test(start_paused = true)]
async fn one_bad_node_answered_with_500_holds_back_none_of_the_other_99() {
    let posts = one_bad_node_in_a_hundred(PostFailure::ServerError).await;
    assert!(posts <= 24, "{posts} POSTs");
}

#[tokio::test(start_paused = true)]
async fn a_node_refused_in_the_answer_rests_and_the_others_are_delivered() {
    let a = config("a").vms(5);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.refuses("node-a-3", "no such node");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until("the others are delivered", |world| world.snapshot().records.len() == 4).await;
    world.pass(SECOND).await;
    assert_eq!(world.skip_of("a", "a-3").as_deref(), Some("NodeRejected"));
    assert_eq!(world.viola.posts().len(), 1);
    world.cloud.vm("a-3").gets(nic(7));
    world.until("its new content is tried", |world| world.viola.times_sent("node-a-3") == 2).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_viola_failure_repeats_the_post_and_not_the_poll() {
    let a = config("a").vms(3);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").next_fail(3, PostFailure::Unavailable);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_delivered(&a).await;
    assert_eq!((world.viola.posts().len(), world.cloud.looks().len()), (4, 1));
    world.until_reason("a", Reason::Synced).await;
    assert_eq!(world.status.reasons("a"), [Reason::Pending, Reason::ViolaPostError, Reason::Synced]);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_viola_error_stays_shown_through_rounds_in_which_nothing_changed() {
    let a = config("a").vms(3);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.viola.of("a").fails(PostFailure::Rejected);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.until_reason("a", Reason::ViolaPostError).await;
    world.pass(1200 * SECOND).await;
    assert!(world.cloud.looks().len() > 5);
    assert_eq!(world.status.reasons("a"), [Reason::Pending, Reason::ViolaPostError]);
    world.end().await;
}

/// When `a` is looked at in an hour in which an order fails for a while; every status that is shown comes
/// back as an object that looks the same.
async fn looks_of_an_hour(is_echoed: bool) -> (Vec<Duration>, usize) {
    let a = config("a").vms(2);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.start().await;
    if is_echoed {
        let (declare, a) = (world.declarer(), a.clone());
        world.status.echoes(move |_| declare(&a));
    }
    world.synced();
    world.declare(&a);
    world.pass(900 * SECOND).await;
    world.cloud.of("a").looks_fail(neutron("connection reset by peer"));
    world.viola.of("a").fails(PostFailure::Unavailable);
    world.pass(900 * SECOND).await;
    world.cloud.of("a").heals();
    world.cloud.vm("a-1").gets(nic(7));
    world.pass(900 * SECOND).await;
    world.viola.of("a").heals();
    world.pass(900 * SECOND).await;
    let looks = world.cloud.looks().iter().map(|look| look.at).collect();
    let publications = world.status.publications();
    world.end().await;
    (looks, publications)
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_written_triggers_no_poll() {
    let (calm, _) = looks_of_an_hour(false).await;
    let (echoed, publications) = looks_of_an_hour(true).await;
    assert!(publications > 20 && calm.len() > 20, "{publications} states, {} looks", calm.len());
    assert_eq!(echoed, calm);
}

#[tokio::test(start_paused = true)]
async fn a_status_of_a_config_that_gave_up_wakes_it_no_sooner() {
    let mut restarts = Vec::new();
    for is_echoed in [false, true] {
        let a = config("a").vms(1);
        let mut world = Harness::new();
        world.cloud.has(&a, 1);
        world.faults.always_panic("config", "default/a");
        world.start().await;
        if is_echoed {
            let (declare, a) = (world.declarer(), a.clone());
            world.status.echoes(move |_| declare(&a));
        }
        world.synced();
        world.declare(&a);
        world.pass(3600 * SECOND).await;
        assert_eq!(world.shown("a").reason, Reason::InternalError);
        restarts.push(world.restarts_of("config"));
        world.end().await;
    }
    assert_eq!(restarts[0], restarts[1]);
}

#[tokio::test(start_paused = true)]
async fn after_a_restart_the_first_polls_are_spread() {
    let configs: Vec<_> = (0..50).map(|n| config(&format!("c{n:02}")).vms(1)).collect();
    let mut world = Harness::new();
    for config in &configs {
        world.cloud.has(config, 1);
    }
    world.start().await;
    configs.iter().for_each(|config| world.declare(config));
    world.synced();
    world.pass(600 * SECOND).await;
    let before = world.cloud.looks().len();
    world.restart(Ending::Stop).await;
    configs.iter().for_each(|config| world.declare(config));
    world.synced();
    world.pass(SECOND).await;
    let mut at: Vec<_> = world.cloud.looks()[before..].iter().map(|look| look.at).collect();
    at.sort();
    assert_eq!(at.len(), 50);
    assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= SECOND / 100), "{at:?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_down_port_is_re_sent_one_by_one_and_opens_no_fast_window() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.cloud.vm("a-1").port_is(100, "DOWN");
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(3600 * SECOND).await;
    let posts: Vec<_> = world.viola.posts().iter().map(|post| post.at).collect();
    let fast = a.clone().build().polling.fast;
    assert!(posts.len() > 30, "{posts:?}");
    assert!(posts.windows(2).all(|pair| pair[1] - pair[0] >= fast), "never two at once: {posts:?}");
    let looks: Vec<_> = world.cloud.looks().iter().map(|look| look.at).collect();
    let slow: Vec<_> = looks.windows(2).filter(|pair| pair[0] > 240 * SECOND).collect();
    assert!(slow.len() > 20);
    assert!(slow.iter().all(|pair| pair[1] - pair[0] >= 108 * SECOND), "no look is fast again: {looks:?}");
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn many_readers_of_all_records_share_one_inventory() {
    let a = config("a").vms(300);
    let world = Harness::with(&a, 2).await;
    world.until_delivered(&a).await;
    world.pass(60 * SECOND).await;
    let readers: Vec<_> = (0..1000).map(|_| world.snapshot()).collect();
    assert!(readers.iter().all(|reader| Arc::ptr_eq(reader, &readers[0])), "one for all of them");
    // A delivery while they read: they keep what they have, and the records that did not change stay shared.
    world.cloud.vm("a-7").gets(nic(9));
    world.until_delivered(&a).await;
    let after = world.snapshot();
    let is_shared = |(key, record): (_, &Arc<_>)| Arc::ptr_eq(record, &after.records[key]);
    assert_eq!(readers[0].records.iter().filter(|entry| is_shared(*entry)).count(), 299);
    assert_eq!(readers[0].records.len(), 300);
    let content = world.record("node-a-1").unwrap();
    drop(readers);
    world.until("nobody but the inventory holds it", |_| Arc::strong_count(&content) <= 6).await;
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_new_and_a_changed_object_are_polled_at_once() {
    let a = config("a").vms(1);
    let world = Harness::with(&a, 1).await;
    world.until_delivered(&a).await;
    world.pass(400 * SECOND).await;
    let b = config("b").vms(1);
    world.cloud.has(&b, 1);
    let at = world.clock.elapsed();
    world.declare(&b);
    world.declare(&a.clone().generation(2));
    world.pass(SECOND).await;
    let looks: Vec<_> = world.cloud.looks().into_iter().filter(|look| look.at >= at).collect();
    let configs: Vec<_> = looks.iter().map(|look| look.config.as_str()).collect();
    assert_eq!(configs.len(), 2, "{configs:?}");
    let changed = looks.iter().find(|look| look.config == "a").unwrap();
    assert_eq!((changed.urgency, changed.drop_caches), (Urgency::Event, false));
    assert_eq!(world.shown("a").observed_generation, 2);
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn one_login_and_one_post_serve_an_hour_of_polls() {
    let a = config("a").vms(50);
    let world = Harness::with(&a, 2).await;
    world.pass(3600 * SECOND).await;
    assert_eq!((world.cloud.logins().len(), world.viola.posts().len()), (1, 1));
    assert!((25..=50).contains(&world.cloud.looks().len()));
    assert!(world.cloud.looks().iter().all(|look| look.vms == 50));
    world.end().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_is_renewed_at_half_of_its_life() {
    let a = config("a").vms(1);
    let mut world = Harness::new();
    world.cloud.has(&a, 1);
    world.cloud.tokens_live(3600 * SECOND);
    world.start().await;
    world.synced();
    world.declare(&a);
    world.pass(4000 * SECOND).await;
    let logins: Vec<_> = world.cloud.logins().iter().map(|login| (login.at.as_secs(), login.renew)).collect();
    assert_eq!(logins, [(0, false), (1800, true), (3600, true)]);
    world.end().await;
}
