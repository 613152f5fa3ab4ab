//! The results of a run: `faults.csv`, `timeline.csv`, `samples.csv`, `failures.csv` and `outcome.json`.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::account::{Account, Answered, Class, Runs};
use crate::faults::Done;
use crate::log_pipe::ErrorLines;
use crate::run::Run;
use crate::samples::{self, Sample};
use crate::schedule::{Fault, Node};

/// After a fault, requests may still be slower for this long.
const AFTERMATH: Duration = Duration::from_secs(1);

/// The first requests of a run make connections, and are no part of what is quiet.
const WARM_UP: Duration = Duration::from_secs(2);

/// A process is killed within this time of the beginning of the fault, which is when the process is looked up.
const KILLED_WITHIN: Duration = Duration::from_secs(2);

/// Examples of each kind of mistake in the summary.
const EXAMPLES: usize = 5;

/// What the parts of a run brought.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) seed: u64,
    pub(crate) faults: Vec<Done>,
    pub(crate) samples: Vec<Sample>,
    /// What the executor `book` wrote down.
    pub(crate) recorded: String,
    pub(crate) loud: ErrorLines,
}

impl Outcome {
    pub(crate) fn write(&self, run: &Run, folder: &Path) {
        let account = run.account();
        fs::create_dir_all(folder).unwrap();
        let write = |name: &str, text: String| fs::write(folder.join(name), text).unwrap();
        write("faults.csv", self.faults_csv());
        write("samples.csv", self.samples_csv());
        let step = samples::every(run.phases.end);
        write("timeline.csv", timeline_csv(&account.answered, step));
        write("failures.csv", self.failures_csv(&account));
        let summary = serde_json::to_string_pretty(&self.summary(run, &account));
        write("outcome.json", summary.unwrap() + "\n");
    }

    fn faults_csv(&self) -> String {
        let mut text = "planned_s;began_s;ended_s;fault;outcome\n".to_owned();
        for done in &self.faults {
            let outcome = match &done.outcome {
                Ok(hit) => hit.clone(),
                Err(error) => format!("FAILED: {}", one_line(error)),
            };
            line(
                &mut text,
                format_args!(
                    "{:.3};{:.3};{:.3};{};{outcome}",
                    done.planned.at.as_secs_f64(),
                    done.began.as_secs_f64(),
                    done.ended.as_secs_f64(),
                    done.planned.fault
                ),
            );
        }
        text
    }

    fn samples_csv(&self) -> String {
        let mut text = "seconds;process;pid;resident_kb;fds;threads;sockets\n".to_owned();
        for it in &self.samples {
            let seconds = it.at.as_secs_f64();
            line(
                &mut text,
                format_args!(
                    "{seconds:.1};{};{};{};{};{};{}",
                    it.role, it.pid, it.resident_kb, it.fds, it.threads, it.sockets
                ),
            );
        }
        text
    }

    fn failures_csv(&self, account: &Account) -> String {
        let mut text = "sent_s;took_ms;class;path;explained;failure\n".to_owned();
        for it in &account.answered {
            let Some(failure) = &it.failure else { continue };
            let path = if it.ticket.once { "once" } else { "idempotent" };
            line(
                &mut text,
                format_args!(
                    "{:.3};{:.1};{};{path};{};{}",
                    it.ticket.due.as_secs_f64(),
                    it.took.as_secs_f64() * 1e3,
                    it.ticket.class.name(),
                    self.is_explained(it),
                    one_line(failure)
                ),
            );
        }
        text
    }

    /// Whether a request may have failed: it was in progress when a process that runs nothing twice was killed.
    fn is_explained(&self, answered: &Answered) -> bool {
        let kills = self
            .faults
            .iter()
            .filter(|it| matches!(it.planned.fault, Fault::Kill(Node::Book, _)));
        let mut kills = kills.map(|it| (it.began, it.began + KILLED_WITHIN));
        answered.ticket.once && kills.any(|(from, to)| answered.overlaps(from, to))
    }

