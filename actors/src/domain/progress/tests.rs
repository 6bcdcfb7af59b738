use proptest::prelude::*;

use super::super::port::PortVerdict;
use super::super::samples::*;
use super::*;

mod told;

const VMS: [&str; 3] = ["vm-1", "vm-2", "vm-3"];

/// A config with three VMs, and what happened to it so far.
struct Story {
    config: Config,
    progress: Progress,
}

fn story() -> Story {
    Story { config: config(&VMS), progress: Progress::default() }
}

fn skips(reasons: &[(&str, SkipReason)]) -> BTreeMap<VmId, (SkipReason, String)> {
    reasons.iter().map(|(vm, reason)| (VmId::new(vm), (*reason, format!("{vm} is {reason}")))).collect()
}

fn all_skipped(reasons: [SkipReason; 3]) -> BTreeMap<VmId, (SkipReason, String)> {
    skips(&VMS.iter().copied().zip(reasons).collect::<Vec<_>>())
}

impl Story {
    /// A round begins; deliveries from now on are its.
    fn begin(mut self) -> Self {
        self.progress.changes_before_round = self.progress.delivery.changes;
        self
    }

    fn round(self, is_changed: bool) -> Self {
        self.skipping(is_changed, BTreeMap::new())
    }

    fn skipping(mut self, is_changed: bool, skipped: BTreeMap<VmId, (SkipReason, String)>) -> Self {
        let round = self.progress.round.as_ref().map_or(0, |round| round.round) + 1;
        self = self.begin();
        self.progress.failure = None;
        self.progress.round =
            Some(RoundReport { round, is_changed, desired: 3, skipped, ..RoundReport::default() });
        self
    }

    fn failed(mut self, reason: Reason, message: &str) -> Self {
        let detail = format!("{message} (request req-1), retrying in 30s");
        self.progress.failure = Some(RoundFailure { reason, message: message.to_owned(), detail });
        self
    }

    fn deliveries(mut self, delivered: u32, outstanding: u32, changes: u64, failure: Option<&str>) -> Self {
        self.progress.delivery = DeliveryReport {
            delivered,
            outstanding,
            changes,
            failure: failure.map(str::to_owned),
            ..Default::default()
        };
        self
    }

    fn tell(&mut self, seconds: i64) -> ConfigStatus {
        self.progress.status(&self.config, at(seconds))
    }

    fn reason(&mut self) -> Reason {
        self.tell(0).reason
    }

    /// A state in which all is well.
    fn in_order() -> Self {
        story().round(true).deliveries(3, 0, 3, None)
    }
}

#[test]
fn before_the_first_round_nothing_is_known() {
    let status = story().tell(5);
    assert_eq!((status.reason, status.ready, status.degraded), (Reason::Pending, None, Degraded::Healthy));
    assert_eq!(status.message, "the first look is under way");
    assert_eq!((status.last_synced_at, status.last_error), (None, None));
    assert_eq!(status.nodes, NodeCounts::default());
}

#[test]
fn the_first_delivery_is_pending_until_it_is_done_and_then_synced() {
    let mut story = story().round(true).deliveries(0, 3, 0, None);
    let status = story.tell(5);
    assert_eq!((status.reason, status.message.as_str()), (Reason::Pending, "the delivery is under way"));
    assert_eq!(status.last_synced_at, None);
    let status = story.deliveries(3, 0, 3, None).tell(6);
    assert_eq!((status.reason, status.ready), (Reason::Synced, Some(true)));
    assert_eq!(status.message, "3 of 3 nodes are delivered");
    assert_eq!(status.last_synced_at, Some(at(6)));
}

#[test]
fn a_round_that_changes_nothing_is_no_change() {
    let mut story = Story::in_order();
    assert_eq!(story.reason(), Reason::Synced);
    let mut story = story.round(false);
    assert_eq!(story.reason(), Reason::NoChange);
    assert_eq!(story.tell(1).ready, Some(true));
}

#[test]
fn a_delivery_that_came_late_makes_the_unchanged_round_synced() {
    let mut story = Story::in_order().round(false).deliveries(3, 0, 4, None);
    assert_eq!(story.reason(), Reason::Synced);
    assert_eq!(story.round(false).reason(), Reason::NoChange);
}

#[test]
fn while_a_change_is_under_way_the_last_verdict_stays() {
    let mut story = Story::in_order();
    story.tell(10);
    let mut story = story.round(false);
    let before = story.tell(20);
    let status = {
        story = story.round(true).deliveries(2, 1, 3, None);
        story.tell(30)
    };
    assert_eq!((status.reason, &status.message), (Reason::NoChange, &before.message));
    assert_eq!(status.last_synced_at, Some(at(20)), "not yet in order");
    assert_eq!(story.deliveries(3, 0, 4, None).tell(40).reason, Reason::Synced);
}

