//! The progress bar on stderr: only on a terminal, and only where nothing else is shown.

use std::time::Instant;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::tally::{counted, grouped, rate};
use crate::output;

/// Times a second that the bar is drawn: more only costs.
const DRAWS_PER_SECOND: u8 = 10;

/// How far the input has been answered.
pub(super) struct Progress {
    bar: ProgressBar,
    begun: Instant,
}

impl Progress {
    /// For an input of `len` bytes, if that is known.
    pub(super) fn new(len: Option<u64>, is_wanted: bool) -> Self {
        let bar = match len {
            Some(len) => ProgressBar::new(len)
                .with_style(style("[{bar:30}] {percent:>3}%  {msg}, {eta} left")),
            None => ProgressBar::no_length().with_style(style("{spinner} {msg}")),
        };
        bar.set_draw_target(if is_wanted {
            // It draws nothing if stderr is no terminal.
            ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND)
        } else {
            ProgressDrawTarget::hidden()
        });
        bar.set_message("waiting for the first reply");
        bar.tick();
        Self {
            bar,
            begun: Instant::now(),
        }
    }

    /// The input has been answered up to byte `end`; so many documents have come back in all.
    pub(super) fn advance(&self, end: u64, documents: u64) {
        if self.bar.is_hidden() {
            return;
        }
        let per_second = grouped(rate(documents, self.begun.elapsed()));
        self.bar.set_message(format!(
            "{}, {per_second} documents/s",
            counted(documents, "document")
        ));
        self.bar.set_position(end);
    }

    /// A line on stderr that the bar does not overwrite.
    pub(super) fn tell(&self, text: &str) {
        self.bar.suspend(|| output::error_line(text));
    }

    /// Takes the bar away; the summary says all that it said.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template)
        .unwrap_or_else(|_| ProgressStyle::default_bar())
        .progress_chars("=> ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn templates_are_understood() {
        for len in [Some(7), None] {
            Progress::new(len, false).advance(7, 1);
        }
        assert!(
            ProgressStyle::with_template("[{bar:30}] {percent:>3}%  {msg}, {eta} left").is_ok()
        );
    }
}
