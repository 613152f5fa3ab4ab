//! The outcome of each request: answered once, failed with a known cause, or lost.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// A request without a reply after this time is lost. No fault lasts as long.
pub(crate) const REPLY_MAX: Duration = Duration::from_secs(60);

/// How a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    /// One call over gRPC.
    Grpc,
    /// A part of a stream over gRPC.
    Stream,
    /// `POST /post`.
    Http,
    /// A part of a stream over gRPC with many documents and low priority.
    BulkGrpc,
    /// `POST /post` with many documents.
    BulkHttp,
}

impl Class {
    pub(crate) const ALL: [Self; 5] = [
        Self::Grpc,
        Self::Stream,
        Self::Http,
        Self::BulkGrpc,
        Self::BulkHttp,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Stream => "stream",
            Self::Http => "http",
            Self::BulkGrpc => "bulk-grpc",
            Self::BulkHttp => "bulk-http",
        }
    }

    pub(crate) fn is_bulk(self) -> bool {
        matches!(self, Self::BulkGrpc | Self::BulkHttp)
    }
}

/// A request on its way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticket {
    pub(crate) id: u64,
    pub(crate) class: Class,
    /// Whether it goes to the node that runs nothing twice.
    pub(crate) once: bool,
    /// When it was to leave.
    pub(crate) due: Duration,
}

impl Ticket {
    /// The text by which the executors and the reply name it.
    pub(crate) fn text(&self) -> String {
        format!("r-{}", self.id)
    }

    /// The nodes that work on it, as a regular expression.
    pub(crate) fn target(&self) -> &'static str {
        if self.once {
            "^(work|book)$"
        } else {
            "^(work|far)$"
        }
    }
}

/// A request that has its reply.
#[derive(Debug, Clone)]
pub(crate) struct Answered {
    pub(crate) ticket: Ticket,
    pub(crate) took: Duration,
    /// Why it failed.
    pub(crate) failure: Option<String>,
}

impl Answered {
    pub(crate) fn overlaps(&self, from: Duration, to: Duration) -> bool {
        self.ticket.due <= to && from <= self.ticket.due + self.took
    }
}

/// All requests of a run.
#[derive(Debug, Default)]
pub(crate) struct Account {
    issued: u64,
    open: HashMap<u64, Ticket>,
    pub(crate) answered: Vec<Answered>,
    /// Replies to requests that were already answered, or were never sent.
    pub(crate) surplus: Vec<String>,
}

impl Account {
    pub(crate) fn issue(&mut self, class: Class, once: bool, due: Duration) -> Ticket {
        let id = self.issued;
        self.issued += 1;
        let ticket = Ticket {
            id,
            class,
            once,
            due,
        };
        self.open.insert(id, ticket);
        ticket
    }

    /// Notes a reply, or a failure. A failure after [`REPLY_MAX`] is no reply: the client has given up.
    pub(crate) fn settle(&mut self, id: u64, now: Duration, outcome: Result<(), String>) {
        let Some(ticket) = self.open.get(&id).copied() else {
            self.surplus.push(format!("r-{id}"));
            return;
        };
        let took = now.saturating_sub(ticket.due);
        if outcome.is_err() && took >= REPLY_MAX {
            return;
        }
        self.open.remove(&id);
        self.answered.push(Answered {
            ticket,
            took,
            failure: outcome.err(),
        });
    }

    /// Requests without a reply.
    pub(crate) fn lost(&self) -> Vec<&Ticket> {
        let mut lost: Vec<&Ticket> = self.open.values().collect();
        lost.sort_by_key(|it| it.id);
        lost
    }

    /// Compares replies with what the executor wrote down.
    pub(crate) fn compare(&self, recorded: &str) -> Runs {
        let mut seen = HashSet::new();
        let mut runs = Runs::default();
        for line in recorded.lines() {
            runs.count += 1;
            if !seen.insert(line) {
                runs.twice.push(line.to_owned());
            }
        }
        let succeeded = self.answered.iter().filter(|it| it.failure.is_none());
        let once = succeeded.map(|it| it.ticket).filter(|it| it.once);
        let texts = once.map(|it| it.text());
        runs.never = texts.filter(|it| !seen.contains(it.as_str())).collect();
        runs
    }
}

/// What the executor that runs nothing twice wrote down.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) count: usize,
    /// Requests that it ran twice.
    pub(crate) twice: Vec<String>,
    /// Requests that were answered and that it did not run.
    pub(crate) never: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_request_without_a_reply_is_lost_and_a_second_reply_is_surplus() {
        let mut account = Account::default();
        let first = account.issue(Class::Grpc, false, at(1));
        let second = account.issue(Class::Grpc, false, at(1));
        account.settle(first.id, at(3), Ok(()));
        account.settle(first.id, at(4), Ok(()));
        assert_eq!(account.lost().len(), 1);
        assert_eq!(account.lost()[0].id, second.id);
        assert_eq!(account.surplus, ["r-0"]);
        assert_eq!(account.answered[0].took, at(2));
    }

    #[test]
    fn a_request_whose_client_has_given_up_is_lost() {
        let mut account = Account::default();
        let ticket = account.issue(Class::Http, true, at(1));
        account.settle(ticket.id, at(61), Err("no reply in time".to_owned()));
        assert_eq!(account.lost().len(), 1);
        assert!(account.answered.is_empty());
    }

    #[test]
    fn runs_are_counted_against_replies() {
        let mut account = Account::default();
        for (once, outcome) in [
            (true, Ok(())),
            (true, Ok(())),
            (false, Ok(())),
            (true, Err("killed".to_owned())),
        ] {
            let ticket = account.issue(Class::Http, once, at(0));
            account.settle(ticket.id, at(1), outcome);
        }
        let runs = account.compare("r-1\na-7\na-7\n");
        assert_eq!(runs.count, 3);
        assert_eq!(runs.twice, ["a-7"]);
        assert_eq!(runs.never, ["r-0"]);
    }

    #[test]
    fn a_request_overlaps_what_happens_between_its_start_and_its_reply() {
        let mut account = Account::default();
        let ticket = account.issue(Class::Grpc, false, at(10));
        account.settle(ticket.id, at(12), Ok(()));
        let answered = &account.answered[0];
        let check = |from, to, expected| assert_eq!(answered.overlaps(at(from), at(to)), expected);
        check(8, 9, false);
        check(8, 10, true);
        check(11, 11, true);
        check(12, 20, true);
        check(13, 20, false);
    }
}
