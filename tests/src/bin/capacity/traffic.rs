//! What clients send, the same for a simulated cluster and for a real one, and what is measured of it.

use std::time::Duration;

use crate::random::Random;

/// Who sends requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Calls {
    /// An open loop: Poisson arrivals, so many a second.
    PerSecond(f64),
    /// A closed loop: so many callers, each of which sends the next request after the reply.
    Callers(usize),
}

/// How many documents a request has.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Sizes {
    pub(crate) usual: usize,
    /// On average, one request in ten has this many.
    pub(crate) one_in_ten: usize,
}

/// The load on a cluster.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Traffic {
    pub(crate) calls: Calls,
    pub(crate) sizes: Sizes,
    /// How long requests are sent.
    pub(crate) length: Duration,
}

/// A reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Answer {
    /// Since the start of the run.
    pub(crate) sent: Duration,
    pub(crate) answered: Duration,
    pub(crate) documents: usize,
}

/// What clients saw.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Seen {
    pub(crate) requests_per_s: f64,
    pub(crate) documents_per_s: f64,
    pub(crate) p50_ms: f64,
    pub(crate) p99_ms: f64,
}

impl Traffic {
    /// When a caller sends its first request: one after another, during a twentieth of the run.
    pub(crate) fn begins(self, caller: usize, callers: usize) -> Duration {
        self.length.mul_f64(0.05 * float(caller) / float(callers))
    }
}

impl Sizes {
    pub(crate) const fn of(documents: usize) -> Self {
        Self {
            usual: documents,
            one_in_ten: documents,
        }
    }

    pub(crate) fn next(self, random: &mut Random) -> usize {
        match random.next() < 0.1 {
            true => self.one_in_ten,
            false => self.usual,
        }
    }
}

impl Calls {
    /// A short name for tables.
    pub(crate) fn describe(self) -> String {
        match self {
            Self::PerSecond(rate) => format!("{rate:.0} requests/s"),
            Self::Callers(1) => "1 caller".to_owned(),
            Self::Callers(callers) => format!("{callers} callers"),
        }
    }
}

impl Seen {
    /// What was seen between a tenth and nine tenths of the run: neither its start nor its end.
    pub(crate) fn of(answers: &[Answer], length: Duration) -> Self {
        let (from, to) = (length.mul_f64(0.1), length.mul_f64(0.9));
        let inside = answers
            .iter()
            .filter(|it| (from..to).contains(&it.answered));
        let seconds = (to - from).as_secs_f64();
        let mut times: Vec<f64> = Vec::new();
        let mut documents = 0;
        for answer in inside {
            times.push((answer.answered - answer.sent).as_secs_f64() * 1e3);
            documents += answer.documents;
        }
        times.sort_by(f64::total_cmp);
        let at = |part: usize| {
            let index = times.len().saturating_sub(1) * part / 100;
            times.get(index).copied().unwrap_or(f64::NAN)
        };
        Self {
            requests_per_s: float(times.len()) / seconds,
            documents_per_s: float(documents) / seconds,
            p50_ms: at(50),
            p99_ms: at(99),
        }
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "numbers of requests and documents"
)]
pub(crate) fn float(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_and_the_end_of_a_run_do_not_count() {
        let answer = |sent, answered| Answer {
            sent: Duration::from_millis(sent),
            answered: Duration::from_millis(answered),
            documents: 2,
        };
        let answers = [
            answer(0, 500),
            answer(900, 1010),
            answer(4000, 4030),
            answer(8900, 9000),
        ];
        let seen = Seen::of(&answers, Duration::from_secs(10));
        let expected = Seen {
            requests_per_s: 0.25,
            documents_per_s: 0.5,
            p50_ms: 30.0,
            p99_ms: 30.0,
        };
        assert_eq!(seen, expected);
    }
}
