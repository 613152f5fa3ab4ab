//! Pools under a simulated clock: executors that batch, and callers.
//!
//! The pool is the real one. The executors are simulated: one worker takes everything that waits, up to a batch, and a batch
//! takes a fixed time and a time for each document. So response times depend on the load, as they do in an encoder.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::{Code, Failure};

use super::balance::count;
use super::{Lease, Pool};
use crate::replica::{Reached, Replica};
use crate::retry::Policy;
use crate::status::AttemptError;
use crate::{Limits, Metadata};

/// Documents that share one call of an executor.
const BATCH_MAX: usize = 32;
const BATCH_US: f64 = 8000.0;
const DOCUMENT_US: f64 = 1000.0;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
struct Scenario {
    seed: u64,
    replicas: usize,
    /// How many times as long the last replica takes, up to this time.
    slower: f64,
    slow_to: Duration,
    /// Until when the last replica fails each call, in a millisecond.
    fails_to: Duration,
    calls: Calls,
    requests: usize,
    /// When the last replica comes back, and how long it starts slowly.
    back_at: Option<Duration>,
    slow_start: Duration,
    /// Whether response times are considered.
    is_timed: bool,
}

/// Who calls.
#[derive(Debug, Clone, Copy)]
enum Calls {
    /// Requests arrive at random, at this rate per second.
    PerSecond(f64),
    /// So many callers, each of which sends the next request after the reply.
    Callers(usize),
}

#[derive(Debug, Default)]
struct Outcome {
    /// Requests that each replica answered.
    answered: Vec<usize>,
    failed: usize,
    response_times: Vec<Duration>,
    /// Replies of the last replica in each second after it came back, and of all replicas.
    after_return: Vec<[usize; 2]>,
    took: Duration,
}

#[derive(Debug)]
struct Request {
    lease: Lease,
    began: Instant,
    documents: usize,
}

#[derive(Debug, Default)]
struct Executor {
    waiting: VecDeque<Request>,
    running: Vec<Request>,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives,
    ComesBack,
    /// The batch of this replica is done.
    Done(usize),
}

struct Simulation {
    of: Scenario,
    pool: Pool,
    executors: Vec<Executor>,
    events: BinaryHeap<Reverse<(Instant, Event)>>,
    began: Instant,
    random: u64,
    sent: usize,
    outcome: Outcome,
}

impl Scenario {
    fn equal(seed: u64, replicas: usize, calls: Calls) -> Self {
        Self {
            seed,
            replicas,
            slower: 1.0,
            slow_to: Duration::MAX,
            fails_to: Duration::ZERO,
            calls,
            requests: 20_000,
            back_at: None,
            slow_start: Duration::ZERO,
            is_timed: true,
        }
    }

    fn one_slower(seed: u64, slower: f64, calls: Calls) -> Self {
        Self {
            slower,
            ..Self::equal(seed, 4, calls)
        }
    }

    fn without_times(self) -> Self {
        Self {
            is_timed: false,
            ..self
        }
    }

    fn run(self) -> Outcome {
        let mut simulation = Simulation::new(self);
        simulation.start();
        while let Some(Reverse((now, event))) = simulation.events.pop() {
            match event {
                Event::Arrives => simulation.arrive(now),
                Event::ComesBack => simulation.come_back(now),
                Event::Done(at) => simulation.end_batch(at, now),
            }
            simulation.outcome.took = now - simulation.began;
        }
        simulation.outcome.response_times.sort_unstable();
        simulation.outcome
    }
}

impl Simulation {
    fn new(of: Scenario) -> Self {
        let replica = |port| Replica::new(&format!("http://127.0.0.1:{port}"), Limits::default());
        let replicas = (1..=of.replicas).map(|port| Arc::new(replica(port).unwrap()));
        let executors = (0..of.replicas).map(|_| Executor::default()).collect();
        Self {
            pool: Pool::new(replicas.collect(), Policy::default(), Metadata::new())
                .with_slow_start(of.slow_start),
            executors,
            events: BinaryHeap::new(),
            began: Instant::now(),
            random: of.seed,
            sent: 0,
            outcome: Outcome {
                answered: vec![0; of.replicas],
                ..Outcome::default()
            },
            of,
        }
    }

    fn start(&mut self) {
        let callers = match self.of.calls {
            Calls::PerSecond(_) => 1,
            Calls::Callers(number) => number,
        };
        for _ in 0..callers {
            self.events.push(Reverse((self.began, Event::Arrives)));
        }
        let back = self.of.back_at.map(|after| self.began + after);
        self.events
            .extend(back.map(|at| Reverse((at, Event::ComesBack))));
    }

