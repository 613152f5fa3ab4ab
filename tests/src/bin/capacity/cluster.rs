//! A cluster under a simulated clock: gateways, the executors that they share, and clients.
//!
//! Which replica gets a request, and which requests share a call, is decided by the code of gateways and executors:
//! [`Pool`] and [`SimulatedQueue`]. What takes time is simulated: the CPUs of gateways, and the network on which they send
//! replies, are queues, and a call of an executor takes the time that its requests and documents cost.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_executor::testing::SimulatedQueue;
use flow_net::retry::Policy;
use flow_net::{Lease, Limits, Metadata, Pool, Replica};

use crate::costs::Costs;
use crate::random::Random;
use crate::traffic::{Answer, Calls, Seen, Traffic, float};

/// After this time without work, the next call of an executor takes longer.
const IDLE: Duration = Duration::from_millis(1);

/// What a cluster consists of.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) gateways: usize,
    /// Threads of a gateway, each of which has a core.
    pub(crate) gateway_threads: usize,
    pub(crate) executors: usize,
    /// Bytes that a gateway can send in a second; `None` if its network never is the limit.
    pub(crate) gateway_bytes_per_s: Option<f64>,
}

/// What came of a simulation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Outcome {
    pub(crate) seen: Seen,
    /// The part of the time in which each of them worked, from 0 to 1.
    pub(crate) executors_busy: f64,
    pub(crate) gateways_busy: f64,
    pub(crate) networks_busy: f64,
    /// The mean time that a choice of a replica took here.
    pub(crate) choice: Duration,
    /// Requests that had a replica when the run ended.
    #[cfg(test)]
    pub(crate) leased: usize,
}

/// Where a request goes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// A client sends a request to this gateway.
    Sends(usize),
    /// A request or its reply reaches the gateway.
    AtGateway(usize),
    /// A thread of the gateway is done with it.
    LeavesGateway(usize),
    AtExecutor(usize),
    /// The call of this executor ends.
    CallEnds(usize),
    /// The gateway's network has sent the reply.
    LeavesNetwork(usize),
    Answered(usize),
}

#[derive(Debug)]
struct Request {
    sent: Instant,
    documents: usize,
    gateway: usize,
    executor: usize,
    lease: Option<Lease>,
    is_reply: bool,
}

#[derive(Debug)]
struct Gateway {
    pool: Pool,
    /// Threads that work.
    working: usize,
    waiting: VecDeque<usize>,
    is_sending: bool,
    to_send: VecDeque<usize>,
}

#[derive(Debug)]
struct Executor {
    queue: SimulatedQueue<usize>,
    running: Vec<usize>,
    idle_since: Instant,
}

struct Simulation<'s> {
    shape: Shape,
    costs: &'s Costs,
    traffic: Traffic,
    random: Random,
    began: Instant,
    now: Instant,
    events: BinaryHeap<Reverse<(Instant, u64, Event)>>,
    /// Events so far, so that those of one time happen in the order in which they were made.
    made: u64,
    gateways: Vec<Gateway>,
    executors: Vec<Executor>,
    requests: Vec<Request>,
    answers: Vec<Answer>,
    calls_us: f64,
    gateways_us: f64,
    networks_us: f64,
    choices: Duration,
    leases: u32,
}

/// Simulates a cluster under this load. Needs a runtime of tokio, which the replicas of a pool expect.
pub(crate) fn simulate(shape: Shape, costs: &Costs, traffic: Traffic, seed: u64) -> Outcome {
    let mut simulation = Simulation::new(shape, costs, traffic, seed);
    let callers = match traffic.calls {
        Calls::PerSecond(_) => 1,
        Calls::Callers(callers) => callers,
    };
    for caller in 0..callers {
        // Callers begin one after another, during a twentieth of the run.
        let after = traffic.begins(caller, callers).as_secs_f64() * 1e6;
        simulation.after(after, Event::Sends(caller % shape.gateways));
    }
    while let Some(Reverse((now, _, event))) = simulation.events.pop() {
        simulation.now = now;
        if now - simulation.began > traffic.length {
            break;
        }
        simulation.handle(event);
    }
    simulation.outcome()
}

