//! Where replies end: they are counted and written, and what went wrong is told.

use std::io;
use std::time::Instant;

use anyhow::Context;
use flow_core::DocumentArray;
use flow_net::MESSAGE_LEN_MAX;
use flow_proto::Envelope;
use flow_proto::jina::StatusProto;
use flow_proto::jina::status_proto::StatusCode;
use serde_json::Value;

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
    begun: Instant,
    tally: Tally,
}

impl Desk {
    pub(super) fn new(sink: Sink, progress: Progress, unit: Unit) -> Self {
        Self {
            sink,
            progress,
            unit,
            begun: Instant::now(),
            tally: Tally::default(),
        }
    }

    /// A request has its reply.
    pub(super) fn reply(&mut self, place: &Place, reply: &Envelope) -> anyhow::Result<()> {
        match documents(reply) {
            Ok(documents) => {
                self.sink
                    .write(&documents)
                    .context("cannot write the output")?;
                self.tally.requests += 1;
                self.tally.documents += place.documents as u64;
            }
            Err(cause) => self.failed(place, &cause),
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
            Ended::Broken(failure) => format!("the stream ended early: {failure}"),
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
        let is_complete = matches!(ended, Ended::Complete);
        // Nothing at all came back: an output of an earlier run is worth more than an empty one.
        if is_complete || self.tally.documents > 0 {
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

/// The documents of a reply, or why the request failed.
fn documents(reply: &Envelope) -> Result<Vec<Value>, String> {
    let status = reply
        .header
        .as_ref()
        .and_then(|header| header.status.as_ref());
    if let Some(status) = status.filter(|status| status.code() == StatusCode::Error) {
        return Err(cause(status));
    }
    let Some(data) = &reply.data else {
        return Ok(Vec::new());
    };
    let documents = DocumentArray::decode(data).map_err(|error| error.to_string())?;
    documents
        .iter()
        .map(|it| it.to_json().map_err(|error| error.to_string()))
        .collect()
}

/// What a reply's status says. Stock sides leave the description empty now and then, but name the
/// exception; and they name the executor beside it, where ours begin with it.
fn cause(status: &StatusProto) -> String {
    let exception = status.exception.clone().unwrap_or_default();
    let description = match (status.description.as_str(), exception.name.as_str()) {
        ("", "") => "the executor failed and did not say why".to_owned(),
        ("", name) => format!("{name}: {}", exception.args.join(", ")),
        (description, _) => description.to_owned(),
    };
    if exception.executor.is_empty() || description.contains(&exception.executor) {
        description
    } else {
        format!("executor `{}`: {description}", exception.executor)
    }
}

#[cfg(test)]
mod tests {
    use flow_core::{Code, Document, Failure};
    use flow_proto::jina::HeaderProto;

    use super::*;

    fn reply(status: Option<StatusProto>, texts: &[&str]) -> Envelope {
        let documents: DocumentArray = texts.iter().map(|text| Document::from_text(text)).collect();
        Envelope {
            header: Some(HeaderProto {
                status,
                ..HeaderProto::default()
            }),
            data: Some(documents.encode()),
            ..Envelope::default()
        }
    }

    #[test]
    fn the_cause_of_a_failure_is_what_the_reply_says() {
        let failure = Failure::new(Code::ExecutorFailed, "no such file").at("encoder");
        let failed = reply(Some(failure.to_status()), &["a"]);
        assert_eq!(
            documents(&failed),
            Err("executor `encoder`: no such file".to_owned())
        );

        let mut mute = failure.to_status();
        mute.description.clear();
        let cause = documents(&reply(Some(mute), &[])).unwrap_err();
        assert_eq!(cause, "executor `encoder`: ExecutorError: no such file");
    }

    #[test]
    fn documents_come_back_as_json() {
        let documents = documents(&reply(Some(StatusProto::default()), &["a", "b"])).unwrap();
        assert_eq!(documents[1]["text"], "b");
        assert_eq!(documents.len(), 2);
    }

    #[test]
    fn a_reply_that_is_no_documents_is_a_failure() {
        let broken = Envelope {
            data: Some(vec![0x0a, 0xff].into()),
            ..Envelope::default()
        };
        let cause = super::documents(&broken).unwrap_err();
        assert!(cause.contains("not a valid protobuf message"), "{cause}");
    }
}
