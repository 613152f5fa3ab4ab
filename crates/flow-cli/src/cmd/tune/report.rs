//! What was measured, as a table, and as comments of the flow file that won.

use std::fmt::Write;
use std::num::NonZeroUsize;

use serde_json::Value;

use super::candidate::Candidate;
use super::choice::{Bars, Measurement};
use super::trial::Load;
use crate::output::Painter;
use crate::table::Table;

/// A row for each candidate.
pub(super) fn table(measured: &[(Candidate, Measurement)], painter: Painter) -> String {
    let head = [
        "precision",
        "replicas × threads",
        "batch tokens",
        "texts/s",
        "p50 ms",
        "p99 ms",
        "lowest cosine",
    ];
    let table = Table {
        head: Some(head.map(str::to_owned).to_vec()),
        rows: measured.iter().map(row).collect(),
    };
    table.text(painter, None)
}

fn row((candidate, measured): &(Candidate, Measurement)) -> Vec<String> {
    let colocated = if candidate.colocate {
        ", colocated"
    } else {
        ""
    };
    vec![
        candidate.precision.to_owned(),
        format!("{} × {}{colocated}", candidate.replicas, candidate.threads),
        candidate.batch_tokens.to_string(),
        format!("{:.0}", measured.rate),
        format!("{:.1}", measured.p50.as_secs_f64() * 1e3),
        format!("{:.1}", measured.p99.as_secs_f64() * 1e3),
        format!("{:.6}", measured.cosine),
    ]
}

/// What `flow tune` tried, and on what.
#[derive(Debug, Clone, Copy)]
pub(super) struct TuneRun<'a> {
    pub(super) model: &'a str,
    /// Of this machine.
    pub(super) cores: NonZeroUsize,
    pub(super) load: &'a Load,
    pub(super) bars: Bars,
    pub(super) measured: &'a [(Candidate, Measurement)],
}

/// A flow file with the best candidate, and with the figures that decided as comments.
pub(super) fn flow_file(
    best: Candidate,
    TuneRun {
        model,
        cores,
        load,
        bars,
        measured,
    }: TuneRun<'_>,
) -> String {
    let each = match load.request_size.get() {
        1 => "1 text".to_owned(),
        more => format!("{more} texts"),
    };
    let mut text = format!(
        "# Chosen by `flow tune` on {cores} cores, with {} requests of {each} in progress; the lowest cosine has to be\n# {}",
        load.concurrency, bars.cosine
    );
    if let Some(p99) = bars.p99 {
        text += &format!(
            ", and 99 of 100 requests have to end within {}",
            humantime::format_duration(p99)
        );
    }
    text += ".\n#\n";
    for line in table(measured, Painter::off()).lines() {
        // Writing to a String cannot fail.
        let _infallible = writeln!(text, "#{}", line.trim_end());
    }
    text += "jtype: Flow\nwith:\n  port: 54321\nexecutors:\n  - name: encoder\n    uses: sentence-encoder\n    uses_with:\n";
    for (key, value) in best.uses_with(model, cores.get()) {
        // A string in JSON is one in YAML.
        let value = match value {
            Value::String(text) if text == best.precision => text,
            other => other.to_string(),
        };
        let _infallible = writeln!(text, "      {key}: {value}");
    }
    if best.replicas != 1 {
        let _infallible = writeln!(text, "    replicas: {}", best.replicas);
    }
    if best.colocate {
        text += "    colocate: true\n";
    }
    text
}
