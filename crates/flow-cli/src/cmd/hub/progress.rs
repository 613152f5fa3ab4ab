//! What an engine does meanwhile, on stderr: what a build prints line by line, and of layers on their way one line
//! on a terminal.

use std::collections::BTreeMap;

use flow_docker::Step;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::output;

/// Shows what a build prints.
#[derive(Default)]
pub(super) struct Printed(String);

impl Printed {
    /// Takes a piece of text; whole lines are shown.
    pub(super) fn show(&mut self, step: &Step) {
        self.0.push_str(&step.status);
        while let Some((line, rest)) = self.0.split_once('\n') {
            if !line.trim().is_empty() {
                output::error_line(line.trim_end());
            }
            self.0 = rest.to_owned();
        }
    }
}

/// Shows how much of an image has been fetched or sent.
pub(super) struct Layers {
    bar: ProgressBar,
    /// Bytes that are done, and all of them, by layer.
    bytes: BTreeMap<String, (u64, u64)>,
}

impl Layers {
    pub(super) fn new(what: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let style = ProgressStyle::with_template("{msg} [{bar:30}] {bytes} of {total_bytes}");
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        bar.set_style(style.progress_chars("=> "));
        bar.set_message(what.to_owned());
        if bar.is_hidden() {
            output::error_line(what);
        }
        Self {
            bar,
            bytes: BTreeMap::new(),
        }
    }

    pub(super) fn show(&mut self, step: Step) {
        if let Some(bytes) = step.bytes {
            self.bytes.insert(step.layer, bytes);
        }
        self.bar
            .set_length(self.bytes.values().map(|it| it.1).sum());
        self.bar
            .set_position(self.bytes.values().map(|it| it.0).sum());
    }
}

impl Drop for Layers {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
