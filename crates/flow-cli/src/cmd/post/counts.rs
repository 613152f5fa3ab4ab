//! What has been sent and received, in numbers and as text.

use std::time::Duration;

use super::requests::RequestInfo;

/// The unit of the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputUnit {
    Line,
    Text,
}

/// The numbers of a run so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Documents that came back.
    pub(super) documents: u64,
    /// Requests, including failed ones.
    pub(super) requests: u64,
    pub(super) failed: u64,
    /// Failed requests that have a cause of their own.
    pub(super) failed_alone: u64,
    /// Requests for which executors returned something besides documents.
    pub(super) with_results: u64,
    /// Lines that are not documents.
    pub(super) skipped: u64,
    /// Whether the input could not be read to its end.
    pub(super) is_input_broken: bool,
}

impl InputUnit {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Text => "text",
        }
    }

    /// The number of a request, and where its documents come from.
    pub(super) fn describe(self, request: &RequestInfo) -> String {
        let number = grouped(request.number);
        match request.entries {
            None => number,
            Some((first, last)) if first == last => format!("{number} ({} {first})", self.word()),
            Some((first, last)) => format!("{number} ({}s {first}–{last})", self.word()),
        }
    }
}

impl Counts {
    /// Whether everything succeeded.
    pub(super) fn is_fine(&self) -> bool {
        self.failed == 0 && self.skipped == 0 && !self.is_input_broken
    }

    /// The summary at the end.
    pub(super) fn summary(&self, took: Duration, unit: InputUnit) -> String {
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

/// The number per second, rounded.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "for people to read; the conversion of a float saturates"
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

    fn check(counts: &Counts, took_ms: u64, wanted: &str) {
        assert_eq!(
            counts.summary(Duration::from_millis(took_ms), InputUnit::Line),
            wanted
        );
    }

    #[test]
    fn the_summary_lists_documents_requests_and_failures() {
        let mut counts = Counts {
            documents: 10_000,
            requests: 313,
            ..Counts::default()
        };
        check(
            &counts,
            22_100,
            "10,000 documents in 22.1 s: 452 documents/s, 313 requests, 0 failed",
        );
        counts.failed = 2;
        counts.skipped = 1;
        let wanted = "10,000 documents in 20 min 34 s: 8 documents/s, 313 requests, 2 failed, \
                      1 line skipped";
        check(&counts, 1_234_000, wanted);
        let one = Counts {
            documents: 1,
            requests: 1,
            ..Counts::default()
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
    fn a_request_is_described_by_its_number_and_its_lines() {
        let check = |entries, wanted: &str| {
            let request = RequestInfo {
                number: 3,
                entries,
                documents: 0,
                end: 0,
            };
            assert_eq!(InputUnit::Line.describe(&request), wanted);
        };
        check(None, "3");
        check(Some((5, 5)), "3 (line 5)");
        check(Some((65, 96)), "3 (lines 65–96)");
    }

    #[test]
    fn the_rate_of_an_empty_time_is_a_number() {
        assert_eq!(rate(1, Duration::ZERO), 1_000_000);
        assert_eq!(rate(0, Duration::ZERO), 0);
    }
}