    fn come_back(&mut self, now: Instant) {
        let replicas = self.pool.replicas();
        let last = replicas.last().unwrap();
        last.record(Reached::No, now);
        last.record(Reached::Yes, now);
    }

    fn arrive(&mut self, now: Instant) {
        if self.sent == self.of.requests {
            return;
        }
        self.sent += 1;
        if let Calls::PerSecond(rate) = self.of.calls {
            let until_next = -(1.0 - self.random()).ln() / rate;
            let next = now + Duration::from_secs_f64(until_next);
            self.events.push(Reverse((next, Event::Arrives)));
        }
        let lease = self.pool.lease(now).unwrap();
        let at = usize::from(lease.replica().uri().chars().last().unwrap() as u8 - b'1');
        // One request in ten is large.
        let documents = if self.random() < 0.1 { 16 } else { 1 };
        self.executors[at].waiting.push_back(Request {
            lease,
            began: now,
            documents,
        });
        if self.executors[at].running.is_empty() {
            self.begin_batch(at, now);
        }
    }

    fn begin_batch(&mut self, at: usize, now: Instant) {
        let mut documents = 0;
        let executor = &mut self.executors[at];
        while let Some(next) = executor.waiting.front() {
            if documents > 0 && documents + next.documents > BATCH_MAX {
                break;
            }
            documents += next.documents;
            executor.running.extend(executor.waiting.pop_front());
        }
        if documents > 0 {
            let us = count(documents).mul_add(DOCUMENT_US, BATCH_US);
            let since = now - self.began;
            let is_slow = at + 1 == self.of.replicas && since < self.of.slow_to;
            let slower = if is_slow { self.of.slower } else { 1.0 };
            let jitter = 0.8 + 0.4 * self.random();
            let us = if self.fails(at, now) {
                1000.0
            } else {
                us * slower
            };
            let took = Duration::from_secs_f64(us * jitter / 1e6);
            self.events.push(Reverse((now + took, Event::Done(at))));
        }
    }

    fn fails(&self, at: usize, now: Instant) -> bool {
        at + 1 == self.of.replicas && now - self.began < self.of.fails_to
    }

    fn end_batch(&mut self, at: usize, now: Instant) {
        let error = self.fails(at, now).then(|| AttemptError {
            failure: Failure::new(Code::ExecutorFailed, "broken"),
            answered: true,
            pushback: None,
        });
        for mut request in std::mem::take(&mut self.executors[at].running) {
            if self.of.is_timed {
                self.pool.record(&mut request.lease, error.as_ref(), now);
            } else {
                request.lease.is_timed = true;
            }
            self.outcome.answered[at] += 1;
            self.outcome.failed += usize::from(error.is_some());
            self.count_after_return(at, now);
            self.outcome.response_times.push(now - request.began);
            if let Calls::Callers(_) = self.of.calls {
                self.events.push(Reverse((now, Event::Arrives)));
            }
        }
        self.begin_batch(at, now);
    }

    fn count_after_return(&mut self, at: usize, now: Instant) {
        let back = self.of.back_at.map(|after| self.began + after);
        let Some(since) = back.and_then(|back| now.checked_duration_since(back)) else {
            return;
        };
        let second = usize::try_from(since.as_secs()).unwrap();
        let seconds = &mut self.outcome.after_return;
        seconds.resize(seconds.len().max(second + 1), [0; 2]);
        seconds[second][0] += usize::from(at + 1 == self.of.replicas);
        seconds[second][1] += 1;
    }

    /// A number from 0 to 1 (splitmix64).
    fn random(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        fraction(usize::try_from(mixed >> 11).unwrap(), 1 << 53)
    }
}

impl Outcome {
    fn quantile(&self, per_mille: usize) -> Duration {
        self.response_times[(self.response_times.len() - 1) * per_mille / 1000]
    }

    fn mean(&self) -> Duration {
        self.response_times.iter().sum::<Duration>()
            / u32::try_from(self.response_times.len()).unwrap()
    }

    fn per_second(&self) -> f64 {
        count(self.response_times.len()) / self.took.as_secs_f64()
    }

    /// The largest number of requests of a replica, divided by the smallest.
    fn spread(&self) -> f64 {
        let most = self.answered.iter().max().unwrap();
        let fewest = self.answered.iter().min().unwrap();
        fraction(*most, *fewest)
    }
}

/// From nearly idle to more than the executors can do. Four replicas do about 1,200 requests in a second.
const LOADS: [Calls; 6] = [
    Calls::PerSecond(50.0),
    Calls::PerSecond(400.0),
    Calls::PerSecond(1100.0),
    Calls::Callers(4),
    Calls::Callers(32),
    Calls::Callers(256),
];

