use std::num::NonZeroUsize;
use std::time::Duration;

use super::*;
use crate::sdk::Batching;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fake {
    name: usize,
    weights: Vec<usize>,
    kind: char,
    arrived: Instant,
    class: PriorityClass,
    rule: BatchRule,
    abandoned: bool,
}

impl QueuedRequest for Fake {
    type BatchKey = char;

    fn docs(&self) -> usize {
        self.weights.len()
    }

    fn weight(&self, place: usize) -> usize {
        self.weights[place]
    }

    fn arrived(&self) -> Instant {
        self.arrived
    }

    fn class(&self) -> PriorityClass {
        self.class
    }

    fn rule(&self) -> BatchRule {
        self.rule
    }

    fn batch_key(&self) -> char {
        self.kind
    }

    fn is_abandoned(&self) -> bool {
        self.abandoned
    }

    fn split_off(&mut self, docs: usize) -> Self {
        let first = self.weights.drain(..docs).collect();
        Self {
            weights: first,
            ..self.clone()
        }
    }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn rule(size: usize, wait_max: Duration, fit: Fit) -> BatchRule {
    BatchRule::Together(Batching {
        size: NonZeroUsize::new(size).unwrap(),
        wait_max,
        metric: BatchMetric::Documents,
        fit,
    })
}

fn fake(name: usize, docs: usize, rule: BatchRule, arrived: Instant) -> Fake {
    Fake {
        name,
        weights: vec![1; docs],
        kind: 'a',
        arrived,
        class: PriorityClass::Interactive,
        rule,
        abandoned: false,
    }
}

fn batcher(requests: impl IntoIterator<Item = Fake>) -> Batcher<Fake> {
    let mut batcher = Batcher::new();
    requests
        .into_iter()
        .for_each(|request| batcher.push(request));
    batcher
}

/// Names of the requests in the next batch.
#[track_caller]
fn called(next: Next<Fake>) -> Vec<usize> {
    match next {
        Next::Call(batch, _) => batch.iter().map(|request| request.name).collect(),
        other => panic!("no call but {other:?}"),
    }
}

/// Calls as pairs of a request's name and how many of its documents, until nothing may leave.
fn calls(batcher: &mut Batcher<Fake>, now: Instant) -> Vec<Vec<(usize, usize)>> {
    let mut calls = Vec::new();
    while let Next::Call(batch, _) = batcher.next(now) {
        calls.push(batch.iter().map(|it| (it.name, it.docs())).collect());
    }
    calls
}

/// The numbers of documents of the requests, and those of the batches when all requests are waiting.
#[track_caller]
fn check(size: usize, requests: &[usize], batches: &[usize]) {
    let now = Instant::now();
    let rule = rule(size, Duration::ZERO, Fit::Requests);
    let requests = requests.iter().enumerate();
    let mut batcher = batcher(requests.map(|(name, &docs)| fake(name, docs, rule, now)));
    let seen = calls(&mut batcher, now);
    let docs = |call: &Vec<(usize, usize)>| call.iter().map(|(_, docs)| docs).sum();
    assert_eq!(seen.iter().map(docs).collect::<Vec<usize>>(), batches);
    assert!(batcher.is_empty());
}

/// The same for pieces of exactly `size`, request by request.
#[track_caller]
fn check_exact(size: usize, requests: &[usize], pieces: &[&[(usize, usize)]]) {
    let now = Instant::now();
    let rule = rule(size, Duration::ZERO, Fit::Exact);
    let requests = requests.iter().enumerate();
    let mut batcher = batcher(requests.map(|(name, &docs)| fake(name, docs, rule, now)));
    assert_eq!(calls(&mut batcher, now), pieces);
    assert!(batcher.is_empty());
}

#[test]
fn a_batch_closes_at_exactly_its_size() {
    check(8, &[], &[]);
    check(8, &[7], &[7]);
    check(8, &[7, 1], &[8]);
    check(8, &[7, 2], &[7, 2]);
    check(8, &[8, 1], &[8, 1]);
    check(8, &[4, 4, 4], &[8, 4]);
}

#[test]
fn a_request_larger_than_a_batch_goes_alone() {
    check(8, &[17], &[17]);
    check(8, &[1, 17, 1], &[1, 17, 1]);
}

#[test]
fn requests_without_documents_still_leave() {
    check(8, &[0], &[0]);
    check(1, &[0, 0, 1, 0], &[1]);
}

#[test]
fn exact_pieces_cut_across_requests() {
    check_exact(4, &[3, 6], &[&[(0, 3), (1, 1)], &[(1, 4)], &[(1, 1)]]);
    check_exact(4, &[4], &[&[(0, 4)]]);
    check_exact(4, &[5], &[&[(0, 4)], &[(0, 1)]]);
    check_exact(4, &[1, 1, 1], &[&[(0, 1), (1, 1), (2, 1)]]);
    check_exact(4, &[4, 0], &[&[(0, 4)], &[(1, 0)]]);
    check_exact(1, &[2, 1], &[&[(0, 1)], &[(0, 1)], &[(1, 1)]]);
}

#[test]
fn everything_that_waits_goes_in_one_call_with_fit_all() {
    let t0 = Instant::now();
    let rule = rule(4, ms(10), Fit::All);
    let mut batcher = batcher([fake(1, 3, rule, t0)]);
    assert_eq!(batcher.next(t0), Next::WaitUntil(t0 + ms(10)));
    batcher.push(fake(2, 6, rule, t0));
    assert_eq!(calls(&mut batcher, t0), [[(1, 3), (2, 6)]]);
}

#[test]
fn a_full_batch_takes_all_waiting_requests_and_new_ones_fill_its_last_piece() {
    let t0 = Instant::now();
    let rule = rule(4, ms(10), Fit::Exact);
    let mut batcher = batcher([fake(1, 3, rule, t0), fake(2, 2, rule, t0)]);
    assert_eq!(called(batcher.next(t0)), [1, 2]);
    batcher.push(fake(3, 1, rule, t0 + ms(1)));
    assert_eq!(called(batcher.next(t0 + ms(1))), [2, 3]);
    batcher.push(fake(4, 1, rule, t0 + ms(2)));
    assert_eq!(
        batcher.next(t0 + ms(2)),
        Next::WaitUntil(t0 + ms(12)),
        "the next batch has a timer of its own"
    );
}

fn weighing(name: usize, weights: &[usize], size: usize, now: Instant) -> Fake {
    let BatchRule::Together(batching) = rule(size, ms(10), Fit::Exact) else {
        unreachable!()
    };
    let rule = BatchRule::Together(Batching {
        metric: BatchMetric::Custom,
        ..batching
    });
    Fake {
        weights: weights.to_vec(),
        ..fake(name, 0, rule, now)
    }
}

#[test]
fn only_weights_make_a_batch_full() {
    let t0 = Instant::now();
    let mut batcher = batcher([weighing(1, &[1, 1], 4, t0)]);
    assert_eq!(
        batcher.next(t0),
        Next::WaitUntil(t0 + ms(10)),
        "two documents of weight 1 are not 4"
    );
    batcher.push(weighing(2, &[1, 1, 5, 1], 4, t0));
    let pieces = calls(&mut batcher, t0);
    assert_eq!(pieces, [vec![(1, 2), (2, 2)], vec![(2, 1)], vec![(2, 1)]]);
}

#[test]
fn documents_without_weight_leave_too() {
    let t0 = Instant::now();
    let mut batcher = batcher([weighing(1, &[4, 0, 0], 4, t0)]);
    assert_eq!(calls(&mut batcher, t0), [[(1, 1)], [(1, 2)]]);
    batcher.push(weighing(2, &[0], 4, t0));
    assert_eq!(batcher.next(t0), Next::WaitUntil(t0 + ms(10)));
    assert_eq!(calls(&mut batcher, t0 + ms(10)), [[(2, 1)]]);
    assert!(batcher.is_empty());
}

#[test]
fn nothing_waits_without_a_wait_time() {
    let now = Instant::now();
    let rule = rule(8, Duration::ZERO, Fit::Requests);
    let mut batcher = batcher([fake(1, 1, rule, now)]);
    assert_eq!(called(batcher.next(now)), [1]);
    assert_eq!(batcher.next(now), Next::Idle);
}

#[test]
fn a_single_request_leaves_after_its_wait() {
    let t0 = Instant::now();
    let mut batcher = batcher([fake(1, 1, rule(8, ms(5), Fit::Requests), t0)]);
    assert_eq!(batcher.next(t0 + ms(4)), Next::WaitUntil(t0 + ms(5)));
    assert_eq!(called(batcher.next(t0 + ms(5))), [1]);
}

#[test]
fn a_full_batch_does_not_wait() {
    let t0 = Instant::now();
    let rule = rule(8, ms(5), Fit::Requests);
    let mut batcher = batcher([fake(1, 4, rule, t0)]);
    assert_eq!(batcher.next(t0), Next::WaitUntil(t0 + ms(5)));
    batcher.push(fake(2, 4, rule, t0 + ms(1)));
    assert_eq!(called(batcher.next(t0 + ms(1))), [1, 2]);
}

#[test]
fn a_batch_leaves_when_the_next_request_does_not_fit() {
    let t0 = Instant::now();
    let rule = rule(8, ms(5), Fit::Requests);
    let mut batcher = batcher([fake(1, 7, rule, t0), fake(2, 2, rule, t0)]);
    assert_eq!(called(batcher.next(t0)), [1]);
    assert_eq!(batcher.next(t0), Next::WaitUntil(t0 + ms(5)));
}

#[test]
fn requests_that_differ_do_not_share_a_call_and_the_oldest_goes_first() {
    let t0 = Instant::now();
    let rule = rule(8, Duration::ZERO, Fit::Requests);
    let kinds = [(1, 'a'), (2, 'b'), (3, 'a'), (4, 'b')];
    let mut batcher = batcher(kinds.map(|(name, kind)| Fake {
        kind,
        ..fake(name, 1, rule, t0 + ms(name as u64))
    }));
    let now = t0 + ms(10);
    assert_eq!(called(batcher.next(now)), [1, 3]);
    assert_eq!(called(batcher.next(now)), [2, 4]);
}

#[test]
fn a_group_that_waits_does_not_delay_others() {
    let t0 = Instant::now();
    let slow = fake(1, 1, rule(8, ms(50), Fit::Exact), t0);
    let mut batcher = batcher([slow, fake(2, 1, BatchRule::Alone, t0 + ms(1))]);
    assert_eq!(called(batcher.next(t0 + ms(1))), [2]);
    assert_eq!(batcher.next(t0 + ms(1)), Next::WaitUntil(t0 + ms(50)));
}

#[test]
fn new_parameters_in_each_request_leave_nothing_behind() {
    let now = Instant::now();
    let rule = rule(8, Duration::ZERO, Fit::Exact);
    let mut batcher = Batcher::new();
    for kind in 'a'..='z' {
        batcher.push(Fake {
            kind,
            ..fake(1, 1, rule, now)
        });
        assert_eq!(called(batcher.next(now)), [1]);
    }
    assert!(batcher.groups.is_empty());
}

#[test]
fn requests_that_share_no_calls_run_one_by_one_in_order() {
    let t0 = Instant::now();
    let requests = [(1, 'a'), (2, 'b'), (3, 'a')];
    let mut batcher = batcher(requests.map(|(name, kind)| Fake {
        kind,
        ..fake(name, 1, BatchRule::Alone, t0)
    }));
    assert_eq!(calls(&mut batcher, t0), [[(1, 1)], [(2, 1)], [(3, 1)]]);
}

#[test]
fn a_request_whose_caller_has_gone_is_dropped() {
    let now = Instant::now();
    for rule in [BatchRule::Alone, rule(2, Duration::ZERO, Fit::Exact)] {
        let gone = |name| Fake {
            abandoned: true,
            ..fake(name, 2, rule, now)
        };
        let mut batcher = batcher([gone(1)]);
        assert_eq!(batcher.next(now), Next::Idle);
        batcher.push(gone(2));
        batcher.push(fake(3, 1, rule, now));
        assert_eq!(calls(&mut batcher, now), [[(3, 1)]]);
    }
}

#[test]
fn a_request_whose_caller_has_gone_does_not_fill_a_batch() {
    let t0 = Instant::now();
    let rule = rule(2, ms(5), Fit::Exact);
    let gone = Fake {
        abandoned: true,
        ..fake(1, 1, rule, t0)
    };
    let mut batcher = batcher([gone, fake(2, 1, rule, t0 + ms(1))]);
    assert_eq!(batcher.next(t0 + ms(1)), Next::WaitUntil(t0 + ms(6)));
}

fn of_class(class: PriorityClass, name: usize, arrived: Instant) -> Fake {
    Fake {
        class,
        ..fake(name, 1, BatchRule::Alone, arrived)
    }
}

#[test]
fn an_interactive_request_overtakes_bulk_ones() {
    let t0 = Instant::now();
    let mut batcher = batcher([
        of_class(PriorityClass::Bulk, 1, t0),
        of_class(PriorityClass::Bulk, 2, t0),
        of_class(PriorityClass::Interactive, 3, t0 + ms(1)),
    ]);
    let now = t0 + ms(1);
    assert_eq!(called(batcher.next(now)), [3]);
    assert_eq!(called(batcher.next(now)), [1]);
}

#[test]
fn priority_classes_do_not_share_calls() {
    let t0 = Instant::now();
    let rule = rule(8, Duration::ZERO, Fit::Requests);
    let bulk = Fake {
        class: PriorityClass::Bulk,
        ..fake(1, 1, rule, t0)
    };
    let mut batcher = batcher([bulk, fake(2, 1, rule, t0)]);
    assert_eq!(called(batcher.next(t0)), [2]);
    assert_eq!(called(batcher.next(t0)), [1]);
}

#[test]
fn a_bulk_request_runs_although_interactive_ones_never_end() {
    let t0 = Instant::now();
    let mut batcher = batcher([
        of_class(PriorityClass::Bulk, 0, t0),
        of_class(PriorityClass::Bulk, 0, t0),
    ]);
    let turns = 2 * (BULK_TURN as usize + 1);
    let order: Vec<usize> = (0..turns)
        .map(|_| {
            batcher.push(of_class(PriorityClass::Interactive, 1, t0));
            called(batcher.next(t0))[0]
        })
        .collect();
    let mut one_turn = vec![1; BULK_TURN as usize];
    one_turn.push(0);
    assert_eq!(order, one_turn.repeat(2));
}

/// The numbers of documents of the requests, and why the batches leave that a free worker takes after `waited`.
#[track_caller]
fn check_reasons(rule: BatchRule, requests: &[usize], waited: Duration, reasons: &[LeaveReason]) {
    let t0 = Instant::now();
    let requests = requests.iter().enumerate();
    let mut batcher = batcher(requests.map(|(name, &docs)| fake(name, docs, rule, t0)));
    let mut seen = Vec::new();
    while let Next::Call(_, reason) = batcher.next(t0 + waited) {
        seen.push(reason);
    }
    assert_eq!(seen, reasons);
}

#[test]
fn a_batch_says_why_it_leaves() {
    use LeaveReason::{Alone, Full, Idle, Rest, Timeout};
    let together = |wait_max, fit| rule(4, wait_max, fit);
    check_reasons(BatchRule::Alone, &[1, 1], ms(0), &[Alone, Alone]);
    check_reasons(together(ms(0), Fit::Requests), &[1], ms(9), &[Idle]);
    check_reasons(
        together(ms(0), Fit::Requests),
        &[3, 1, 1],
        ms(0),
        &[Full, Idle],
    );
    check_reasons(together(ms(5), Fit::Requests), &[3, 1, 1], ms(4), &[Full]);
    check_reasons(
        together(ms(5), Fit::Requests),
        &[3, 1, 1],
        ms(5),
        &[Full, Timeout],
    );
    check_reasons(
        together(ms(5), Fit::Exact),
        &[9],
        ms(0),
        &[Full, Rest, Rest],
    );
}
