//! The outbox against a receiver in memory: anything may fail in any order.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

const NODES: [&str; 4] = ["a", "b", "c", "d"];

/// One thing that happens.
#[derive(Clone, Debug)]
enum Op {
    /// What is wanted from now on: one content a node, 0 = not wanted.
    Want([u8; 4]),
    Resend(usize),
    ResendAll,
    Pass(u64),
    /// The outbox is asked what to do; a batch stays under way until an answer comes.
    Next,
    Answer(Answer),
    Abandon,
}

/// What the receiver does with the batch under way.
#[derive(Clone, Debug)]
enum Answer {
    Accept,
    /// Node by node: these fail, half done or not.
    Refuse([bool; 4], bool),
    /// The request fails. Whether it was carried out is seen where the failure does not tell.
    Fail(PostFailure, Option<u64>, bool),
    /// No answer; carried out or not.
    Silence {
        is_carried_out: bool,
    },
}

fn contents() -> impl Strategy<Value = [u8; 4]> {
    prop::array::uniform4(0_u8..4)
}

fn answers() -> impl Strategy<Value = Answer> {
    let failures = prop::sample::select(vec![
        PostFailure::Unavailable,
        PostFailure::Refused,
        PostFailure::ServerError,
        PostFailure::Rejected,
    ]);
    prop_oneof![
        3 => Just(Answer::Accept),
        1 => any::<([bool; 4], bool)>().prop_map(|(bad, is_half)| Answer::Refuse(bad, is_half)),
        3 => (failures, prop::option::of(0_u64..600), any::<bool>())
            .prop_map(|(failure, after, is_done)| Answer::Fail(failure, after, is_done)),
        2 => any::<bool>().prop_map(|is_carried_out| Answer::Silence { is_carried_out }),
    ]
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let op = prop_oneof![
        3 => contents().prop_map(Op::Want),
        1 => (0_usize..4).prop_map(Op::Resend),
        1 => Just(Op::ResendAll),
        3 => prop::sample::select(vec![0_u64, 1, 3, 30, 120, 300]).prop_map(Op::Pass),
        6 => Just(Op::Next),
        5 => answers().prop_map(Op::Answer),
        1 => Just(Op::Abandon),
    ];
    prop::collection::vec(op, 0..60)
}

/// The outbox, the receiver, and what an observer of both knows.
struct World {
    bench: Bench,
    wanted: BTreeMap<String, u8>,
    /// What the receiver really has.
    has: BTreeMap<String, u8>,
    /// What it said it took.
    acknowledged: BTreeMap<String, u8>,
    /// Nodes that may be sent although that was acknowledged.
    may_repeat: BTreeSet<String>,
    flight: Option<(u64, Vec<(String, u8)>)>,
    not_before: Instant,
}

impl World {
    fn new(known: [u8; 4]) -> Self {
        let mut bench = bench();
        let known: BTreeMap<String, u8> = named(known);
        known.iter().for_each(|(text, n)| bench.outbox.learn(list(text, *n), false));
        let not_before = bench.now;
        Self {
            bench,
            wanted: BTreeMap::new(),
            has: known.clone(),
            acknowledged: known,
            may_repeat: BTreeSet::new(),
            flight: None,
            not_before,
        }
    }

    fn run(&mut self, op: &Op) {
        match op {
            Op::Want(contents) => self.want(*contents),
            Op::Resend(node) => {
                self.bench.outbox.resend(&name(NODES[*node]));
                self.may_repeat.insert(NODES[*node].to_owned());
            }
            Op::ResendAll => {
                self.bench.outbox.resend_all();
                self.may_repeat.extend(NODES.map(str::to_owned));
            }
            Op::Pass(seconds) => self.bench.now += Duration::from_secs(*seconds),
            Op::Next => drop(self.next()),
            Op::Answer(answer) => self.answer(answer),
            Op::Abandon => {
                if let Some((id, _)) = self.flight.take() {
                    self.bench.outbox.abandon(id);
                }
            }
        }
    }

    fn want(&mut self, contents: [u8; 4]) {
        self.wanted = named(contents);
        let wanted: Vec<_> = self.wanted.iter().map(|(text, n)| (text.as_str(), *n)).collect();
        self.bench.want(&wanted);
    }

    fn next(&mut self) -> Next {
        let next = self.bench.outbox.next(self.bench.now);
        match &next {
            Next::Post { id, nodes } => {
                assert!(self.flight.is_none(), "two flights at once");
                assert!(self.bench.now >= self.not_before, "the service asked for a longer pause");
                let nodes: Vec<_> = nodes.iter().map(|node| row(node)).collect();
                assert!(!nodes.is_empty());
                nodes.iter().for_each(|row| self.check_departure(row));
                self.flight = Some((*id, nodes));
            }
            Next::Wait(moment) => assert!(*moment > self.bench.now, "waits for the past"),
            Next::Idle if self.flight.is_none() => self.check_rest(),
            Next::Idle => {}
        }
        next
    }

    fn check_departure(&self, row: &(String, u8)) {
        let (text, content) = row;
        assert_eq!(self.wanted.get(text), Some(content), "not the newest state of {text}");
        let is_new = self.acknowledged.get(text) != Some(content);
        assert!(is_new || self.may_repeat.contains(text), "{text} has it and nobody asked for a repetition");
    }

    /// With nothing to do and nothing to wait for, all is done.
    fn check_rest(&self) {
        for (text, content) in &self.wanted {
            assert_eq!(self.acknowledged.get(text), Some(content), "{text} is left undelivered");
            assert_eq!(self.has.get(text), Some(content), "{text} really has something else");
        }
        assert_eq!(self.bench.outbox.outstanding().count(), 0);
        assert_eq!(self.bench.outbox.failure(), None);
    }

