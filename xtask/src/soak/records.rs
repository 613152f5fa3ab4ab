//! What the program `soak` wrote: `outcome.json`, `samples.csv`, `timeline.csv` and `faults.csv`.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use anyhow::Context;
use serde_json::Value;

/// The records of one run.
#[derive(Debug)]
pub(crate) struct Records {
    pub(crate) outcome: Value,
    pub(crate) samples: Vec<Sample>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) faults: Vec<Fault>,
}

/// One look at one process.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub(crate) seconds: f64,
    pub(crate) process: String,
    /// Resident memory in KiB, file descriptors, threads, sockets.
    pub(crate) values: [f64; 4],
}

/// Requests of one kind that were sent in a part of the run.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    pub(crate) seconds: f64,
    pub(crate) class: String,
    pub(crate) answered: f64,
    pub(crate) failed: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

/// A fault that happened.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) began: f64,
    pub(crate) ended: f64,
}

impl Records {
    pub(crate) fn read(folder: &Path) -> anyhow::Result<Self> {
        let text = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))
        };
        Ok(Self {
            outcome: serde_json::from_str(&text("outcome.json")?)?,
            samples: rows(&text("samples.csv")?, sample).context("samples.csv")?,
            slots: rows(&text("timeline.csv")?, slot).context("timeline.csv")?,
            faults: rows(&text("faults.csv")?, fault).context("faults.csv")?,
        })
    }

    /// A number of the outcome, by its JSON pointer.
    pub(crate) fn number(&self, pointer: &str) -> f64 {
        let value = self.outcome.pointer(pointer).and_then(Value::as_f64);
        value.unwrap_or(f64::NAN)
    }

    /// Requests by kind.
    pub(crate) fn requests_table(&self) -> String {
        let mut text =
            "| requests | answered | of which failed |\n| --- | --- | --- |\n".to_owned();
        let classes = self.outcome["requests"].as_object().into_iter().flatten();
        for (class, counts) in classes {
            let (answered, failed) = (&counts["answered"], &counts["failed"]);
            writeln!(text, "| {class} | {answered} | {failed} |")
                .expect("writing to a String cannot fail");
        }
        text
    }
}

/// The rows below the header.
fn rows<T>(csv: &str, read: impl Fn(&[&str]) -> Option<T>) -> anyhow::Result<Vec<T>> {
    let rows = csv.lines().skip(1).map(|line| {
        let cells: Vec<&str> = line.split(';').collect();
        read(&cells).with_context(|| format!("cannot read the row `{line}`"))
    });
    rows.collect()
}

fn sample(cells: &[&str]) -> Option<Sample> {
    let [seconds, process, _pid, values @ ..] = cells else {
        return None;
    };
    let values: Option<Vec<f64>> = values.iter().map(|it| it.parse().ok()).collect();
    Some(Sample {
        seconds: seconds.parse().ok()?,
        process: (*process).to_owned(),
        values: values?.try_into().ok()?,
    })
}

fn slot(cells: &[&str]) -> Option<Slot> {
    let [seconds, class, answered, failed, p50, p99, _slowest] = cells else {
        return None;
    };
    Some(Slot {
        seconds: seconds.parse().ok()?,
        class: (*class).to_owned(),
        answered: answered.parse().ok()?,
        failed: failed.parse().ok()?,
        p50_ms: p50.parse().ok()?,
        p99_ms: p99.parse().ok()?,
    })
}

fn fault(cells: &[&str]) -> Option<Fault> {
    let [_planned, began, ended, ..] = cells else {
        return None;
    };
    Some(Fault {
        began: began.parse().ok()?,
        ended: ended.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_below_their_header_and_a_bad_one_is_named() {
        let csv = "seconds;process;pid;resident_kb;fds;threads;sockets\n2.0;gateway;7;100;20;4;9\n";
        let samples = rows(csv, sample).unwrap();
        assert_eq!(samples[0].process, "gateway");
        assert_eq!(samples[0].values, [100.0, 20.0, 4.0, 9.0]);
        let error = rows("head\n1;2\n", sample).unwrap_err().to_string();
        assert!(error.contains("`1;2`"), "{error}");
    }
}
