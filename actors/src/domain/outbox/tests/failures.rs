//! Pauses, failures that are told, refusals that rest, and one bad node among many.

use super::*;

#[test]
fn pauses_grow_up_to_the_rest_and_a_success_starts_over() {
    let mut bench = bench();
    bench.want(&[("a", 1)]);
    let mut pauses = Vec::new();
    for _ in 0..9 {
        let (id, _) = bench.depart();
        bench.fail(id, PostFailure::Unavailable);
        pauses.push(bench.wait());
    }
    for (pause, base) in pauses.iter().zip([2, 4, 8, 16, 32, 64, 120, 120, 120]) {
        let share = pause.as_secs_f64() / f64::from(base);
        assert!((0.9..=1.1).contains(&share) && *pause <= REST, "{pauses:?}");
    }
    let (id, _) = bench.depart();
    bench.accept(id);
    bench.want(&[("a", 2)]);
    let (id, _) = bench.depart();
    bench.fail(id, PostFailure::Unavailable);
    assert!(bench.wait() <= 3 * SECOND);
}

#[test]
fn a_new_state_does_not_cut_a_pause_short() {
    let mut bench = bench();
    bench.want(&[("a", 1)]);
    let (id, _) = bench.depart();
    bench.fail(id, PostFailure::Unavailable);
    bench.want(&[("a", 2), ("b", 1)]);
    bench.outbox.resend_all();
    assert!(bench.wait() > SECOND);
}

#[test]
fn the_service_gets_the_pause_that_it_asked_for() {
    let asked = |seconds: u64| {
        let mut bench = bench();
        bench.want(&[("a", 1)]);
        let (id, _) = bench.depart();
        let retry_after = Some(Duration::from_secs(seconds));
        let error = PostError { retry_after, ..error(PostFailure::Unavailable) };
        bench.outbox.finish(id, Err(error), bench.now);
        bench.wait().as_secs_f64()
    };
    assert!((1.8..=2.2).contains(&asked(0)));
    assert!((60.0..=66.0).contains(&asked(60)));
    // Longer than the slow interval, twice over.
    assert!((900.0..=990.0).contains(&asked(900)));
    // Nobody means a week.
    assert!(asked(7 * 24 * 3600) <= 3960.0);
}

#[test]
fn a_failure_is_told_until_what_is_wanted_is_delivered() {
    let mut bench = bench();
    bench.want(&[("a", 1), ("b", 1)]);
    let (id, _) = bench.depart();
    let finished = bench.fail(id, PostFailure::Unavailable);
    assert_eq!(finished.failure.as_deref(), Some("Unavailable"));
    bench.want(&[("a", 1), ("b", 1)]);
    assert_eq!(bench.outbox.failure(), Some("Unavailable"));
    bench.wait();
    let (id, _) = bench.depart();
    assert_eq!(bench.outbox.failure(), Some("Unavailable"));
    bench.accept(id);
    assert_eq!(bench.outbox.failure(), None);
}

#[test]
fn a_failed_re_send_is_no_undelivered_change() {
    let mut bench = bench();
    bench.delivers(&[("a", 1)]);
    bench.outbox.resend(&name("a"));
    let (id, _) = bench.depart();
    bench.fail(id, PostFailure::Unavailable);
    assert_eq!(bench.outbox.failure(), None);
}

#[test]
fn per_node_results_count_for_the_nodes_they_name() {
    let mut bench = bench();
    bench.want(&[("a", 1), ("b", 1), ("c", 1)]);
    let (id, _) = bench.depart();
    let results = vec![result("a", Ok(())), result("b", Err("no such node")), result("z", Ok(()))];
    let finished = bench.outbox.finish(id, Ok(PostAnswer::PerNode(results)), bench.now);
    assert_eq!((finished.accepted.len(), finished.refused), (1, 2));
    assert_eq!(bench.refused(), [("b", "no such node"), ("c", "the answer does not name this node")]);
    assert!(bench.outstanding().is_empty() && bench.outbox.failure().is_none());
    assert_eq!(bench.wait(), REST);
    bench.departs(&[("b", 1), ("c", 1)]);
}

#[test]
fn a_refused_content_rests_until_it_changes() {
    let mut bench = bench();
    bench.want(&[("a", 1)]);
    let id = bench.departs(&[("a", 1)]);
    bench.fail(id, PostFailure::Refused);
    bench.want(&[("a", 1)]);
    bench.now += REST - SECOND;
    assert_eq!(bench.wait(), SECOND);
    bench.now -= SECOND;
    bench.want(&[("a", 2)]);
    assert!(bench.refused().is_empty());
    bench.departs(&[("a", 2)]);
}

