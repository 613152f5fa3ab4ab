//! The limits that a run must meet. Pure, so that each limit can be tested at its edge.

use std::fmt::Write;

use crate::soak::records::{Records, Sample};

/// Seconds of warm-up before growth counts, in runs that are long enough.
const WARM_UP_S: f64 = 600.0;

/// Memory is judged in runs of at least this many seconds; shorter ones are part of the warm-up.
const MEMORY_JUDGED_S: f64 = 1200.0;

/// The part of a run, or of what follows the warm-up, at whose start and end values are compared.
const WINDOW_PART: f64 = 0.1;

/// Growth that is allowed.
const GROWTH: f64 = 1.05;

/// The 99th percentile of unaffected requests, as a multiple of that before the first fault.
const P99_RATIO: f64 = 2.0;

/// Milliseconds below which a 99th percentile is noise of the machine's scheduler.
const P99_FLOOR_MS: f64 = 20.0;

/// What is compared: its name, its place among a sample's values, and the growth that is always allowed, because a single
/// descriptor or connection more or less is no trend.
const GROWING: [(&str, usize, f64); 4] = [
    ("memory in KiB", 0, 2048.0),
    ("file descriptors", 1, 2.0),
    ("threads", 2, 1.0),
    ("sockets", 3, 2.0),
];

/// Processes that live as long as the run. Executors are killed and started again, so the memory of one process says nothing about the
/// next, and is only reported.
const LONG_LIVED: [&str; 2] = ["supervisor", "gateway"];

/// One promise and whether it was kept.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bar {
    pub(crate) what: String,
    pub(crate) value: f64,
    pub(crate) most: f64,
    kind: Kind,
    is_judged: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Correctness,
    TimeOrMemory,
}

impl Bar {
    fn new(what: impl Into<String>, value: f64, most: f64, kind: Kind) -> Self {
        Self {
            what: what.into(),
            value,
            most,
            kind,
            is_judged: true,
        }
    }

    pub(crate) fn only_report_times_and_memory(&mut self) {
        self.is_judged &= self.kind == Kind::Correctness;
    }

    /// A value that is missing misses its bar too.
    pub(crate) fn is_missed(&self) -> bool {
        self.is_judged && (self.value.is_nan() || self.value > self.most)
    }
}

pub(crate) fn judge(records: &Records) -> Vec<Bar> {
    let mut bars = correctness(records);
    bars.push(latency(records));
    bars.extend(growth(records));
    bars
}

fn correctness(records: &Records) -> Vec<Bar> {
    let none = [
        ("requests without a reply", "/lost"),
        (
            "replies to requests that were already answered, or were never sent",
            "/answered_twice",
        ),
        (
            "failures that no killed process explains",
            "/failures_unexplained",
        ),
        (
            "requests that ran twice in an executor that is not idempotent",
            "/runs/twice",
        ),
        (
            "requests that were answered and did not run",
            "/runs/answered_and_never_run",
        ),
        (
            "faults after which the flow did not come back, and commands that failed",
            "/faults_failed",
        ),
        ("lines of level ERROR, and panics", "/log_errors"),
    ];
    none.map(|(what, pointer)| Bar::new(what, records.number(pointer), 0.0, Kind::Correctness))
        .to_vec()
}

fn latency(records: &Records) -> Bar {
    let quiet = records.number("/latency_ms/quiet/p99");
    let unaffected = records.number("/latency_ms/unaffected/p99");
    let most = (quiet * P99_RATIO).max(P99_FLOOR_MS);
    let what =
        format!("p99 in ms of requests that no fault affects; {quiet:.1} before the first fault");
    Bar::new(what, unaffected, most, Kind::TimeOrMemory)
}

/// Compares the start of a run, before the first fault, with its end, after the last one; and in long runs what follows
/// the warm-up.
fn growth(records: &Records) -> Vec<Bar> {
    let end = records.number("/seconds");
    let quiet = records.number("/quiet_until_s");
    let faults = records.number("/faults_until_s");
    // Half of each quiet phase: at its start connections are made, or broken things come back.
    let first = (quiet / 2.0, quiet);
    let last = ((faults + end) / 2.0, end);
    let mut bars = Vec::new();
    for process in processes(&records.samples) {
        for (name, place, allowance) in GROWING {
            let is_memory = place == 0;
            let from = match is_memory && end >= MEMORY_JUDGED_S {
                true => (WARM_UP_S, WARM_UP_S + (end - WARM_UP_S) * WINDOW_PART),
                false => first,
            };
            let [before, after] =
                [from, last].map(|it| median_in(&records.samples, process, place, it));
            let kind = if is_memory {
                Kind::TimeOrMemory
            } else {
                Kind::Correctness
            };
            let most = (before * GROWTH).max(before + allowance);
            let what = format!("{process}: {name} at the end; {before:.0} at the start");
            let mut bar = Bar::new(what, after, most, kind);
            bar.is_judged = !is_memory || (LONG_LIVED.contains(&process) && end >= MEMORY_JUDGED_S);
            bars.push(bar);
        }
    }
    bars
}

