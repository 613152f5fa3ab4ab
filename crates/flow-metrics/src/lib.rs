//! Metrics of a process, and the text in which Prometheus reads them.
//!
//! Code that counts owns its metrics ([`Counter`], [`Gauge`], [`DurationSummary`], [`SizeSummary`]), created once at
//! the start: counting is an addition to an atomic, without a look-up of labels. The [`Registry`] knows the metrics
//! by their names, and `flow_net`'s `MetricsServer` reads all of them at once.
//!
//! The names are Jina's, and most of them are summaries without quantiles. The crates `prometheus-client` and
//! `prometheus` have no summaries, and the crate `metrics` keeps samples for quantiles behind a lock. Therefore the
//! metrics are implemented here, and `text.rs` formats them.

#![warn(missing_docs)]

mod metric;
mod text;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use metric::{Counter, DurationSummary, Gauge, SizeSummary, Stopwatch};

/// The metrics of one process. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Mutex<Vec<Family>>>);

/// The name and the description of a metric.
#[derive(Debug, Clone, Copy)]
pub struct Description<'a> {
    /// The name, such as `jina_successful_requests_total`.
    pub name: &'a str,
    /// A sentence for people who read it.
    pub help: &'a str,
}

/// Distinguish the metrics of one name.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// A metric of any kind.
#[derive(Debug, Clone)]
pub enum Metric {
    /// How often something happened.
    Counter(Counter),
    /// How many there are now.
    Gauge(Gauge),
    /// How long things took.
    Durations(DurationSummary),
    /// Sizes of messages, in bytes.
    Sizes(SizeSummary),
}

/// A metric could not be registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadMetricName {
    /// The name is not valid in Prometheus.
    #[error("`{0}` is not a valid metric name: letters, digits and `_`, no digit first")]
    Invalid(String),
    /// There is a metric of this name already.
    #[error("there is already a metric `{0}`")]
    Taken(String),
}

/// All metrics of one name.
#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    /// Each with its formatted labels.
    members: Vec<(String, Metric)>,
    /// Registered by an executor's author, who gets the same metric for the same name.
    is_shared: bool,
}

impl Registry {
    /// An empty registry.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a metric. Metrics of the same name differ in their labels.
    pub fn register(
        &self,
        description: Description<'_>,
        labels: Labels<'_>,
        metric: impl Into<Metric>,
    ) {
        let member = (text::labels(labels), metric.into());
        let mut families = self.lock();
        match families.iter_mut().find(|it| it.name == description.name) {
            Some(family) => family.members.push(member),
            None => families.push(Family::new(description, member, false)),
        }
    }

    /// A summary under a name that an executor's author chose; the same summary for the same name.
    ///
    /// # Errors
    ///
    /// If the name is not valid, or is the name of one of flow's own metrics.
    pub fn shared_duration_summary(
        &self,
        description: Description<'_>,
        labels: Labels<'_>,
    ) -> Result<DurationSummary, BadMetricName> {
        if !is_name(description.name) {
            return Err(BadMetricName::Invalid(description.name.to_owned()));
        }
        let mut families = self.lock();
        let known = families.iter().find(|it| it.name == description.name);
        let known = known.map(|it| (it.is_shared, it.members.first()));
        match known {
            Some((true, Some((_, Metric::Durations(same))))) => Ok(same.clone()),
            Some(_) => Err(BadMetricName::Taken(description.name.to_owned())),
            None => {
                let durations = DurationSummary::default();
                let member = (text::labels(labels), Metric::from(durations.clone()));
                families.push(Family::new(description, member, true));
                Ok(durations)
            }
        }
    }

    /// The current values, in Prometheus' text format.
    #[must_use]
    pub fn text(&self) -> String {
        text::all(&self.lock())
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Family>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Family {
    fn new(description: Description<'_>, member: (String, Metric), is_shared: bool) -> Self {
        Self {
            name: description.name.to_owned(),
            help: description.help.to_owned(),
            members: vec![member],
            is_shared,
        }
    }
}

fn is_name(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty()
        && !text.starts_with(|it: char| it.is_ascii_digit())
        && text.bytes().all(is_fine)
}

impl From<Counter> for Metric {
    fn from(counter: Counter) -> Self {
        Self::Counter(counter)
    }
}

impl From<Gauge> for Metric {
    fn from(gauge: Gauge) -> Self {
        Self::Gauge(gauge)
    }
}

impl From<DurationSummary> for Metric {
    fn from(durations: DurationSummary) -> Self {
        Self::Durations(durations)
    }
}

impl From<SizeSummary> for Metric {
    fn from(sizes: SizeSummary) -> Self {
        Self::Sizes(sizes)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn named(name: &str) -> Description<'_> {
        Description { name, help: "h" }
    }

    #[test]
    fn the_same_name_gives_the_same_summary() {
        let registry = Registry::new();
        let ask = || registry.shared_duration_summary(named("jina_x"), &[("a", "b")]);
        ask().unwrap().observe(Duration::from_secs(1));
        ask().unwrap().observe(Duration::from_secs(2));
        let text = registry.text();
        assert!(text.contains("jina_x_count{a=\"b\"} 2\n"), "{text}");
        assert!(text.contains("jina_x_sum{a=\"b\"} 3\n"), "{text}");
    }

    #[test]
    fn taken_and_invalid_names_are_refused() {
        let registry = Registry::new();
        registry.register(named("jina_y"), &[], Counter::default());
        let refused = |name| {
            registry
                .shared_duration_summary(named(name), &[])
                .unwrap_err()
        };
        assert_eq!(refused("jina_y"), BadMetricName::Taken("jina_y".to_owned()));
        for bad in ["", "1x", "a-b", "a b", "ä"] {
            assert_eq!(refused(bad), BadMetricName::Invalid(bad.to_owned()));
        }
    }
}