    /// Whether a fault may have made it slower.
    fn is_affected(&self, answered: &Answered) -> bool {
        let mut faults = self.faults.iter();
        faults.any(|it| answered.overlaps(it.began, it.ended + AFTERMATH))
    }

    fn summary(&self, run: &Run, account: &Account) -> Value {
        let runs = account.compare(&self.recorded);
        let failed = account.answered.iter().filter(|it| it.failure.is_some());
        let unexplained = failed.filter(|it| !self.is_explained(it)).count();
        let broken = self.faults.iter().filter(|it| it.outcome.is_err()).count();
        json!({
            "seed": self.seed,
            "quiet_until_s": run.phases.quiet.as_secs_f64(),
            "faults_until_s": run.phases.faults.as_secs_f64(),
            "seconds": run.phases.end.as_secs_f64(),
            "faults": self.faults.len(),
            "faults_failed": broken,
            "requests": by_class(&account.answered),
            "lost": account.lost().len(),
            "lost_examples": account.lost().iter().take(EXAMPLES).map(|it| it.text()).collect::<Vec<_>>(),
            "answered_twice": account.surplus.len(),
            "failures_unexplained": unexplained,
            "runs": runs_json(&runs),
            "latency_ms": self.latencies(run, &account.answered),
            "log_errors": self.loud.count,
            "log_error_examples": self.loud.first.iter().take(EXAMPLES).collect::<Vec<_>>(),
        })
    }

    fn latencies(&self, run: &Run, answered: &[Answered]) -> Value {
        let small = || answered.iter().filter(|it| !it.ticket.class.is_bulk());
        let is_quiet =
            |it: &&Answered| WARM_UP <= it.ticket.due && it.ticket.due + it.took < run.phases.quiet;
        let later = || small().filter(|it| it.ticket.due >= run.phases.quiet);
        json!({
            "quiet": quantiles(small().filter(is_quiet)),
            "unaffected": quantiles(later().filter(|it| !self.is_affected(it))),
            "affected": quantiles(later().filter(|it| self.is_affected(it))),
        })
    }
}

fn runs_json(runs: &Runs) -> Value {
    let examples = runs.twice.iter().chain(&runs.never).take(EXAMPLES);
    json!({
        "count": runs.count,
        "twice": runs.twice.len(),
        "answered_and_never_run": runs.never.len(),
        "examples": examples.collect::<Vec<_>>(),
    })
}

fn by_class(answered: &[Answered]) -> Value {
    let of = |class: Class| answered.iter().filter(move |it| it.ticket.class == class);
    let counts = Class::ALL.map(|class| {
        let failed = of(class).filter(|it| it.failure.is_some()).count();
        let value = json!({"answered": of(class).count(), "failed": failed});
        (class.name().to_owned(), value)
    });
    Value::Object(counts.into_iter().collect())
}

/// The times of those that succeeded, in milliseconds.
fn quantiles<'a>(answered: impl Iterator<Item = &'a Answered>) -> Value {
    let succeeded = answered.filter(|it| it.failure.is_none());
    let times = sorted(succeeded.map(|it| it.took));
    json!({
        "requests": times.len(),
        "p50": quantile(&times, 50),
        "p99": quantile(&times, 99),
        "slowest": quantile(&times, 100),
    })
}

fn sorted(times: impl Iterator<Item = Duration>) -> Vec<f64> {
    let mut times: Vec<f64> = times.map(|it| it.as_secs_f64() * 1e3).collect();
    times.sort_by(f64::total_cmp);
    times
}

/// The time within which a percentage was answered.
fn quantile(sorted: &[f64], of_hundred: usize) -> Option<f64> {
    let rank = (sorted.len() * of_hundred).div_ceil(100);
    sorted
        .get(rank.max(1) - 1)
        .map(|it| (it * 1e3).round() / 1e3)
}