/// The names of processes in the order in which they were first seen.
pub(crate) fn processes(samples: &[Sample]) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for sample in samples {
        if !names.contains(&sample.process.as_str()) {
            names.push(&sample.process);
        }
    }
    names
}

fn median_in(samples: &[Sample], process: &str, place: usize, (from, to): (f64, f64)) -> f64 {
    let within = samples
        .iter()
        .filter(|it| it.process == process && from <= it.seconds && it.seconds <= to);
    let mut values: Vec<f64> = within.map(|it| it.values[place]).collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The bars as a table.
pub(crate) fn table(bars: &[Bar]) -> String {
    let mut text = "| promise | value | at most | |\n| --- | --- | --- | --- |\n".to_owned();
    for bar in bars {
        let verdict = match (bar.is_judged, bar.is_missed()) {
            (false, _) => "not judged",
            (true, true) => "**missed**",
            (true, false) => "kept",
        };
        // Writing to a String cannot fail.
        let _infallible = writeln!(
            text,
            "| {} | {} | {} | {verdict} |",
            bar.what,
            figure(bar.value),
            figure(bar.most)
        );
    }
    text
}

fn figure(value: f64) -> String {
    let digits = usize::from(value.fract() != 0.0);
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn records(seconds: f64, end_values: [f64; 4]) -> Records {
        let (quiet, faults) = (seconds * 0.15, seconds * 0.9);
        let count = 100;
        let samples = (0..=count).map(|number| {
            let at = seconds * f64::from(number) / f64::from(count);
            Sample {
                seconds: at,
                process: "gateway".to_owned(),
                values: if at > faults {
                    end_values
                } else {
                    [100_000.0, 100.0, 10.0, 60.0]
                },
            }
        });
        Records {
            outcome: json!({
                "seconds": seconds, "quiet_until_s": quiet, "faults_until_s": faults,
                "lost": 0, "answered_twice": 0, "failures_unexplained": 0, "faults_failed": 0, "log_errors": 0,
                "runs": {"twice": 0, "answered_and_never_run": 0},
                "latency_ms": {"quiet": {"p99": 15.0}, "unaffected": {"p99": 30.0}},
            }),
            samples: samples.collect(),
            slots: Vec::new(),
            faults: Vec::new(),
        }
    }

    #[track_caller]
    fn check(records: &Records, missed: &[&str]) {
        let bars = judge(records);
        let found = bars.iter().filter(|it| it.is_missed());
        let found: Vec<&str> = found.map(|it| it.what.as_str()).collect();
        assert_eq!(found.len(), missed.len(), "{found:?}");
        for (found, expected) in found.iter().zip(missed) {
            assert!(found.contains(expected), "{found}");
        }
    }

    #[test]
    fn growth_of_five_in_a_hundred_is_allowed_and_more_is_not() {
        check(&records(3600.0, [105_000.0, 105.0, 11.0, 63.0]), &[]);
        check(
            &records(3600.0, [105_001.0, 105.0, 11.0, 63.0]),
            &["memory"],
        );
        check(
            &records(3600.0, [100_000.0, 106.0, 12.0, 64.0]),
            &["file descriptors", "threads", "sockets"],
        );
    }

    #[test]
    fn memory_of_a_short_run_is_not_judged() {
        check(&records(180.0, [300_000.0, 100.0, 10.0, 60.0]), &[]);
    }

    #[test]
    fn one_lost_request_is_too_many() {
        let mut records = records(180.0, [0.0; 4]);
        records.outcome["lost"] = json!(1);
        check(&records, &["requests without a reply"]);
    }

    #[test]
    fn a_number_that_is_missing_misses_its_bar() {
        let mut records = records(180.0, [0.0; 4]);
        records.outcome["runs"] = json!({});
        check(&records, &["ran twice", "did not run"]);
    }

    #[test]
    fn unaffected_requests_take_twice_as_long_at_most() {
        let mut records = records(180.0, [0.0; 4]);
        records.outcome["latency_ms"]["unaffected"]["p99"] = json!(30.1);
        check(&records, &["p99"]);
        let mut bar = latency(&records);
        bar.only_report_times_and_memory();
        assert!(!bar.is_missed());
    }

    #[test]
    fn memory_of_executors_is_reported_and_not_judged() {
        let mut records = records(3600.0, [300_000.0, 106.0, 12.0, 60.0]);
        for sample in &mut records.samples {
            sample.process = "work".to_owned();
        }
        check(&records, &["file descriptors", "threads"]);
        assert!(table(&judge(&records)).contains("not judged"));
    }
}
