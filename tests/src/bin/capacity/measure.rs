//! Measures what requests cost on this machine, and compares what happens here with what the simulation says.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::cluster::{Shape, simulate};
use crate::costs::{Cost, Costs};
use crate::load::load;
use crate::machine::{Kind, Machine, core_count};
use crate::traffic::{Answer, Calls, Seen, Sizes, Traffic, float};

/// Numbers of a vector of the encoder.
const VECTOR: usize = 384;

/// Bytes of the tutorial's document with its vector, as a gateway sends it.
const DOCUMENT_BYTES: f64 = 1_680.0;

/// Callers with few requests in progress, and callers that keep a gateway busy.
const FEW: usize = 8;
const MANY: usize = 64;

/// A simulated load lasts this many times longer than the measured one, which reduces its sampling error.
const LONGER: u32 = 8;

/// Requests a second that find an executor without work.
const SELDOM: f64 = 50.0;

/// A setting in which measured and simulated figures are compared.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) executors: usize,
    pub(crate) gateways: usize,
    /// Documents of a call.
    pub(crate) batch: usize,
    pub(crate) sizes: Sizes,
    /// None of these is a load with which costs are measured.
    pub(crate) calls: Vec<Calls>,
}

/// One comparison.
#[derive(Debug)]
pub(crate) struct Comparison {
    pub(crate) setting: &'static str,
    pub(crate) calls: Calls,
    pub(crate) measured: Seen,
    pub(crate) simulated: Seen,
}

/// Measures on this machine for so long each.
pub(crate) struct Measurement<'r> {
    pub(crate) runtime: &'r Runtime,
    pub(crate) length: Duration,
}

impl Measurement<'_> {
    fn load(&self, urls: &[String], calls: Calls, sizes: Sizes) -> Vec<Answer> {
        load(self.runtime, urls, self.traffic(calls, sizes), 1)
    }

    fn traffic(&self, calls: Calls, sizes: Sizes) -> Traffic {
        Traffic {
            calls,
            sizes,
            length: self.length,
        }
    }

    /// Measures the costs in a setting, then compares all of its loads. Gives each comparison to `take` at once.
    pub(crate) fn compare(&self, setting: &Setting, mut take: impl FnMut(&Comparison)) -> Costs {
        let Setting {
            kind,
            executors,
            gateways,
            ..
        } = *setting;
        let machine = Machine::start(kind, executors, gateways);
        let gateway = self.gateway_cost(&machine, FEW);
        let costs = self.costs(&machine, setting.batch, gateway);
        let shape = Shape {
            gateways,
            gateway_threads: core_count(),
            executors,
            gateway_bytes_per_s: None,
        };
        for calls in setting.calls.iter().copied() {
            let answers = self.load(&machine.gateways(), calls, setting.sizes);
            let traffic = Traffic {
                length: self.length * LONGER,
                ..self.traffic(calls, setting.sizes)
            };
            let simulated = async { simulate(shape, &costs, traffic, 2).seen };
            take(&Comparison {
                setting: setting.name,
                calls,
                measured: Seen::of(&answers, self.length),
                simulated: self.runtime.block_on(simulated),
            });
        }
        costs
    }

    /// What requests cost on this machine, with gateways that need this CPU time.
    fn costs(&self, machine: &Machine, batch: usize, gateway: Cost) -> Costs {
        let call = self.call_cost(machine);
        let alone = self.load(&machine.gateways(), Calls::Callers(1), Sizes::of(1));
        let alone_us = Seen::of(&alone, self.length).p50_ms * 1e3;
        let overhead_us = alone_us - call.us(1.0) - gateway.us(1.0);
        assert!(
            overhead_us > 0.0,
            "a request takes {alone_us} us, less than {call:?} and {gateway:?}"
        );
        Costs {
            call,
            request_us: self.request_cost(machine, call, batch),
            after_idle_us: self.after_idle_cost(machine),
            gateway,
            overhead_us,
            batch,
            document_bytes: DOCUMENT_BYTES,
        }
    }

    /// Two callers without a gateway keep an executor busy. The second begins while a request of the first is in its call, so
    /// they do not share calls, and a call takes as long as it takes from one reply to the next.
    fn call_cost(&self, machine: &Machine) -> Cost {
        let us = [1, 8, 32].map(|documents| {
            let answers = self.load(&machine.executor(), Calls::Callers(2), Sizes::of(documents));
            let seen = Seen::of(&answers, self.length);
            (float(documents), 1e6 / seen.requests_per_s)
        });
        Cost::fit(&us)
    }

    /// What a further request in a call costs besides its document. Half of many callers wait while a call serves the others.
    fn request_cost(&self, machine: &Machine, call: Cost, batch: usize) -> f64 {
        let answers = self.load(&machine.executor(), Calls::Callers(MANY), Sizes::of(1));
        let seen = Seen::of(&answers, self.length);
        let requests = float(batch.min(MANY / 2));
        let call_us = 1e6 * requests / seen.requests_per_s;
        ((call_us - call.us(requests)) / (requests - 1.0)).max(0.0)
    }

    /// How much longer a call takes if its executor had nothing to do before: other programs have taken its place in the caches.
    fn after_idle_cost(&self, machine: &Machine) -> f64 {
        let p50_us = |calls| {
            let answers = self.load(&machine.executor(), calls, Sizes::of(1));
            Seen::of(&answers, self.length).p50_ms * 1e3
        };
        (p50_us(Calls::PerSecond(SELDOM)) - p50_us(Calls::Callers(1))).max(0.0)
    }

    /// The CPU time of the gateways for a request. With many callers it is smaller, because a thread that wakes up finds several
    /// requests.
    fn gateway_cost(&self, machine: &Machine, callers: usize) -> Cost {
        let us = [1, 32].map(|documents| {
            let before = machine.gateways_cpu();
            let calls = Calls::Callers(callers);
            let answers = self.load(&machine.gateways(), calls, Sizes::of(documents));
            let cpu = machine.gateways_cpu() - before;
            (
                float(documents),
                cpu.as_secs_f64() * 1e6 / float(answers.len()),
            )
        });
        Cost::fit(&us)
    }

    /// What requests cost on nodes like this machine: an encoder with these threads, and gateways that are busy.
    pub(crate) fn node_costs(&self, threads: usize, batch: usize) -> Costs {
        let idle = Machine::start(IDLE, 1, 1);
        let gateway = self.gateway_cost(&idle, MANY);
        drop(idle);
        let node = Machine::start(Kind::Encoder { threads }, 1, 1);
        self.costs(&node, batch, gateway)
    }
}

/// An executor that only adds vectors.
const IDLE: Kind = Kind::Timed {
    call_us: 0,
    document_us: 0,
    vector: VECTOR,
};
