//! The loads, and one run of the load generator.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::bench::ours;
use crate::bench::report::Report;
use crate::bench::servers::requests::{self, Protocol};
use crate::shell;
use crate::statistics::quantile;

/// A way to send the texts of a corpus.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) name: &'static str,
    texts_per_request: usize,
    concurrent: usize,
    /// Texts that are sent at least once.
    texts: usize,
}

pub(super) const BULK: Load = Load {
    name: "32 texts, 8 at a time",
    texts_per_request: 32,
    concurrent: 8,
    texts: 2048,
};

pub(super) const SINGLE: Load = Load {
    name: "1 text, 1 at a time",
    texts_per_request: 1,
    concurrent: 1,
    texts: 256,
};

pub(super) const MANY: Load = Load {
    name: "1 text, 64 at a time",
    texts_per_request: 1,
    concurrent: 64,
    texts: 2048,
};

pub(super) const LOADS: [&Load; 3] = [&BULK, &SINGLE, &MANY];

/// Most texts that a load needs.
pub(super) const TEXTS: usize = 2048;

/// Seconds of each run, and of one that warms up. A run ends when all texts were sent equally often.
pub(super) const SECONDS: u32 = 5;
pub(super) const WARM_UP_SECONDS: u32 = 1;

impl Load {
    /// Writes the bodies of a corpus, and returns where they are.
    pub(super) fn write(
        &self,
        (corpus, texts): (&str, &[String]),
        protocol: Protocol,
        report: &Report,
    ) -> anyhow::Result<PathBuf> {
        let name = format!(
            "servers-{corpus}-{}-{}-{}",
            protocol.name(),
            self.texts_per_request,
            self.concurrent
        );
        let path = report.scratch(&name);
        let texts = &texts[..self.texts.min(texts.len())];
        let requests = texts.chunks(self.texts_per_request);
        requests::write(&path, requests.map(|texts| protocol.body(texts)))?;
        Ok(path)
    }

    /// Sends bodies to a server until this many seconds are over.
    pub(super) fn run(
        &self,
        protocol: Protocol,
        port: u16,
        bodies: &Path,
        seconds: u32,
    ) -> anyhow::Result<Figures> {
        let mut command = generator("run", protocol, port, bodies);
        command.args([self.concurrent.to_string(), seconds.to_string()]);
        let line = shell::output(&mut command)?;
        Figures::of(&serde_json::from_str(&line)?, self.texts_per_request)
    }
}

/// Sends each body once, and returns the replies.
pub(super) fn ask(
    protocol: Protocol,
    port: u16,
    bodies: &Path,
    report: &Report,
) -> anyhow::Result<Vec<Vec<u8>>> {
    let replies = report.scratch("servers-replies");
    shell::output(generator("ask", protocol, port, bodies).arg(&replies))?;
    requests::read(&replies)
}

fn generator(what: &str, protocol: Protocol, port: u16, bodies: &Path) -> std::process::Command {
    let mut command = ours::program("bare-load");
    command.args([what, protocol.name(), &protocol.url(port)]);
    command.arg(bodies);
    command
}

/// What a run says about a server.
#[derive(Debug, PartialEq)]
pub(super) struct Figures {
    pub(super) texts_per_s: f64,
    /// Milliseconds of a request.
    pub(super) p50: f64,
    pub(super) p99: f64,
}

impl Figures {
    fn of(line: &Value, texts_per_request: usize) -> anyhow::Result<Self> {
        let seconds = line["seconds"].as_f64().context("no `seconds`")?;
        let times = line["times_ms"].as_array().context("no `times_ms`")?;
        let mut times: Vec<f64> = times.iter().filter_map(Value::as_f64).collect();
        ensure!(!times.is_empty(), "no request was sent");
        times.sort_by(f64::total_cmp);
        Ok(Self {
            texts_per_s: (times.len() * texts_per_request) as f64 / seconds,
            p50: quantile(&times, 0.5),
            p99: quantile(&times, 0.99),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_run_gives_a_rate_and_two_quantiles() {
        let times: Vec<u32> = (1..=100).rev().collect();
        let line = json!({ "seconds": 2.0, "times_ms": times });
        let figures = Figures::of(&line, 32).expect("figures");
        let expected = Figures {
            texts_per_s: 1600.0,
            p50: 50.0,
            p99: 99.0,
        };
        assert_eq!(figures, expected);
        assert!(Figures::of(&json!({ "seconds": 2.0, "times_ms": [] }), 1).is_err());
    }

    #[test]
    fn each_request_of_a_load_is_full() {
        for load in LOADS {
            assert!(load.texts <= TEXTS);
            assert_eq!(load.texts % load.texts_per_request, 0, "{}", load.name);
        }
    }
}