impl<'s> Simulation<'s> {
    fn new(shape: Shape, costs: &'s Costs, traffic: Traffic, seed: u64) -> Self {
        let began = Instant::now();
        let batch = NonZeroUsize::new(costs.batch).expect("a batch has documents");
        let replicas = || {
            let replica = |number| {
                Replica::new(&format!("http://executor:{number}"), Limits::default())
                    .expect("it is a URI")
            };
            (0..shape.executors)
                .map(|it| Arc::new(replica(it)))
                .collect()
        };
        let mut random = Random::new(seed);
        let gateway = |_| Gateway {
            pool: Pool::new(replicas(), Policy::default(), Metadata::new())
                .with_first_turn(random.below(shape.executors)),
            working: 0,
            waiting: VecDeque::new(),
            is_sending: false,
            to_send: VecDeque::new(),
        };
        let executor = |_| Executor {
            queue: SimulatedQueue::new(batch),
            running: Vec::new(),
            idle_since: began,
        };
        let gateways = (0..shape.gateways).map(gateway).collect();
        Self {
            shape,
            costs,
            traffic,
            random,
            began,
            now: began,
            events: BinaryHeap::new(),
            made: 0,
            gateways,
            executors: (0..shape.executors).map(executor).collect(),
            requests: Vec::new(),
            answers: Vec::new(),
            calls_us: 0.0,
            gateways_us: 0.0,
            networks_us: 0.0,
            choices: Duration::ZERO,
            leases: 0,
        }
    }