/// Requests by the time at which they were sent.
fn timeline_csv(answered: &[Answered], step: Duration) -> String {
    let mut slots: BTreeMap<(u64, Class), Vec<&Answered>> = BTreeMap::new();
    for it in answered {
        let slot = it.ticket.due.as_secs() / step.as_secs();
        slots.entry((slot, it.ticket.class)).or_default().push(it);
    }
    let mut text = "seconds;class;answered;failed;p50_ms;p99_ms;slowest_ms\n".to_owned();
    for ((slot, class), answered) in slots {
        let times = sorted(answered.iter().map(|it| it.took));
        let [p50, p99, slowest] = [50, 99, 100].map(|part| quantile(&times, part).unwrap());
        let failed = answered.iter().filter(|it| it.failure.is_some()).count();
        line(
            &mut text,
            format_args!(
                "{};{};{};{failed};{p50};{p99};{slowest}",
                slot * step.as_secs(),
                class.name(),
                answered.len()
            ),
        );
    }
    text
}

fn line(text: &mut String, line: std::fmt::Arguments<'_>) {
    writeln!(text, "{line}").expect("writing to a String cannot fail");
}

fn one_line(text: &str) -> String {
    text.trim().replace(['\n', ';'], ", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::Planned;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn outcome(fault: Fault) -> Outcome {
        let planned = Planned { at: at(10), fault };
        let done = Done {
            planned,
            began: at(10),
            ended: at(12),
            outcome: Ok(String::new()),
        };
        Outcome {
            seed: 1,
            faults: vec![done],
            samples: Vec::new(),
            recorded: String::new(),
            loud: ErrorLines::default(),
        }
    }

    fn answered(once: bool, due: u64, took: u64) -> Answered {
        let mut account = Account::default();
        let ticket = account.issue(Class::Grpc, once, at(due));
        account.settle(ticket.id, at(due + took), Err("killed".to_owned()));
        account.answered.remove(0)
    }

    #[test]
    fn only_a_killed_process_that_runs_nothing_twice_explains_a_failure() {
        let killed = outcome(Fault::Kill(Node::Book, 0));
        assert!(killed.is_explained(&answered(true, 9, 2)));
        assert!(!killed.is_explained(&answered(false, 9, 2)));
        assert!(!killed.is_explained(&answered(true, 13, 1)));
        let before_it_is_back = Outcome {
            faults: vec![Done {
                ended: at(20),
                ..killed.faults[0].clone()
            }],
            ..outcome(Fault::Reload)
        };
        assert!(!before_it_is_back.is_explained(&answered(true, 15, 1)));
        assert!(!outcome(Fault::Kill(Node::Work, 0)).is_explained(&answered(true, 9, 2)));
    }

    #[test]
    fn a_request_is_affected_until_a_second_after_the_fault() {
        let outcome = outcome(Fault::Reload);
        assert!(outcome.is_affected(&answered(true, 13, 1)));
        assert!(!outcome.is_affected(&answered(true, 14, 1)));
        assert!(!outcome.is_affected(&answered(true, 8, 1)));
    }

    #[test]
    fn a_quantile_is_the_time_within_which_so_many_were_answered() {
        let times: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!(quantile(&times, 50), Some(100.0));
        assert_eq!(quantile(&times, 99), Some(198.0));
        assert_eq!(quantile(&times, 100), Some(200.0));
        assert_eq!(quantile(&[], 50), None);
    }

    #[test]
    fn the_timeline_counts_requests_by_the_time_they_were_sent() {
        let requests = [answered(true, 1, 2), answered(true, 3, 1)];
        let csv = timeline_csv(&requests, at(2));
        let expected = "seconds;class;answered;failed;p50_ms;p99_ms;slowest_ms\n\
                        0;grpc;1;1;2000;2000;2000\n2;grpc;1;1;1000;1000;1000\n";
        assert_eq!(csv, expected);
    }
}