#[test]
fn a_rebuilt_vm_is_not_refused_for_the_old_one() {
    let mut bench = bench();
    bench.want(&[("a", 1)]);
    let (id, _) = bench.depart();
    bench.fail(id, PostFailure::Refused);
    let rebuilt = Arc::new(node("a", "vm-9", &[(0, 1)]));
    let want = Wanted { vm: "vm-9".into(), node: rebuilt, down: BTreeSet::new() };
    bench.outbox.want(&[(name("a"), want)].into());
    bench.departs(&[("a", 1)]);
}

/// Serves `bench` until it is idle or the time is over, refusing every batch with a node of `bad`.
/// Gives how many POSTs it took, and when the last good node was delivered.
fn serve(
    bench: &mut Bench,
    bad: &BTreeSet<String>,
    failure: PostFailure,
    until: Instant,
) -> (usize, Instant) {
    let (mut posts, mut last) = (0, bench.now);
    loop {
        match bench.outbox.next(bench.now) {
            Next::Idle => break,
            Next::Wait(moment) if moment > until => break,
            Next::Wait(moment) => bench.now = moment,
            Next::Post { id, nodes } => {
                posts += 1;
                let is_bad = nodes.iter().any(|node| bad.contains(node.node_name.as_str()));
                let answer = if is_bad { Err(error(failure)) } else { Ok(PostAnswer::AllAccepted) };
                if !bench.outbox.finish(id, answer, bench.now).accepted.is_empty() {
                    last = bench.now;
                }
            }
        }
    }
    (posts, last)
}

fn fleet(bench: &mut Bench, size: usize) -> Vec<String> {
    let names: Vec<String> = (0..size).map(|n| format!("n{n:03}")).collect();
    bench.want(&names.iter().map(|text| (text.as_str(), 1)).collect::<Vec<_>>());
    names
}

#[test]
fn one_bad_node_among_a_hundred_does_not_hold_back_the_others() {
    for (failure, most_posts, most_time) in
        [(PostFailure::Refused, 2 * 7 + 1, Duration::ZERO), (PostFailure::ServerError, 3 * 8, 25 * SECOND)]
    {
        for position in [0, 1, 49, 50, 77, 99] {
            let mut bench = bench();
            let names = fleet(&mut bench, 100);
            let bad = BTreeSet::from([names[position].clone()]);
            let start = bench.now;
            let (posts, last) = serve(&mut bench, &bad, failure, start + 60 * SECOND);
            assert!(posts <= most_posts, "{failure:?}: {posts} POSTs");
            assert!(last - start <= most_time, "{failure:?}: {:?}", last - start);
            assert!(bench.outstanding().is_empty());
            assert_eq!(bench.refused(), [(names[position].as_str(), format!("{failure:?}").as_str())]);
            // Later it is tried again on its own.
            let (posts, _) = serve(&mut bench, &bad, failure, start + 200 * SECOND);
            assert!((1..=2).contains(&posts), "{failure:?}: {posts} POSTs");
        }
    }
}

#[test]
fn a_bad_node_of_the_second_batch_does_not_hold_back_the_first_nor_the_third() {
    let mut bench = bench();
    let names = fleet(&mut bench, 250);
    let bad = BTreeSet::from([names[150].clone()]);
    let until = bench.now + 60 * SECOND;
    let (posts, _) = serve(&mut bench, &bad, PostFailure::Refused, until);
    assert!(posts <= 2 + 15, "{posts}");
    assert_eq!((bench.outstanding().len(), bench.refused().len()), (0, 1));
}

#[test]
fn a_single_server_error_refuses_nobody() {
    let mut bench = bench();
    fleet(&mut bench, 100);
    let (id, _) = bench.depart();
    bench.fail(id, PostFailure::ServerError);
    assert_eq!(bench.outbox.failure(), Some("ServerError"));
    bench.wait();
    let (id, nodes) = bench.depart();
    assert_eq!(nodes.len(), 100, "the whole batch once more");
    bench.accept(id);
    assert!(bench.refused().is_empty() && bench.is_idle());
}

#[test]
fn what_changed_while_a_batch_is_taken_apart_is_sent_as_it_is_now() {
    let mut bench = bench();
    bench.want(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    let (id, _) = bench.depart();
    bench.fail(id, PostFailure::Refused);
    bench.want(&[("a", 2), ("c", 1), ("e", 1)]);
    let id = bench.departs(&[("a", 2)]);
    bench.accept(id);
    let id = bench.departs(&[("c", 1)]);
    bench.accept(id);
    bench.departs(&[("e", 1)]);
}

#[test]
fn a_receiver_that_goes_away_ends_the_search_for_the_bad_node() {
    for failure in [PostFailure::Unavailable, PostFailure::UnknownOutcome, PostFailure::Rejected] {
        let mut bench = bench();
        bench.want(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
        let (id, _) = bench.depart();
        bench.fail(id, PostFailure::Refused);
        let id = bench.departs(&[("a", 1), ("b", 1)]);
        bench.fail(id, failure);
        bench.wait();
        bench.departs(&[("a", 1), ("b", 1), ("c", 1), ("d", 1)]);
    }
}