    fn after(&mut self, us: f64, event: Event) {
        self.made += 1;
        let at = self.now + Duration::from_secs_f64(us / 1e6);
        self.events.push(Reverse((at, self.made, event)));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Sends(gateway) => self.send(gateway),
            Event::AtGateway(request) => {
                let gateway = self.requests[request].gateway;
                self.gateways[gateway].waiting.push_back(request);
                self.work(gateway);
            }
            Event::LeavesGateway(request) => self.leave_gateway(request),
            Event::AtExecutor(request) => {
                let Request {
                    executor,
                    documents,
                    ..
                } = self.requests[request];
                let queue = &mut self.executors[executor].queue;
                queue.push(request, documents, self.now);
                self.call(executor);
            }
            Event::CallEnds(executor) => self.end_call(executor),
            Event::LeavesNetwork(request) => {
                let gateway = self.requests[request].gateway;
                self.gateways[gateway].is_sending = false;
                self.after(self.hop_us(), Event::Answered(request));
                self.send_replies(gateway);
            }
            Event::Answered(request) => self.answer(request),
        }
    }

    /// A quarter of the overhead: client to gateway, gateway to executor, and back.
    fn hop_us(&self) -> f64 {
        self.costs.overhead_us / 4.0
    }

    /// The part of a time, beginning now, that is within the run.
    fn within_run(&self, us: f64) -> f64 {
        let left = self.traffic.length.saturating_sub(self.now - self.began);
        us.min(left.as_secs_f64() * 1e6)
    }

    fn send(&mut self, gateway: usize) {
        let number = self.requests.len();
        if let Calls::PerSecond(rate) = self.traffic.calls {
            let next = self.random.until_next(rate) * 1e6;
            let other = self.random.below(self.shape.gateways);
            self.after(next, Event::Sends(other));
        }
        self.requests.push(Request {
            sent: self.now,
            documents: self.traffic.sizes.next(&mut self.random),
            gateway,
            executor: 0,
            lease: None,
            is_reply: false,
        });
        self.after(self.hop_us(), Event::AtGateway(number));
    }

    /// Gives work to the threads of a gateway. A request and its reply cost half of what both cost.
    fn work(&mut self, gateway: usize) {
        while self.gateways[gateway].working < self.shape.gateway_threads
            && let Some(request) = self.gateways[gateway].waiting.pop_front()
        {
            let documents = float(self.requests[request].documents);
            let us = self.costs.gateway.us(documents) / 2.0;
            // A thread takes the reply.
            if let Some(lease) = self.requests[request].lease.take() {
                self.gateways[gateway].pool.answered(lease, self.now);
            }
            self.gateways[gateway].working += 1;
            self.gateways_us += self.within_run(us);
            self.after(us, Event::LeavesGateway(request));
        }
    }

    fn leave_gateway(&mut self, request: usize) {
        let gateway = self.requests[request].gateway;
        self.gateways[gateway].working -= 1;
        if self.requests[request].is_reply {
            self.gateways[gateway].to_send.push_back(request);
            self.send_replies(gateway);
        } else {
            self.lease(request);
            self.after(self.hop_us(), Event::AtExecutor(request));
        }
        self.work(gateway);
    }

    fn lease(&mut self, request: usize) {
        let gateway = self.requests[request].gateway;
        let started = Instant::now();
        let lease = self.gateways[gateway].pool.lease(self.now);
        self.choices += started.elapsed();
        self.leases += 1;
        let lease = lease.expect("a cluster has executors");
        let port = lease.replica().uri().rsplit(':').next();
        let executor = port.and_then(|port| port.parse().ok());
        self.requests[request].executor = executor.expect("its port is its number");
        self.requests[request].lease = Some(lease);
    }

    /// Begins a call of an executor that is idle, if something waits.
    fn call(&mut self, executor: usize) {
        let it = &mut self.executors[executor];
        if !it.running.is_empty() {
            return;
        }
        it.running = it.queue.next_call(self.now);
        if it.running.is_empty() {
            return;
        }
        let documents = it.running.iter().map(|it| self.requests[*it].documents);
        let mut us = self.costs.call_us(it.running.len(), documents.sum());
        if self.now - it.idle_since >= IDLE {
            us += self.costs.after_idle_us;
        }
        self.calls_us += self.within_run(us);
        self.after(us, Event::CallEnds(executor));
    }

    fn end_call(&mut self, executor: usize) {
        self.executors[executor].idle_since = self.now;
        for request in std::mem::take(&mut self.executors[executor].running) {
            self.requests[request].is_reply = true;
            self.after(self.hop_us(), Event::AtGateway(request));
        }
        self.call(executor);
    }

    fn send_replies(&mut self, gateway: usize) {
        let it = &mut self.gateways[gateway];
        if it.is_sending {
            return;
        }
        let Some(request) = it.to_send.pop_front() else {
            return;
        };
        it.is_sending = true;
        let bytes = float(self.requests[request].documents) * self.costs.document_bytes;
        let us = self
            .shape
            .gateway_bytes_per_s
            .map_or(0.0, |rate| bytes / rate * 1e6);
        self.networks_us += self.within_run(us);
        self.after(us, Event::LeavesNetwork(request));
    }

    fn answer(&mut self, request: usize) {
        let Request {
            sent,
            documents,
            gateway,
            ..
        } = self.requests[request];
        self.answers.push(Answer {
            sent: sent - self.began,
            answered: self.now - self.began,
            documents,
        });
        if let Calls::Callers(_) = self.traffic.calls {
            self.send(gateway);
        }
    }

    fn outcome(self) -> Outcome {
        let us = self.traffic.length.as_secs_f64() * 1e6;
        let gateways = float(self.shape.gateways);
        let gateway_threads = gateways * float(self.shape.gateway_threads);
        Outcome {
            seen: Seen::of(&self.answers, self.traffic.length),
            executors_busy: self.calls_us / (us * float(self.shape.executors)),
            gateways_busy: self.gateways_us / (us * gateway_threads),
            networks_busy: self.networks_us / (us * gateways),
            choice: self.choices / self.leases.max(1),
            #[cfg(test)]
            leased: self.requests.iter().filter(|it| it.lease.is_some()).count(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::costs::Cost;
    use crate::traffic::Sizes;

    const COSTS: Costs = Costs {
        call: Cost {
            fixed_us: 2000.0,
            document_us: 500.0,
        },
        gateway: Cost {
            fixed_us: 40.0,
            document_us: 1.0,
        },
        request_us: 0.0,
        after_idle_us: 0.0,
        overhead_us: 200.0,
        batch: 32,
        document_bytes: 2000.0,
    };

    const SHAPE: Shape = Shape {
        gateways: 1,
        gateway_threads: 2,
        executors: 4,
        gateway_bytes_per_s: None,
    };

    fn simulated(shape: Shape, calls: Calls, documents: usize) -> Outcome {
        let traffic = Traffic {
            calls,
            sizes: Sizes::of(documents),
            length: Duration::from_secs(4),
        };
        simulate(shape, &COSTS, traffic, 1)
    }

    fn is_near(value: f64, expected: f64, part: f64) -> bool {
        (value / expected - 1.0).abs() < part
    }

    #[tokio::test]
    async fn a_single_caller_waits_for_all_that_a_request_costs_and_nothing_else() {
        let seen = simulated(SHAPE, Calls::Callers(1), 4).seen;
        let ms = (2000.0 + 4.0 * 500.0 + 44.0 + 200.0) / 1000.0;
        assert!(
            is_near(seen.p50_ms, ms, 0.001) && is_near(seen.p99_ms, ms, 0.001),
            "{seen:?}"
        );
        assert!(is_near(seen.requests_per_s, 1000.0 / ms, 0.01), "{seen:?}");
    }

    #[tokio::test]
    async fn with_many_callers_executors_do_as_much_as_full_calls_can() {
        let outcome = simulated(SHAPE, Calls::Callers(512), 1);
        let most = 4.0 * 32.0 / COSTS.call.us(32.0) * 1e6;
        assert!(
            is_near(outcome.seen.documents_per_s, most, 0.02),
            "{outcome:?}"
        );
        assert!(outcome.executors_busy > 0.98, "{outcome:?}");
    }

    #[tokio::test]
    async fn a_replica_is_given_back_with_the_reply() {
        let outcome = simulated(SHAPE, Calls::Callers(8), 1);
        assert!(outcome.leased <= 8, "{outcome:?}");
    }

    #[tokio::test]
    async fn a_call_after_a_pause_takes_longer() {
        let costs = Costs {
            after_idle_us: 5000.0,
            ..COSTS
        };
        let traffic = Traffic {
            calls: Calls::PerSecond(20.0),
            sizes: Sizes::of(1),
            length: Duration::from_secs(4),
        };
        let [without, with] =
            [&COSTS, &costs].map(|it| simulate(SHAPE, it, traffic, 1).seen.p50_ms);
        assert!(is_near(with, without + 5.0, 0.01), "{with}, {without}");
    }

    #[tokio::test]
    async fn poisson_arrivals_are_all_answered_while_there_is_capacity() {
        let outcome = simulated(SHAPE, Calls::PerSecond(1000.0), 1);
        assert!(
            is_near(outcome.seen.requests_per_s, 1000.0, 0.06),
            "{outcome:?}"
        );
        assert!(outcome.executors_busy < 0.98, "{outcome:?}");
    }

    #[tokio::test]
    async fn the_network_of_a_gateway_can_be_the_limit() {
        let narrow = Shape {
            gateway_bytes_per_s: Some(1e6),
            ..SHAPE
        };
        let outcome = simulated(narrow, Calls::Callers(512), 1);
        assert!(
            is_near(outcome.seen.documents_per_s, 500.0, 0.02),
            "{outcome:?}"
        );
        assert!(outcome.networks_busy > 0.98, "{outcome:?}");
    }

    #[tokio::test]
    async fn the_threads_of_a_gateway_can_be_the_limit_and_a_second_gateway_doubles_it() {
        let many = Shape {
            gateway_threads: 1,
            executors: 64,
            ..SHAPE
        };
        let rate = |gateways| {
            let shape = Shape { gateways, ..many };
            simulated(shape, Calls::Callers(4096), 1)
                .seen
                .requests_per_s
        };
        let one = rate(1);
        assert!(is_near(one, 1e6 / COSTS.gateway.us(1.0), 0.03), "{one}");
        let two = rate(2);
        assert!(is_near(two, 2.0 * one, 0.1), "{one}, {two}");
    }
}