#[test]
fn every_failure_of_a_round_is_its_reason_and_degrades() {
    use Reason::*;
    for reason in [
        ConfigError,
        ContrabassError,
        KeystoneError,
        NeutronEndpointError,
        NeutronPortError,
        NeutronSubnetError,
        NeutronNetworkError,
        SubnetRequired,
        SubnetNotFound,
        SubnetNotUnique,
        NovaError,
        ClusterError,
        MagnumError,
        DeliveryError,
        InternalError,
    ] {
        for story in [story(), Story::in_order()] {
            let status = story.failed(reason, "service: operation: 503").tell(9);
            assert_eq!(
                (status.reason, status.ready, status.degraded),
                (reason, Some(false), Degraded::Error)
            );
            assert_eq!(status.message, "service: operation: 503");
            assert_eq!(status.last_error.as_deref(), Some("service: operation: 503"));
            assert!(status.last_error_detail.unwrap().contains("req-1"));
        }
    }
}

#[test]
fn a_failed_round_keeps_what_the_last_good_one_told() {
    let mut story = Story::in_order();
    story.tell(10);
    let status = story.failed(Reason::NeutronPortError, "neutron: list ports: 503").tell(20);
    assert_eq!((status.nodes.desired, status.nodes.delivered), (3, 3));
    assert_eq!(status.last_synced_at, Some(at(10)));
}

#[test]
fn the_last_error_stays_until_the_next_success() {
    let mut story = Story::in_order().failed(Reason::KeystoneError, "keystone: 401");
    story.tell(1);
    let mut story = story.round(true).deliveries(2, 1, 3, None);
    assert_eq!(story.tell(2).last_error.as_deref(), Some("keystone: 401"), "still under way");
    let status = story.deliveries(3, 0, 4, None).tell(3);
    assert_eq!((status.last_error, status.last_error_detail), (None, None));
}

#[test]
fn a_failed_post_stays_through_unchanged_rounds_until_it_is_delivered() {
    let mut story = Story::in_order();
    story.tell(1);
    let mut story = story.round(true).deliveries(2, 1, 3, Some("viola: post node configs: 503"));
    for second in 2..6 {
        let status = story.tell(second);
        assert_eq!((status.reason, status.ready), (Reason::ViolaPostError, Some(false)));
        assert_eq!(status.message, "viola: post node configs: 503");
        assert_eq!(status.last_synced_at, Some(at(1)));
        story = story.round(false).deliveries(2, 1, 3, Some("viola: post node configs: 503"));
    }
    let status = story.deliveries(3, 0, 4, None).tell(9);
    assert_eq!((status.reason, status.last_error), (Reason::Synced, None));
}

#[test]
fn a_failed_round_is_told_before_a_failed_post() {
    let mut story = Story::in_order()
        .deliveries(2, 1, 3, Some("viola: 503"))
        .failed(Reason::NeutronPortError, "neutron: 503");
    assert_eq!(story.reason(), Reason::NeutronPortError);
}

#[test]
fn one_skipped_vm_degrades_and_the_rest_is_ready() {
    let mut story =
        story().skipping(true, skips(&[("vm-2", SkipReason::InvalidPort)])).deliveries(2, 0, 2, None);
    let status = story.tell(1);
    assert_eq!((status.reason, status.degraded), (Reason::Synced, Degraded::PartiallySynced));
    assert_eq!(status.skipped.len(), 1);
    assert_eq!(
        (status.skipped[0].reason, status.skipped[0].message.as_str()),
        (SkipReason::InvalidPort, "vm-2 is InvalidPort")
    );
    assert_eq!(status.nodes, NodeCounts { desired: 3, delivered: 2, skipped: 1, ..NodeCounts::default() });
}

#[test]
fn a_refused_node_is_a_skipped_vm_with_the_receivers_words() {
    let mut story = Story::in_order();
    story.progress.delivery.refused = vec![(name("worker-2"), "vm-2".into(), "no such node".to_owned())];
    let status = story.tell(1);
    assert_eq!((status.reason, status.degraded), (Reason::Synced, Degraded::PartiallySynced));
    assert_eq!(status.skipped[0].reason, SkipReason::NodeRejected);
    assert_eq!(status.skipped[0].message, "node worker-2 was refused: no such node");
}

#[test]
fn if_every_vm_is_skipped_the_commonest_reason_is_told() {
    use SkipReason::*;
    let told = |reasons| {
        let status = story().skipping(true, all_skipped(reasons)).tell(1);
        (status.reason, status.message)
    };
    assert_eq!(
        told([InvalidPort, NodeConflict, NodeConflict]),
        (Reason::AllSkipped, "all VMs are skipped, 2 of 3 as NodeConflict: vm-2 is NodeConflict".to_owned())
    );
    // Of equally common ones the first by their order, whichever VM is first.
    let one = told([InvalidPort, NodeConflict, ServerNotFound]).1;
    assert_eq!(one, "all VMs are skipped, 1 of 3 as ServerNotFound: vm-3 is ServerNotFound");
    assert_eq!(told([NodeNameUnknown; 3]).0, Reason::NovaError);
    assert_eq!(told([NodeNameUnknown, NodeNameUnknown, InvalidPort]).0, Reason::AllSkipped);
    assert_eq!(told([NotDecided; 3]).0, Reason::InternalError);
    assert_eq!(told([NodeRejected; 3]).0, Reason::AllSkipped);
}

