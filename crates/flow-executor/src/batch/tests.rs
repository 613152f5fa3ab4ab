use super::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Fake {
    name: usize,
    docs: usize,
    kind: char,
    arrived: Instant,
    abandoned: bool,
}

impl Waiting for Fake {
    fn docs(&self) -> usize {
        self.docs
    }

    fn arrived(&self) -> Instant {
        self.arrived
    }

    fn is_like(&self, other: &Self) -> bool {
        self.kind == other.kind
    }

    fn is_abandoned(&self, _: Instant) -> bool {
        self.abandoned
    }
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

fn limits(docs_max: usize, wait_max: Duration) -> Batching {
    Batching {
        docs_max: NonZeroUsize::new(docs_max).unwrap(),
        wait_max,
    }
}

fn fake(name: usize, docs: usize, arrived: Instant) -> Fake {
    Fake {
        name,
        docs,
        kind: 'a',
        arrived,
        abandoned: false,
    }
}

fn called(next: Next<Fake>) -> Vec<usize> {
    match next {
        Next::Call(batch) => batch.iter().map(|request| request.name).collect(),
        other => panic!("no call but {other:?}"),
    }
}

/// Requests with so many documents each; batches with so many documents each, when all are waiting.
#[track_caller]
fn check(docs_max: usize, requests: &[usize], batches: &[usize]) {
    let now = Instant::now();
    let mut batcher = Batcher::new(limits(docs_max, Duration::ZERO));
    for (name, docs) in requests.iter().enumerate() {
        batcher.push(fake(name, *docs, now));
    }
    let mut seen = Vec::new();
    while let Next::Call(batch) = batcher.next(now) {
        seen.push(batch.iter().map(|request| request.docs).sum::<usize>());
    }
    assert_eq!(seen, batches);
    assert_eq!(batcher.len(), 0);
}

#[test]
fn a_batch_closes_at_exactly_docs_max() {
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
fn nothing_waits_unless_asked_to() {
    let now = Instant::now();
    let mut batcher = Batcher::new(limits(8, Duration::ZERO));
    batcher.push(fake(1, 1, now));
    assert_eq!(called(batcher.next(now)), [1]);
    assert_eq!(batcher.next(now), Next::Idle);
}

#[test]
fn a_lone_request_leaves_after_wait_max() {
    let t0 = Instant::now();
    let mut batcher = Batcher::new(limits(8, ms(5)));
    batcher.push(fake(1, 1, t0));
    assert_eq!(batcher.next(t0 + ms(4)), Next::WaitUntil(t0 + ms(5)));
    assert_eq!(called(batcher.next(t0 + ms(5))), [1]);
}

#[test]
fn a_full_batch_does_not_wait() {
    let t0 = Instant::now();
    let mut batcher = Batcher::new(limits(8, ms(5)));
    batcher.push(fake(1, 4, t0));
    assert_eq!(batcher.next(t0), Next::WaitUntil(t0 + ms(5)));
    batcher.push(fake(2, 4, t0 + ms(1)));
    assert_eq!(called(batcher.next(t0 + ms(1))), [1, 2]);
}

#[test]
fn a_batch_leaves_when_the_next_request_does_not_fit() {
    let t0 = Instant::now();
    let mut batcher = Batcher::new(limits(8, ms(5)));
    batcher.push(fake(1, 7, t0));
    batcher.push(fake(2, 2, t0));
    assert_eq!(called(batcher.next(t0)), [1]);
    assert_eq!(batcher.next(t0), Next::WaitUntil(t0 + ms(5)));
}

#[test]
fn requests_that_differ_do_not_share_a_call_and_the_oldest_goes_first() {
    let now = Instant::now();
    let mut batcher = Batcher::new(limits(8, Duration::ZERO));
    for (name, kind) in [(1, 'a'), (2, 'b'), (3, 'a'), (4, 'b')] {
        batcher.push(Fake {
            kind,
            ..fake(name, 1, now)
        });
    }
    assert_eq!(called(batcher.next(now)), [1, 3]);
    assert_eq!(called(batcher.next(now)), [2, 4]);
}

#[test]
fn nobody_calls_for_a_caller_who_has_gone() {
    let now = Instant::now();
    let mut batcher = Batcher::new(limits(8, Duration::ZERO));
    batcher.push(Fake {
        abandoned: true,
        ..fake(1, 1, now)
    });
    assert_eq!(batcher.next(now), Next::Idle);
    batcher.push(Fake {
        abandoned: true,
        ..fake(2, 1, now)
    });
    batcher.push(fake(3, 1, now));
    assert_eq!(called(batcher.next(now)), [3]);
}
