//! The progress bar of `flow post`. Drawn only on a terminal, and only if no documents are printed there.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use indicatif::HumanDuration;

use super::counts::{counted, grouped, rate};
use crate::progress::{Bar, Line, Pace};

/// The progress through the input.
pub(super) struct Progress {
    bar: Bar,
    /// Documents that came back.
    documents: Arc<AtomicU64>,
}

impl Progress {
    /// Progress through an input of `len` bytes, if that is known.
    pub(super) fn new(len: Option<u64>, is_wanted: bool) -> Self {
        let documents = Arc::<AtomicU64>::default();
        let bar = if is_wanted {
            let (documents, begun) = (documents.clone(), Instant::now());
            let describe = move |pace: Pace| {
                let documents = documents.load(Ordering::Relaxed);
                line(documents, rate(documents, begun.elapsed()), pace)
            };
            Bar::new(len, describe)
        } else {
            Bar::hidden()
        };
        bar.show();
        Self { bar, documents }
    }

    /// Sets the progress: the input has been answered up to byte `end`, and `documents` came back in all.
    pub(super) fn advance(&self, end: u64, documents: u64) {
        self.documents.store(documents, Ordering::Relaxed);
        self.bar.set(end, None);
    }

    /// Prints a line on stderr that the bar does not overwrite.
    pub(super) fn print(&self, text: &str) {
        self.bar.print(text);
    }

    /// Removes the bar.
    pub(super) fn clear(&self) {
        self.bar.clear();
    }
}

/// The text of the bar.
fn line(documents: u64, per_second: u64, pace: Pace) -> Line {
    let fraction = pace.fraction();
    if documents == 0 {
        return Line {
            label: "waiting for the first reply".to_owned(),
            fraction,
            details: Vec::new(),
        };
    }
    let mut details = vec![format!("{} documents/s", grouped(per_second))];
    if fraction.is_some() {
        details.push(format!("{:#} left", HumanDuration(pace.left)));
    }
    Line {
        label: counted(documents, "document"),
        fraction,
        details,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_line_shows_the_number_of_documents_and_the_rate() {
        let pace = |total| Pace {
            done: 5,
            total,
            per_second: 0.0,
            left: Duration::from_secs(30),
        };
        let check = |documents, total, expected: &str| {
            assert_eq!(line(documents, 1_234, pace(total)).text(80), expected);
        };
        check(0, None, "waiting for the first reply");
        check(7, None, "7 documents 1,234 documents/s");
        check(
            7,
            Some(10),
            "7 documents [===============>              ] 1,234 documents/s, 30s left",
        );
    }
}
