//! Progress bars on stderr: drawn only on a terminal, and never wider than it.
//!
//! [`Line`] is the text of a bar, and pure; `indicatif` draws it, a few times a second.

use std::fmt::Write;
use std::io;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use crate::layout::{shorten, width};
use crate::output;

/// Draws per second: a reader cannot follow more.
const DRAWS_PER_SECOND: u8 = 10;

/// Columns between the brackets of a bar, within which it fills the room that is left.
const BAR_WIDTH: std::ops::RangeInclusive<usize> = 10..=30;

/// The state of a piece of work.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) done: u64,
    /// `None` if it is not known.
    pub(crate) total: Option<u64>,
    pub(crate) per_second: f64,
    /// Estimated time to the end.
    pub(crate) left: Duration,
}

/// A line that shows the progress of a piece of work.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    /// Name of the work.
    pub(crate) label: String,
    /// From 0 to 1. `None` if the end is not known; then there is no bar.
    pub(crate) fraction: Option<f64>,
    /// Further text, the most important first. The last ones are left out if there is no room.
    pub(crate) details: Vec<String>,
}

impl Line {
    /// The line in at most `columns` columns. Details are left out first, then the bar, then the end of the label.
    pub(crate) fn text(&self, columns: usize) -> String {
        for shown in (0..=self.details.len()).rev() {
            let details = self.details[..shown].join(", ");
            for bar in [self.bar_for(&details, columns), None] {
                let parts = [Some(self.label.as_str()), bar.as_deref(), Some(&details)];
                let parts: Vec<&str> = parts.into_iter().flatten().collect();
                let parts = parts.into_iter().filter(|part| !part.is_empty());
                let text = parts.collect::<Vec<_>>().join(" ");
                // A bar is more important than the last details.
                let is_bar_missing = self.fraction.is_some() && bar.is_none() && shown > 1;
                if width(&text) <= columns && !is_bar_missing {
                    return text;
                }
            }
        }
        shorten(&self.label, columns)
    }

    /// A bar in the room that label and details leave.
    fn bar_for(&self, details: &str, columns: usize) -> Option<String> {
        let fraction = self.fraction?.clamp(0.0, 1.0);
        // Two brackets, and a blank on each side that has a neighbour.
        let beside = |text: &str| width(text) + usize::from(!text.is_empty());
        let room = columns.checked_sub(beside(&self.label) + beside(details) + 2)?;
        let columns = room.min(*BAR_WIDTH.end());
        (columns >= *BAR_WIDTH.start()).then(|| bar(fraction, columns))
    }
}

/// `[=====>    ]`
fn bar(fraction: f64, columns: usize) -> String {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a fraction of a few columns"
    )]
    let done = (fraction * columns as f64) as usize;
    let head = usize::from(done < columns);
    format!(
        "[{}{}{}]",
        "=".repeat(done),
        ">".repeat(head),
        " ".repeat(columns - done - head)
    )
}

/// A bar on stderr, which is removed when this is dropped. Draws nothing if stderr is not a terminal.
pub(crate) struct Bar(ProgressBar);

impl Bar {
    /// A bar for work of this size, if that is known; `describe` returns its text.
    pub(crate) fn new(
        total: Option<u64>,
        describe: impl Fn(Pace) -> Line + Clone + Send + Sync + 'static,
    ) -> Self {
        let write = move |state: &ProgressState, to: &mut dyn Write| {
            let columns = output::columns(io::stderr()).unwrap_or(0);
            let text = describe(Pace::of(state)).text(columns);
            // Writing to the text of a bar, a `String`, does not fail.
            to.write_str(&text).ok();
        };
        let style = ProgressStyle::with_template("{line}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_SECOND);
        let bar = ProgressBar::with_draw_target(total, target);
        bar.set_style(style.with_key("line", write));
        Self(bar)
    }

    /// A bar that is never drawn.
    pub(crate) fn hidden() -> Self {
        Self(ProgressBar::hidden())
    }

    /// Whether nothing is drawn.
    pub(crate) fn is_hidden(&self) -> bool {
        self.0.is_hidden()
    }

    /// Draws it before any progress.
    pub(crate) fn show(&self) {
        self.0.tick();
    }

    /// Adds progress.
    pub(crate) fn advance(&self, more: u64) {
        self.0.inc(more);
    }

    /// Sets the progress and, if it is given, the size of the work.
    pub(crate) fn set(&self, done: u64, total: Option<u64>) {
        if let Some(total) = total {
            self.0.set_length(total);
        }
        self.0.set_position(done);
    }

    /// Prints a line on stderr that the bar does not overwrite.
    pub(crate) fn print(&self, text: &str) {
        self.0.suspend(|| output::error_line(text));
    }

    /// Removes the bar.
    pub(crate) fn clear(&self) {
        self.0.finish_and_clear();
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Pace {
    fn of(state: &ProgressState) -> Self {
        Self {
            done: state.pos(),
            total: state.len(),
            per_second: state.per_sec(),
            left: state.eta(),
        }
    }

    /// From 0 to 1, if the end is known.
    #[allow(clippy::cast_precision_loss, reason = "a bar has few columns")]
    pub(crate) fn fraction(self) -> Option<f64> {
        let total = self.total.filter(|total| *total > 0)?;
        Some(self.done as f64 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(fraction: Option<f64>) -> Line {
        Line {
            label: "sentence-transformers/model.safetensors".to_owned(),
            fraction,
            details: ["45.1 MiB of 86.7 MiB", "11.2 MiB/s", "4s left"]
                .map(str::to_owned)
                .to_vec(),
        }
    }

    #[track_caller]
    fn check(fraction: Option<f64>, columns: usize, expected: &str) {
        assert_eq!(line(fraction).text(columns), expected, "{columns} columns");
    }

    #[test]
    fn a_wide_terminal_shows_everything() {
        check(
            Some(0.5),
            120,
            "sentence-transformers/model.safetensors [===============>              ] \
             45.1 MiB of 86.7 MiB, 11.2 MiB/s, 4s left",
        );
    }

    #[test]
    fn details_are_left_out_before_the_bar_and_the_bar_before_the_label() {
        let name = "sentence-transformers/model.safetensors";
        check(
            Some(0.5),
            80,
            &format!("{name} [========>        ] 45.1 MiB of 86.7 MiB"),
        );
        check(Some(0.5), 65, &format!("{name} 45.1 MiB of 86.7 MiB"));
        check(Some(0.5), 55, &format!("{name} [======>      ]"));
        check(Some(0.5), 45, name);
        check(Some(0.5), 20, "sentence-transforme…");
    }

    #[test]
    fn without_a_known_end_there_is_no_bar() {
        let name = "sentence-transformers/model.safetensors";
        check(
            None,
            90,
            &format!("{name} 45.1 MiB of 86.7 MiB, 11.2 MiB/s, 4s left"),
        );
        check(
            None,
            75,
            &format!("{name} 45.1 MiB of 86.7 MiB, 11.2 MiB/s"),
        );
    }

    #[test]
    fn a_line_is_never_wider_than_the_terminal() {
        for columns in 0..200 {
            for fraction in [None, Some(0.0), Some(0.3), Some(1.0), Some(7.0)] {
                let text = line(fraction).text(columns);
                assert!(width(&text) <= columns, "{columns}: {text}");
            }
        }
    }

    #[test]
    fn a_bar_is_full_at_the_end_and_only_then() {
        assert_eq!(bar(0.0, 10), "[>         ]");
        assert_eq!(bar(0.99, 10), "[=========>]");
        assert_eq!(bar(1.0, 10), "[==========]");
    }
}