#[test]
fn vms_that_are_kept_on_purpose_are_no_total_failure() {
    use SkipReason::*;
    for kept in [ChangeHeld, StaleNode] {
        for reasons in [[kept; 3], [kept, InvalidPort, InvalidPort]] {
            let status = story().skipping(false, all_skipped(reasons)).tell(1);
            assert_eq!((status.reason, status.degraded), (Reason::NoChange, Degraded::PartiallySynced));
        }
    }
}

#[test]
fn a_vm_without_ports_yet_is_in_order() {
    let two = skips(&[("vm-1", SkipReason::InvalidPort), ("vm-2", SkipReason::InvalidPort)]);
    assert_eq!(story().skipping(false, two).tell(1).reason, Reason::NoChange);
    let status = story().round(false).tell(1);
    assert_eq!((status.reason, status.degraded), (Reason::NoChange, Degraded::Healthy));
}

#[test]
fn a_skip_of_a_vm_that_is_no_longer_listed_does_not_count_as_all() {
    let mut story = story().skipping(true, all_skipped([SkipReason::InvalidPort; 3]));
    story.config.vms.push("vm-4".into());
    assert_eq!(story.reason(), Reason::Synced);
}

#[test]
fn a_store_that_keeps_nothing_is_told_and_does_not_hurt() {
    let mut story = Story::in_order();
    story.progress.delivery.store_problem = Some("no space left on device".to_owned());
    let status = story.tell(1);
    assert_eq!(status.ready, Some(true));
    assert!(status.message.contains("in memory only: no space left on device"), "{}", status.message);
}

#[test]
fn a_config_that_cannot_be_used_says_why() {
    let id = ConfigId::new("ns", "a", "uid-a");
    let wrong = InvalidConfig {
        id: id.clone(),
        generation: 7,
        reason: Reason::SubnetRequired,
        message: "spec.subnetIDs: name one".to_owned(),
    };
    let status = invalid(&wrong);
    assert_eq!(
        (status.reason, status.ready, status.degraded),
        (Reason::SubnetRequired, Some(false), Degraded::Error)
    );
    assert_eq!(
        (status.observed_generation, status.last_error.as_deref()),
        (7, Some("spec.subnetIDs: name one"))
    );
    let status = gave_up(id, 7, "panicked");
    assert_eq!((status.reason, status.ready), (Reason::InternalError, Some(false)));
    assert!(status.message.ends_with(": panicked"));
}

/// What can happen to a config, in short.
#[derive(Clone, Debug)]
enum Happens {
    Round { is_changed: bool, skipped: usize },
    RoundFailed,
    Delivery { outstanding: u32, has_failed: bool, news: u64 },
}

fn happenings() -> impl Strategy<Value = Vec<Happens>> {
    let one = prop_oneof![
        (any::<bool>(), 0_usize..4).prop_map(|(is_changed, skipped)| Happens::Round { is_changed, skipped }),
        Just(Happens::RoundFailed),
        (0_u32..3, any::<bool>(), 0_u64..3).prop_map(|(outstanding, has_failed, news)| Happens::Delivery {
            outstanding,
            has_failed: has_failed && outstanding > 0,
            news,
        }),
    ];
    prop::collection::vec(one, 0..20)
}

impl Story {
    fn happens(self, what: &Happens) -> Self {
        match what {
            Happens::Round { is_changed, skipped } => {
                let reasons = VMS.iter().take(*skipped).map(|vm| (*vm, SkipReason::InvalidPort));
                self.skipping(*is_changed, skips(&reasons.collect::<Vec<_>>()))
            }
            Happens::RoundFailed => self.failed(Reason::NeutronPortError, "neutron: 503"),
            Happens::Delivery { outstanding, has_failed, news } => {
                let changes = self.progress.delivery.changes + news;
                self.deliveries(3 - outstanding, *outstanding, changes, has_failed.then_some("viola: 503"))
            }
        }
    }
}

proptest! {
    #[test]
    fn what_is_told_fits_together_and_telling_it_again_changes_nothing(all in happenings()) {
        let mut story = story();
        for (second, what) in (0..).zip(&all) {
            story = story.happens(what);
            let status = story.tell(second);
            prop_assert_eq!(status.ready, status.reason.ready());
            prop_assert_eq!(status.degraded == Degraded::Error, status.ready == Some(false));
            if status.ready == Some(false) {
                prop_assert_eq!(status.last_error.as_ref(), Some(&status.message));
            }
            if status.ready == Some(true) && story.progress.delivery.outstanding == 0 {
                prop_assert_eq!(&status.last_error, &None);
            }
            // Later, with nothing new: the same, to the byte.
            prop_assert_eq!(story.tell(second + 1000), status);
        }
    }
}
