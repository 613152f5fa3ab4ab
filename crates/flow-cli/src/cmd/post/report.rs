//! Counts and writes the replies, and reports what went wrong.

use std::time::{Instant, SystemTime};

use anyhow::Context;
use flow_client::Outcome;
use flow_core::{DocArrayVersion, Failure};
use flow_net::status::grpc_code_name;

use super::counts::{Counts, InputUnit, counted};
use super::hints::with_hint;
use super::progress::Progress;
use super::reply_writer::{Answer, ReplyWriter};
use super::requests::{ReadItem, RequestInfo};
use crate::escape::escape_lines;
use crate::exit::Exit;
use crate::output::{self, Painter};
use crate::timing::{HopSummary, Sent, hops};

/// Maximum number of problems of a kind that are reported one by one. The others are counted.
const REPORTED_MAX: u64 = 10;

/// How an exchange ended.
#[derive(Debug)]
pub(super) enum End {
    /// Every request has an outcome.
    Complete,
    /// The stream failed.
    Failed(Failure),
    /// The time-out passed.
    TimeOut,
    /// The user interrupted it.
    Interrupted,
}

/// The replies so far.
pub(super) struct Report {
    writer: ReplyWriter,
    progress: Progress,
    unit: InputUnit,
    /// The version of the documents that are sent.
    version: DocArrayVersion,
    begun: Instant,
    counts: Counts,
    /// Where the time of the requests went, if that is asked for.
    timing: Option<(HopSummary, Painter)>,
}

impl Report {
    pub(super) fn new(
        writer: ReplyWriter,
        progress: Progress,
        (unit, version): (InputUnit, DocArrayVersion),
    ) -> Self {
        Self {
            writer,
            progress,
            unit,
            version,
            begun: Instant::now(),
            counts: Counts::default(),
            timing: None,
        }
    }

    /// The same report, which also says where the time went.
    pub(super) fn with_timing(self, painter: Painter) -> Self {
        Self {
            timing: Some((HopSummary::default(), painter)),
            ..self
        }
    }

    /// Takes the outcome of a request.
    pub(super) fn outcome(&mut self, outcome: &Outcome<RequestInfo>) -> anyhow::Result<()> {
        let request = &outcome.tag;
        self.time(outcome);
        let answer = outcome.result.as_ref().map_err(Clone::clone);
        match answer.and_then(Answer::of) {
            Ok(answer) => {
                self.writer
                    .write(&answer)
                    .context("cannot write the output")?;
                self.counts.requests += 1;
                self.counts.documents += request.documents as u64;
                self.counts.with_results += u64::from(!answer.results.is_empty());
            }
            Err(failure) => self.failed(request, &failure),
        }
        self.progress.advance(request.end, self.counts.documents);
        Ok(())
    }

    /// Takes a problem of the input.
    pub(super) fn problem(&mut self, problem: ReadItem) {
        match problem {
            ReadItem::Request(..) => {}
            ReadItem::BadEntry { number, error } => {
                self.counts.skipped += 1;
                if self.counts.skipped <= REPORTED_MAX {
                    self.print(&format!("{} {number} {error}", self.unit.word()));
                }
            }
            ReadItem::Broken(error) => {
                self.counts.is_input_broken = true;
                self.print(&format!("cannot read the rest of the input: {error}"));
            }
        }
    }

    /// Takes the requests without an outcome.
    pub(super) fn unanswered(&mut self, end: &End, requests: &[RequestInfo], is_all_sent: bool) {
        self.counts.requests += requests.len() as u64;
        self.counts.failed += requests.len() as u64;
        let cause = match end {
            End::Complete => return,
            End::Failed(failure) => {
                let code = grpc_code_name(failure.code());
                let cause = with_hint(failure, self.version);
                format!("the stream ended early with {code}: {cause}")
            }
            End::TimeOut => "the time is up".to_owned(),
            End::Interrupted => "interrupted".to_owned(),
        };
        let unanswered = requests.first().map(|first| {
            let count = counted(requests.len() as u64, "request");
            let first = self.unit.describe(first);
            format!("; {count} without a reply, the first {first}")
        });
        let rest = match is_all_sent {
            true => "",
            false => "; the rest of the input was not sent",
        };
        self.print(&format!("{cause}{}{rest}", unanswered.unwrap_or_default()));
    }

    /// Closes the output, and prints the summary.
    pub(super) fn finish(self, end: &End) -> anyhow::Result<Exit> {
        let took = self.begun.elapsed();
        self.progress.clear();
        self.print_rest(self.counts.failed_alone, "request", "failed");
        self.print_rest(self.counts.skipped, self.unit.word(), "skipped");
        if self.writer.is_nowhere() && self.counts.with_results > 0 {
            let requests = counted(self.counts.with_results, "request");
            self.print(&format!(
                "executors returned results for {requests}; `--output FILE` writes them"
            ));
        }
        let is_complete = matches!(end, End::Complete);
        // If nothing came back, the output of an earlier run stays.
        let received = self.counts.documents + self.counts.with_results;
        if is_complete || received > 0 {
            self.writer.finish().context("cannot write the output")?;
        }
        self.progress.print(&self.counts.summary(took, self.unit));
        if let Some((timing, painter)) = &self.timing {
            let text = timing.text(*painter, output::columns(std::io::stderr()));
            self.progress.print(text.trim_end());
        }
        Ok(match end {
            End::Interrupted => Exit::Interrupted,
            End::Complete if self.counts.is_fine() => Exit::Fine,
            End::Complete | End::Failed(_) | End::TimeOut => Exit::Failed,
        })
    }

    /// Adds where the time of a request went, if it has a reply.
    fn time(&mut self, outcome: &Outcome<RequestInfo>) {
        if let (Some((timing, _)), Some(reply)) = (&mut self.timing, &outcome.envelope) {
            let took = outcome.took;
            let now = SystemTime::now();
            let at = now.checked_sub(took).unwrap_or(now);
            timing.add(&hops(Sent { at, took }, &reply.routes));
        }
    }

    fn failed(&mut self, request: &RequestInfo, failure: &Failure) {
        self.counts.requests += 1;
        self.counts.failed += 1;
        self.counts.failed_alone += 1;
        if self.counts.failed_alone <= REPORTED_MAX {
            let request = self.unit.describe(request);
            let code = grpc_code_name(failure.code());
            let cause = with_hint(failure, self.version);
            self.print(&format!("request {request} failed with {code}: {cause}"));
        }
    }

    /// Prints a line on stderr, which may contain text from executors.
    fn print(&self, text: &str) {
        self.progress
            .print(&format!("flow: {}", escape_lines(text)));
    }

    fn print_rest(&self, count: u64, what: &str, verb: &str) {
        if count > REPORTED_MAX {
            let more = counted(count - REPORTED_MAX, &format!("more {what}"));
            self.print(&format!("{more} {verb}"));
        }
    }
}
