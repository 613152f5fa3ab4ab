//! Where replies end: they are counted and written, and what went wrong is told.

use std::io;
use std::time::Instant;

use anyhow::Context;
use flow_core::Flavour;
use flow_net::MESSAGE_LEN_MAX;
use flow_proto::Envelope;

use super::answer::{Answer, with_hint};
use super::entries::BadEntry;
use super::exchange::Ended;
use super::progress::Progress;
use super::requests::Place;
use super::sink::Sink;
use super::tally::{Tally, Unit, counted, mebibytes};
use crate::exit::Exit;

/// Failures of a kind that are told in full; the others are counted, or one dead executor fills the
/// screen.
const TOLD_MAX: u64 = 10;

/// What became of the documents so far.
pub(super) struct Desk {
    sink: Sink,
    progress: Progress,
    unit: Unit,
    /// The format that documents are sent in.
    flavour: Flavour,
    begun: Instant,
    tally: Tally,
}

impl Desk {
    pub(super) fn new(sink: Sink, progress: Progress, unit: Unit, flavour: Flavour) -> Self {
        Self {
            sink,
            progress,
            unit,
            flavour,
            begun: Instant::now(),
            tally: Tally::default(),
        }
    }

    /// A request has its reply.
    pub(super) fn reply(&mut self, place: &Place, reply: &Envelope) -> anyhow::Result<()> {
        match Answer::read(reply) {
            Ok(answer) => {
                self.sink
                    .write(&answer)
                    .context("cannot write the output")?;
                self.tally.requests += 1;
                self.tally.documents += place.documents as u64;
                self.tally.with_results += u64::from(!answer.results.is_empty());
            }
            Err(cause) => self.failed(place, &with_hint(cause, self.flavour)),
        }
        self.progress.advance(place.end, self.tally.documents);
        Ok(())
    }

    /// A request is larger than a gateway takes.
    pub(super) fn too_large(&mut self, place: &Place, len: usize) {
        let (len, limit) = (mebibytes(len), mebibytes(MESSAGE_LEN_MAX));
        let cause = format!("has {len}, the limit is {limit}; use a smaller `--request-size`");
        self.failed(place, &cause);
    }

    /// A line is no document.
    pub(super) fn skipped(&mut self, number: u64, error: &BadEntry) {
        self.tally.skipped += 1;
        if self.tally.skipped <= TOLD_MAX {
            self.tell(&format!("{} {number} {error}", self.unit.word()));
        }
    }

    /// The input ended in an error.
    pub(super) fn input_broke(&mut self, error: &io::Error) {
        self.tally.input_broke = true;
        self.tell(&format!("cannot read on in the input: {error}"));
    }

    /// Requests that will never have a reply.
    pub(super) fn lost(&mut self, ended: &Ended, lost: &[Place], all_is_sent: bool) {
        self.tally.requests += lost.len() as u64;
        self.tally.failed += lost.len() as u64;
        let why = match ended {
            Ended::Complete => return,
            Ended::Broken(failure) => {
                let cause = with_hint(failure.to_string(), self.flavour);
                format!("the stream ended early: {cause}")
            }
            Ended::TimeIsUp => "the time is up".to_owned(),
            Ended::Interrupted => "interrupted".to_owned(),
        };
        let requests = match lost.first() {
            Some(first) => {
                let (count, from) = (
                    counted(lost.len() as u64, "request"),
                    self.unit.place(first),
                );
                format!("; {count} without a reply, the first {from}")
            }
            None => String::new(),
        };
        let rest = if all_is_sent {
            ""
        } else {
            "; the rest of the input was not sent"
        };
        self.tell(&format!("{why}{requests}{rest}"));
    }

    /// Closes the output and says how it went.
    pub(super) fn finish(self, ended: &Ended) -> anyhow::Result<Exit> {
        let took = self.begun.elapsed();
        self.progress.finish();
        self.tell_rest(self.tally.failed_told, "request", "failed");
        self.tell_rest(self.tally.skipped, self.unit.word(), "skipped");
        if self.sink.is_nowhere() && self.tally.with_results > 0 {
            let replies = counted(self.tally.with_results, "request");
            self.tell(&format!(
                "executors returned results for {replies}; `--output FILE` writes them"
            ));
        }
        let is_complete = matches!(ended, Ended::Complete);
        // Nothing at all came back: an output of an earlier run is worth more than an empty one.
        let came = self.tally.documents + self.tally.with_results;
        if is_complete || came > 0 {
            self.sink.finish().context("cannot write the output")?;
        }
        self.progress.tell(&self.tally.summary(took, self.unit));
        Ok(match ended {
            Ended::Interrupted => Exit::Interrupted,
            Ended::Complete if self.tally.is_fine() => Exit::Fine,
            Ended::Complete | Ended::Broken(_) | Ended::TimeIsUp => Exit::Failed,
        })
    }

    fn failed(&mut self, place: &Place, cause: &str) {
        self.tally.requests += 1;
        self.tally.failed += 1;
        self.tally.failed_told += 1;
        if self.tally.failed_told <= TOLD_MAX {
            self.tell(&format!("request {}: {cause}", self.unit.place(place)));
        }
    }

    fn tell(&self, text: &str) {
        self.progress.tell(&format!("flow: {text}"));
    }

    fn tell_rest(&self, count: u64, what: &str, verb: &str) {
        if count > TOLD_MAX {
            let more = counted(count - TOLD_MAX, &format!("more {what}"));
            self.tell(&format!("{more} {verb}"));
        }
    }
}
