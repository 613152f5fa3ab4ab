//! Reports the progress of a pull in a sentence from time to time. Pure: the time is an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use flow_docker::ProgressStep;

/// Wait between two sentences.
const REPORT_EVERY: Duration = Duration::from_secs(2);

/// The progress of one pull.
#[derive(Debug)]
pub(super) struct PullProgress {
    image: String,
    /// Bytes that are pulled, and all bytes, by layer.
    layers: HashMap<String, (u64, u64)>,
    last_report: Option<Instant>,
}

impl PullProgress {
    pub(super) fn new(image: &str) -> Self {
        Self {
            image: image.to_owned(),
            layers: HashMap::new(),
            last_report: None,
        }
    }

    /// Records a step; returns a sentence when it is time for one.
    pub(super) fn record(&mut self, step: ProgressStep, now: Instant) -> Option<String> {
        let bytes = step.bytes.filter(|_| step.status == "Downloading")?;
        self.layers.insert(step.layer, bytes);
        let last_report = *self.last_report.get_or_insert(now);
        if now.duration_since(last_report) < REPORT_EVERY {
            return None;
        }
        self.last_report = Some(now);
        let sum = |part: fn(&(u64, u64)) -> u64| self.layers.values().map(part).sum::<u64>() >> 20;
        let (done, all) = (sum(|it| it.0), sum(|it| it.1));
        Some(format!(
            "pulling the image `{}`: {done} of {all} MiB",
            self.image
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pull_is_reported_in_a_few_sentences() {
        let step = |layer: &str, done: u64| ProgressStep {
            layer: layer.to_owned(),
            status: "Downloading".to_owned(),
            bytes: Some((done << 20, 10 << 20)),
        };
        let (mut progress, t0) = (PullProgress::new("a:1"), Instant::now());
        assert_eq!(progress.record(step("x", 1), t0), None);
        assert_eq!(progress.record(step("y", 2), t0 + REPORT_EVERY / 2), None);
        assert_eq!(
            progress.record(step("x", 5), t0 + REPORT_EVERY).as_deref(),
            Some("pulling the image `a:1`: 7 of 20 MiB")
        );
        let pulled = ProgressStep {
            status: "Pull complete".to_owned(),
            ..ProgressStep::default()
        };
        assert_eq!(progress.record(pulled, t0 + 9 * REPORT_EVERY), None);
    }
}
