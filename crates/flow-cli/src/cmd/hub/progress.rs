//! Progress of the Docker engine on stderr: the output of a build line by line, and a bar for layers.

use std::collections::BTreeMap;

use flow_docker::ProgressStep;
use indicatif::HumanBytes;

use crate::escape::escape;
use crate::output;
use crate::progress::{Bar, Line, Pace};

/// Prints the output of a build.
#[derive(Default)]
pub(super) struct Printed(String);

impl Printed {
    /// Takes a piece of text, and prints complete lines.
    pub(super) fn show(&mut self, step: &ProgressStep) {
        self.0.push_str(&step.status);
        while let Some((line, rest)) = self.0.split_once('\n') {
            if !line.trim().is_empty() {
                output::error_line(&escape(line.trim_end()));
            }
            self.0 = rest.to_owned();
        }
    }
}

/// Shows how much of an image has been pulled or pushed.
pub(super) struct Layers {
    bar: Bar,
    /// Transferred and total bytes, by layer.
    bytes: BTreeMap<String, (u64, u64)>,
}

impl Layers {
    pub(super) fn new(what: &str) -> Self {
        let label = what.to_owned();
        let bar = Bar::new(Some(0), move |pace| line(&label, pace));
        if bar.is_hidden() {
            output::error_line(what);
        }
        Self {
            bar,
            bytes: BTreeMap::new(),
        }
    }

    pub(super) fn show(&mut self, step: ProgressStep) {
        if let Some(bytes) = step.bytes {
            self.bytes.insert(step.layer, bytes);
        }
        let sum = |part: fn(&(u64, u64)) -> u64| self.bytes.values().map(part).sum();
        self.bar.set(sum(|it| it.0), Some(sum(|it| it.1)));
    }
}

fn line(label: &str, pace: Pace) -> Line {
    let bytes = pace.total.filter(|total| *total > 0);
    let details = bytes.map(|total| format!("{} of {}", HumanBytes(pace.done), HumanBytes(total)));
    Line {
        label: label.to_owned(),
        fraction: pace.fraction(),
        details: details.into_iter().collect(),
    }
}