#[tokio::test]
async fn equal_replicas_that_batch_share_equally_and_do_as_much_as_without_response_times() {
    for (replicas, calls) in [2, 4].into_iter().flat_map(|n| LOADS.map(|it| (n, it))) {
        let scenario = Scenario::equal(1, replicas, calls);
        let (timed, before) = (scenario.run(), scenario.without_times().run());
        assert!(timed.spread() < 1.15, "{scenario:?}: {timed:?}");
        let ratio = timed.per_second() / before.per_second();
        assert!(ratio > 0.97, "{scenario:?}: {ratio}");
    }
}

/// Where queues are long and response times differ most by chance.
#[tokio::test]
async fn equal_replicas_near_their_limit_answer_as_soon_as_without_response_times() {
    let mean = |change: fn(Scenario) -> Scenario| {
        let scenarios = (1..9).map(|seed| Scenario::equal(seed, 4, Calls::PerSecond(1100.0)));
        let means = scenarios.map(|it| change(it).run().mean().as_secs_f64());
        means.sum::<f64>()
    };
    let ratio = mean(|it| it) / mean(Scenario::without_times);
    assert!(ratio < 1.05, "{ratio}");
}

#[tokio::test]
async fn a_slow_replica_does_not_decide_how_long_requests_take() {
    for calls in LOADS {
        let scenario = Scenario::one_slower(7, 10.0, calls);
        let (timed, before) = (scenario.run(), scenario.without_times().run());
        let p99 = |of: &Outcome| of.quantile(990).as_secs_f64();
        let (p99, p99_before) = (p99(&timed), p99(&before));
        // With more requests than the replicas can do, the slow one is needed, and the queues decide.
        let is_full = matches!(calls, Calls::PerSecond(1100.0) | Calls::Callers(256));
        let most = if is_full { 1.0 } else { 0.7 };
        assert!(p99 < p99_before * most, "{calls:?}: {p99} of {p99_before}");
        let ratio = timed.per_second() / before.per_second();
        assert!(ratio > 0.95, "{calls:?}: {ratio}");
    }
}

#[tokio::test]
async fn a_replica_that_is_no_longer_slow_gets_its_share_again() {
    let scenario = Scenario {
        slow_to: Duration::from_secs(20),
        ..Scenario::one_slower(3, 10.0, Calls::PerSecond(50.0))
    };
    let answered = scenario.run().answered;
    // Of 400 s it was slow for 20 s, and is tried every 2 s until five calls were quick.
    let share = fraction(answered[3], answered.iter().sum());
    assert!((0.22..0.26).contains(&share), "{answered:?}");
}

#[tokio::test]
async fn a_replica_that_fails_at_once_gets_few_requests_until_it_has_recovered() {
    for calls in [Calls::PerSecond(50.0), Calls::PerSecond(400.0)] {
        let broken = Scenario {
            fails_to: Duration::from_secs(20),
            ..Scenario::equal(9, 4, calls)
        };
        let outcome = broken.run();
        // Five show that it fails, and one every two seconds whether it has recovered.
        assert!(outcome.failed <= 20, "{calls:?}: {}", outcome.failed);
        let before = broken.without_times().run();
        assert!(before.failed > 200, "{calls:?}: {}", before.failed);
    }
    let recovered = Scenario {
        fails_to: Duration::from_secs(20),
        ..Scenario::equal(9, 4, Calls::PerSecond(50.0))
    };
    let answered = recovered.run().answered;
    let share = fraction(answered[3], answered.iter().sum());
    assert!((0.22..0.26).contains(&share), "{answered:?}");
}

#[tokio::test]
async fn a_replica_that_came_back_gets_more_and_more_requests() {
    // With more callers, all replicas are full when it comes back, and the first seconds go by with what it has.
    for calls in &LOADS[..5] {
        let calls = *calls;
        let scenario = Scenario {
            back_at: Some(Duration::from_secs(5)),
            slow_start: Duration::from_secs(10),
            ..Scenario::equal(5, 4, calls)
        };
        let outcome = scenario.run();
        // Relative to the share that it would get if all replicas were equal, which is 1.
        let share = |seconds: &[[usize; 2]]| {
            let sum = |of: usize| seconds.iter().map(|it| it[of]).sum::<usize>();
            4.0 * fraction(sum(0), sum(1))
        };
        let seconds = &outcome.after_return;
        let (first, later) = (share(&seconds[..3]), share(&seconds[10..12]));
        assert!(first < 0.8 && first < later, "{calls:?}: {first}, {later}");
        assert!((0.85..1.15).contains(&later), "{calls:?}: {later}");
    }
}

fn fraction(part: usize, of: usize) -> f64 {
    count(part) / count(of)
}
