//! Measures what requests cost on this machine, and compares what happens here with what the simulation says.

use std::time::Duration;

use tokio::runtime::Runtime;

use crate::cluster::{Shape, simulate};
use crate::costs::{Cost, Costs};
use crate::load::load;
use crate::machine::{Kind, Machine};
use crate::traffic::{Answer, Calls, Seen, Sizes, Traffic, float};

/// Numbers of a vector of the encoder.
const VECTOR: usize = 384;

/// Bytes of the tutorial's document with its vector, as a gateway sends it.
const DOCUMENT_BYTES: f64 = 1_680.0;

/// Callers that keep a gateway busy.
const CALLERS: usize = 64;

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
        let traffic = self.traffic(calls, sizes);
        load(self.runtime, urls, traffic, 1)
    }

    fn traffic(&self, calls: Calls, sizes: Sizes) -> Traffic {
        Traffic {
            calls,
            sizes,
            length: self.length,
        }
    }

    /// Measures the costs in `it`, then compares all loads of the setting.
    pub(crate) fn compare(&self, setting: &Setting) -> (Costs, Vec<Comparison>) {
        let machine = Machine::start(setting.kind, setting.executors, setting.gateways);
        let costs = self.costs(&machine, setting.batch);
        let shape = Shape {
            gateways: setting.gateways,
            gateway_threads: 1,
            executors: setting.executors,
            gateway_bytes_per_s: None,
        };
        let comparisons = setting.calls.iter().map(|calls| {
            let answers = self.load(&machine.gateways(), *calls, setting.sizes);
            let traffic = self.traffic(*calls, setting.sizes);
            Comparison {
                setting: setting.name,
                calls: *calls,
                measured: Seen::of(&answers, self.length),
                simulated: self
                    .runtime
                    .block_on(async { simulate(shape, &costs, traffic, 2).seen }),
            }
        });
        let comparisons = comparisons.collect();
        (costs, comparisons)
    }

    /// What requests cost on this machine.
    pub(crate) fn costs(&self, machine: &Machine, batch: usize) -> Costs {
        let numbers = [1, 8, 32];
        let call = self.call_cost(machine, &numbers);
        let gateway = self.gateway_cost(machine, 8);
        let alone = self.load(&machine.gateways(), Calls::Callers(1), Sizes::of(1));
        let alone_us = Seen::of(&alone, self.length).p50_ms * 1e3;
        Costs {
            call,
            gateway,
            rest_us: (alone_us - call.us(1.0) - gateway.us(1.0)).max(0.0),
            batch,
            document_bytes: 0.0,
        }
    }

    /// Two callers without a gateway keep an executor busy, and their requests never share a call: while one is in its call,
    /// the other waits. So a call takes as long as it takes from one reply to the next.
    fn call_cost(&self, machine: &Machine, numbers: &[usize]) -> Cost {
        let us = numbers.iter().map(|&documents| {
            let answers = self.load(&machine.executor(), Calls::Callers(2), Sizes::of(documents));
            let seen = Seen::of(&answers, self.length);
            (float(documents), 1e6 / seen.requests_per_s)
        });
        Cost::fit(&us.collect::<Vec<_>>())
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

    /// What requests cost on nodes like this machine: an encoder with all cores, and gateways that are busy.
    pub(crate) fn node_costs(&self, encoder: Kind, batch: usize) -> Costs {
        let executor_without_work = Kind::Timed {
            call_us: 0,
            document_us: 0,
            vector: VECTOR,
        };
        let gateway = self.gateway_cost(&Machine::start(executor_without_work, 1, 1), CALLERS);
        Costs {
            gateway,
            document_bytes: DOCUMENT_BYTES,
            ..self.costs(&Machine::start(encoder, 1, 1), batch)
        }
    }
}
