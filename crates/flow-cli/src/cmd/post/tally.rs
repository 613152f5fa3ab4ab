//! Counts, and how they read.

use std::time::Duration;

use super::requests::Place;

/// What places in the input are counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Line,
    Text,
}

/// What became of everything so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Tally {
    /// Documents that came back.
    pub(super) documents: u64,
    /// Requests, failed ones too.
    pub(super) requests: u64,
    pub(super) failed: u64,
    /// Of those, the ones that each have a cause of their own.
    pub(super) failed_told: u64,
    /// Requests for which executors returned something besides documents.
    pub(super) with_results: u64,
    /// Lines that are no documents.
    pub(super) skipped: u64,
    pub(super) input_broke: bool,
}

impl Unit {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Text => "text",
        }
    }

    /// A request's number and where its documents come from.
    pub(super) fn place(self, place: &Place) -> String {
        let number = grouped(place.number);
        match place.entries {
            None => number,
            Some((first, last)) if first == last => format!("{number} ({} {first})", self.word()),
            Some((first, last)) => format!("{number} ({}s {first}–{last})", self.word()),
        }
    }
}

impl Tally {
    /// Whether all that was asked for was done.
    pub(super) fn is_fine(&self) -> bool {
        self.failed == 0 && self.skipped == 0 && !self.input_broke
    }

    /// The last line.
    pub(super) fn summary(&self, took: Duration, unit: Unit) -> String {
        let documents = counted(self.documents, "document");
        let rate = grouped(rate(self.documents, took));
        let requests = counted(self.requests, "request");
        let failed = grouped(self.failed);
        let time = seconds(took);
        let mut summary =
            format!("{documents} in {time}: {rate} documents/s, {requests}, {failed} failed");
        if self.skipped > 0 {
            summary += &format!(", {} skipped", counted(self.skipped, unit.word()));
        }
        summary
    }
}

/// So many of something in a second, rounded.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts for people to read; a float's conversion saturates"
)]
pub(super) fn rate(count: u64, took: Duration) -> u64 {
    let seconds = took.as_secs_f64().max(1e-6);
    (count as f64 / seconds).round() as u64
}

/// `1 request`, `2 requests`, `10,000 requests`.
pub(super) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", grouped(count))
}

/// With a comma between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub(super) fn mebibytes(len: usize) -> String {
    format!("{} MiB", grouped((len >> 20) as u64))
}

fn seconds(took: Duration) -> String {
    match took.as_secs() {
        0 => format!("{} ms", took.as_millis()),
        1..600 => format!("{:.1} s", took.as_secs_f64()),
        seconds => format!("{} min {:02} s", grouped(seconds / 60), seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(tally: &Tally, took_ms: u64, wanted: &str) {
        assert_eq!(
            tally.summary(Duration::from_millis(took_ms), Unit::Line),
            wanted
        );
    }

    #[test]
    fn the_summary_reads_like_a_sentence() {
        let mut tally = Tally {
            documents: 10_000,
            requests: 313,
            ..Tally::default()
        };
        check(
            &tally,
            22_100,
            "10,000 documents in 22.1 s: 452 documents/s, 313 requests, 0 failed",
        );
        tally.failed = 2;
        tally.skipped = 1;
        let wanted = "10,000 documents in 20 min 34 s: 8 documents/s, 313 requests, 2 failed, \
                      1 line skipped";
        check(&tally, 1_234_000, wanted);
        let one = Tally {
            documents: 1,
            requests: 1,
            ..Tally::default()
        };
        check(
            &one,
            8,
            "1 document in 8 ms: 125 documents/s, 1 request, 0 failed",
        );
    }

    #[test]
    fn thousands_have_commas() {
        for (number, wanted) in [
            (0, "0"),
            (999, "999"),
            (1000, "1,000"),
            (1_234_567, "1,234,567"),
        ] {
            assert_eq!(grouped(number), wanted);
        }
    }

    #[test]
    fn a_request_tells_where_its_documents_come_from() {
        let check = |entries, wanted: &str| {
            let place = Place {
                number: 3,
                entries,
                documents: 0,
                end: 0,
            };
            assert_eq!(Unit::Line.place(&place), wanted);
        };
        check(None, "3");
        check(Some((5, 5)), "3 (line 5)");
        check(Some((65, 96)), "3 (lines 65–96)");
    }

    #[test]
    fn a_rate_of_no_time_at_all_is_still_a_number() {
        assert_eq!(rate(1, Duration::ZERO), 1_000_000);
        assert_eq!(rate(0, Duration::ZERO), 0);
    }
}
