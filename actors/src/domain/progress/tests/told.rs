//! Limits, cuts, counts, and what is passed on as it is.

use super::*;

#[test]
fn a_text_is_cut_at_a_character() {
    for text in ["", "short", &"x".repeat(MAX_MESSAGE)] {
        assert_eq!(cut(text), *text);
    }
    let long = cut(&"x".repeat(MAX_MESSAGE + 1));
    assert_eq!(long.len(), MAX_MESSAGE);
    assert!(long.ends_with("x…"));
    // Three bytes a character, at every offset.
    for offset in 0..4 {
        let text = format!("{}{}", "x".repeat(offset), "한".repeat(MAX_MESSAGE));
        let short = cut(&text);
        assert!(short.len() <= MAX_MESSAGE && short.len() > MAX_MESSAGE - 3, "{}", short.len());
        assert!(text.starts_with(short.trim_end_matches('…')));
    }
}

#[test]
fn every_text_in_a_status_is_cut() {
    let long = "x".repeat(5000);
    let mut story = Story::in_order();
    let round = story.progress.round.as_mut().unwrap();
    round.skipped.insert("vm-1".into(), (SkipReason::ChangeHeld, long.clone()));
    round.pending.push(PendingChange { node: name("a"), change_id: "id".to_owned(), what: long.clone() });
    let mut story = story.failed(Reason::NovaError, &long);
    let status = story.tell(1);
    for text in [
        &status.message,
        status.last_error.as_ref().unwrap(),
        &status.skipped[0].message,
        &status.pending_changes[0].what,
    ] {
        assert_eq!(text.len(), MAX_MESSAGE);
    }
    let wrong = gave_up(story.config.id.clone(), 1, &long);
    assert_eq!((wrong.message.len(), wrong.last_error.unwrap().len()), (MAX_MESSAGE, MAX_MESSAGE));
}

#[test]
fn at_most_twenty_are_listed_and_all_are_counted() {
    let vms: Vec<String> = (0..50).map(|n| format!("vm-{n:02}")).collect();
    let reasons: Vec<_> = vms.iter().map(|vm| (vm.as_str(), SkipReason::ChangeHeld)).collect();
    let mut story = story().skipping(true, skips(&reasons));
    let change = |vm: &String| PendingChange { node: name(vm), change_id: vm.clone(), what: vm.clone() };
    story.progress.round.as_mut().unwrap().pending = vms.iter().map(change).collect();
    let status = story.tell(1);
    assert_eq!((status.skipped.len(), status.pending_changes.len()), (MAX_LISTED, MAX_LISTED));
    assert_eq!(status.nodes.skipped, 50);
    assert_eq!((&status.skipped[0].vm, &status.pending_changes[0].node), (&"vm-00".into(), &name("vm-00")));
}

#[test]
fn the_verdicts_of_all_ports_are_counted() {
    let verdict = |verdict| PortVerdict { port: port_id(1), verdict, detail: String::new(), interface: None };
    let vm = |id: &str, verdicts: &[Verdict]| VmReport {
        vm: id.into(),
        node: None,
        skipped: None,
        ports: verdicts.iter().copied().map(verdict).collect(),
    };
    let mut story = story().skipping(true, skips(&[("vm-2", SkipReason::InvalidPort)]));
    story.progress.round.as_mut().unwrap().vms =
        vec![vm("vm-1", &[Verdict::Selected, Verdict::NoIPv4]), vm("vm-2", &[Verdict::Selected])];
    let status = story.tell(1);
    assert_eq!(status.ports, [(Verdict::Selected, 2), (Verdict::NoIPv4, 1)].into());
    let skipped: Vec<_> = status.vms.iter().map(|vm| vm.skipped).collect();
    assert_eq!(skipped, [None, Some(SkipReason::InvalidPort)]);
}

#[test]
fn a_vm_that_the_receiver_refuses_is_marked_in_its_report() {
    let mut story = Story::in_order();
    let vm = VmReport { vm: "vm-1".into(), node: None, skipped: None, ports: Vec::new() };
    story.progress.round.as_mut().unwrap().vms.push(vm);
    story.progress.delivery.refused = vec![(name("worker-1"), "vm-1".into(), "no".to_owned())];
    assert_eq!(story.tell(1).vms[0].skipped, Some(SkipReason::NodeRejected));
}

#[test]
fn only_a_success_moves_the_time_of_the_last_one() {
    let mut story = Story::in_order();
    assert_eq!(story.tell(10).last_synced_at, Some(at(10)));
    // The object is paused, its spec changes, somebody looks: no round, no delivery.
    story.config.paused = true;
    let status = story.tell(20);
    assert_eq!((status.last_synced_at, status.paused, status.ready), (Some(at(10)), true, Some(true)));
    // An unchanged round is a success as well.
    let mut story = story.round(false);
    assert_eq!(story.tell(30).last_synced_at, Some(at(30)));
    assert_eq!(story.tell(40).last_synced_at, Some(at(30)));
    // And so is a delivery that ends after its round.
    let mut story = story.round(true).deliveries(2, 1, 3, None);
    assert_eq!(story.tell(50).last_synced_at, Some(at(30)));
    assert_eq!(story.deliveries(3, 0, 4, None).tell(60).last_synced_at, Some(at(60)));
}

#[test]
fn what_the_actors_know_is_passed_on() {
    let mut story = Story::in_order();
    let retry = DownPortRetry { hash: "00".to_owned(), last_attempt: Some(at(1)), fast_attempts: 2 };
    story.progress.delivery.down_port_retry = Some(retry.clone());
    story.progress.observed_generation = 3;
    story.progress.next_poll_at = Some(at(70));
    story.progress.last_poll_at = Some(at(50));
    story.progress.token_expires_at = Some(at(900));
    let status = story.tell(60);
    assert_eq!(status.id, story.config.id);
    assert_eq!((status.down_port_retry, status.observed_generation), (Some(retry), 3));
    assert_eq!((status.next_poll_at, status.last_poll_at), (Some(at(70)), Some(at(50))));
    assert_eq!(status.token_expires_at, Some(at(900)));
}