    fn answer(&mut self, answer: &Answer) {
        let Some((id, nodes)) = self.flight.take() else { return };
        let before = self.acknowledged.clone();
        let answer = match answer {
            Answer::Accept => {
                nodes.iter().for_each(|row| self.take(row));
                Ok(PostAnswer::AllAccepted)
            }
            Answer::Refuse(bad, is_half_done) => {
                let is_bad = |text: &str| NODES.iter().zip(bad).any(|(node, bad)| *node == text && *bad);
                nodes.iter().filter(|(text, _)| !is_bad(text)).for_each(|row| self.take(row));
                let failed = nodes.iter().filter(|(text, _)| is_bad(text));
                self.doubt(failed.cloned().collect(), *is_half_done);
                let answer = |text: &str| result(text, if is_bad(text) { Err("no") } else { Ok(()) });
                Ok(PostAnswer::PerNode(nodes.iter().map(|(text, _)| answer(text)).collect()))
            }
            Answer::Fail(failure, retry_after, is_carried_out) => {
                if *failure == PostFailure::ServerError {
                    self.doubt(nodes.clone(), *is_carried_out);
                }
                let is_pause = matches!(failure, PostFailure::Unavailable | PostFailure::Rejected);
                let retry_after = retry_after.filter(|_| is_pause).map(Duration::from_secs);
                self.not_before = self.bench.now + retry_after.unwrap_or_default();
                Err(PostError { retry_after, ..error(*failure) })
            }
            Answer::Silence { is_carried_out } => {
                self.doubt(nodes.clone(), *is_carried_out);
                Err(error(PostFailure::UnknownOutcome))
            }
        };
        let is_success = answer.is_ok();
        let finished = self.bench.outbox.finish(id, answer, self.bench.now);
        assert_eq!(finished.failure.is_some(), !is_success);
        let news: BTreeMap<_, _> = finished.accepted.iter().map(|a| (row(&a.node), a.is_change)).collect();
        let expect = |row: &&(String, u8)| self.acknowledged.get(&row.0) == Some(&row.1) && is_success;
        let taken = nodes.iter().filter(expect).filter(|row| news.contains_key(row)).count();
        assert_eq!(taken, news.len(), "something was taken that was not sent");
        for ((text, content), is_change) in &news {
            assert_eq!(*is_change, before.get(text) != Some(content));
        }
        for (text, content) in &self.acknowledged {
            let known = self.bench.outbox.delivered_at(&name(text)).map(|node| row(node).1);
            assert_eq!(known, Some(*content), "what {text} has is not known");
        }
    }

    /// The receiver has these or not, and does not tell.
    fn doubt(&mut self, nodes: Vec<(String, u8)>, is_carried_out: bool) {
        self.may_repeat.extend(nodes.iter().map(|(text, _)| text.clone()));
        if is_carried_out {
            self.has.extend(nodes);
        }
    }

    fn take(&mut self, row: &(String, u8)) {
        self.has.insert(row.0.clone(), row.1);
        self.acknowledged.insert(row.0.clone(), row.1);
    }

    /// A receiver that takes everything from now on. Gives the number of POSTs until rest.
    fn heal(&mut self) -> usize {
        let (mut posts, deadline) = (0, self.bench.now + Duration::from_secs(1200));
        self.answer(&Answer::Accept);
        loop {
            match self.next() {
                Next::Post { .. } => {
                    posts += 1;
                    self.answer(&Answer::Accept);
                }
                Next::Wait(moment) => {
                    assert!(moment <= deadline, "waits too long after everything is well again");
                    self.bench.now = moment;
                }
                Next::Idle => return posts,
            }
        }
    }
}

fn named(contents: [u8; 4]) -> BTreeMap<String, u8> {
    let nodes = NODES.iter().zip(contents).filter(|(_, content)| *content > 0);
    nodes.map(|(text, content)| ((*text).to_owned(), content)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn whatever_fails_the_newest_state_arrives_and_nothing_else_is_sent(known in contents(), ops in ops()) {
        let mut world = World::new(known);
        ops.iter().for_each(|op| world.run(op));
        // At most the parts of one batch, the rest of it, and the refused ones later.
        let posts = world.heal();
        prop_assert!(posts <= 12, "{} POSTs after everything is well again", posts);
    }

    #[test]
    fn bad_nodes_cost_a_logarithm_each_and_nobody_else_anything(
        bad in prop::collection::btree_set(0_usize..150, 0..6), by_500: bool,
    ) {
        let failure = if by_500 { PostFailure::ServerError } else { PostFailure::Refused };
        let mut bench = bench();
        let names: Vec<String> = (0..150).map(|n| format!("n{n:03}")).collect();
        bench.want(&names.iter().map(|text| (text.as_str(), 1)).collect::<Vec<_>>());
        let bad: Vec<&str> = bad.iter().map(|n| names[*n].as_str()).collect();
        let (start, mut posts) = (bench.now, 0);
        loop {
            match bench.outbox.next(bench.now) {
                Next::Wait(moment) if moment - start < REST => bench.now = moment,
                Next::Idle | Next::Wait(_) => break,
                Next::Post { id, nodes } => {
                    posts += 1;
                    let is_bad = nodes.iter().any(|node| bad.contains(&node.node_name.as_str()));
                    let answer = if is_bad { Err(error(failure)) } else { Ok(PostAnswer::AllAccepted) };
                    bench.outbox.finish(id, answer, bench.now);
                }
            }
        }
        prop_assert!(posts <= 2 + 24 * bad.len(), "{} POSTs for {} bad nodes", posts, bad.len());
        let refused: Vec<_> = bench.refused().iter().map(|(text, _)| *text).collect();
        prop_assert_eq!(refused, bad);
        prop_assert!(bench.outstanding().is_empty());
    }
}
