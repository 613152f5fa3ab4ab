//! The metrics of a process, by their names.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::collect::{Collected, ScrapeCallback};
use crate::exposition::ExpositionFormat;
use crate::family::{Description, Family, Labels, Metric, SharedMetric, Values, owned};
use crate::{protobuf, text};

/// How many metrics of one name an executor's author may have, with different labels.
pub const MEMBERS_MAX: usize = 200;

/// The metrics of one process. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Mutex<Known>>);

/// What a registry knows.
#[derive(Debug, Clone, Default)]
struct Known {
    families: Vec<Family>,
    collectors: Vec<ScrapeCallback>,
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
        let member = (owned(labels), metric.into());
        let mut known = self.lock();
        match known.family(description.name) {
            Some(family) => family.members.push(member),
            None => known.families.push(Family::new(description, member, false)),
        }
    }

    /// Registers a function that supplies values at each scrape. It must not block.
    pub fn collect(&self, collect: impl Fn(&mut Collected) + Send + Sync + 'static) {
        self.lock()
            .collectors
            .push(ScrapeCallback(Arc::new(collect)));
    }

    /// A metric under a name that an executor's author chose; the same metric for the same name and labels. A
    /// name has at most [`MEMBERS_MAX`] metrics, and one more for all further labels.
    ///
    /// # Errors
    ///
    /// If the name is not valid, or is the name of one of flow's own metrics, or of a metric of another kind.
    pub fn shared<M: SharedMetric>(
        &self,
        description: Description<'_>,
        labels: Labels<'_>,
    ) -> Result<M, BadMetricName> {
        if !is_name(description.name) {
            return Err(BadMetricName::Invalid(description.name.to_owned()));
        }
        let mut known = self.lock();
        let Some(family) = known.family(description.name) else {
            let metric = M::default();
            let member = (owned(labels), metric.clone().into());
            known.families.push(Family::new(description, member, true));
            return Ok(metric);
        };
        let is_same_kind = |(_, metric): &(_, Metric)| M::of(metric).is_some();
        if !family.is_shared || !family.members.iter().all(is_same_kind) {
            return Err(BadMetricName::Taken(description.name.to_owned()));
        }
        Ok(family.shared(labels).unwrap_or_else(|| {
            if family.members.len() < MEMBERS_MAX {
                return family.add(owned(labels));
            }
            let labels = family.overflow_labels();
            let borrowed: Vec<_> = labels
                .iter()
                .map(|(name, value)| (&**name, &**value))
                .collect();
            let overflow = family.shared(&borrowed);
            overflow.unwrap_or_else(|| family.add(labels.clone()))
        }))
    }

    /// The current values, in Prometheus' text format.
    #[must_use]
    pub fn text(&self) -> String {
        text::all(&self.values())
    }

    /// The current values in this format.
    #[must_use]
    pub fn expose(&self, format: ExpositionFormat) -> Vec<u8> {
        let values = self.values();
        match format {
            ExpositionFormat::Text => text::all(&values).into_bytes(),
            ExpositionFormat::OpenMetrics => text::open_metrics(&values).into_bytes(),
            ExpositionFormat::Protobuf => protobuf::all(&values),
        }
    }

    /// The current values. They are read without holding the lock, so that registering a metric meanwhile does not wait.
    #[must_use]
    pub fn values(&self) -> Vec<Values> {
        let Known {
            families,
            collectors,
        } = self.lock().clone();
        let mut values: Vec<Values> = families.into_iter().filter_map(Family::read).collect();
        for collector in collectors {
            let mut collected = Collected::default();
            (collector.0)(&mut collected);
            values.append(&mut collected.0);
        }
        values
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn family(&mut self, name: &str) -> Option<&mut Family> {
        self.families.iter_mut().find(|it| *it.name == *name)
    }
}

fn is_name(text: &str) -> bool {
    let is_fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    !text.is_empty()
        && !text.starts_with(|it: char| it.is_ascii_digit())
        && text.bytes().all(is_fine)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::histogram::DurationHistogram;
    use crate::metric::{Counter, DurationSummary, FloatCounter};

    fn named(name: &str) -> Description<'_> {
        Description { name, help: "h" }
    }

    #[test]
    fn the_same_name_gives_the_same_summary() {
        let registry = Registry::new();
        let ask = || registry.shared::<DurationSummary>(named("jina_x"), &[("a", "b")]);
        ask().unwrap().observe(Duration::from_secs(1));
        ask().unwrap().observe(Duration::from_secs(2));
        let text = registry.text();
        assert!(text.contains("jina_x_count{a=\"b\"} 2\n"), "{text}");
        assert!(text.contains("jina_x_sum{a=\"b\"} 3\n"), "{text}");
    }

    #[test]
    fn labels_of_an_author_distinguish_a_limited_number_of_metrics() {
        let registry = Registry::new();
        let ask = |user: &str| {
            let shared = registry
                .shared::<FloatCounter>(named("seen_total"), &[("process", "a"), ("user", user)]);
            shared.unwrap()
        };
        for user in 0..MEMBERS_MAX {
            ask(&user.to_string()).add(0.5);
        }
        ask("7").add(1.0);
        ask("one more").add(2.0);
        ask("another").add(3.0);
        let text = registry.text();
        for line in [
            "seen_total{process=\"a\",user=\"7\"} 1.5\n",
            "seen_total{process=\"a\",otel_metric_overflow=\"true\"} 5\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("another"), "{text}");
    }

    #[test]
    fn taken_and_invalid_names_are_refused() {
        let registry = Registry::new();
        registry.register(named("jina_y"), &[], Counter::default());
        let refused = |name| {
            let shared = registry.shared::<DurationSummary>(named(name), &[]);
            shared.unwrap_err()
        };
        assert_eq!(refused("jina_y"), BadMetricName::Taken("jina_y".to_owned()));
        for bad in ["", "1x", "a-b", "a b", "ä"] {
            assert_eq!(refused(bad), BadMetricName::Invalid(bad.to_owned()));
        }
        let own = registry.shared::<DurationHistogram>(named("own"), &[]);
        assert!(own.is_ok());
        assert_eq!(refused("own"), BadMetricName::Taken("own".to_owned()));
    }

    #[test]
    fn values_are_looked_up_when_they_are_read_and_those_of_one_name_are_together() {
        let registry = Registry::new();
        let count = Counter::default();
        let looked_up = count.clone();
        registry.collect(move |values| {
            looked_up.add(1);
            for state in ["ready", "gone"] {
                values.gauge(named("replicas"), &[("state", state)], 0.5);
                values.counter(named("seen_total"), &[("state", state)], 7.0);
            }
        });
        let text = registry.text();
        let expected = "# HELP replicas h\n# TYPE replicas gauge\nreplicas{state=\"ready\"} 0.5\nreplicas{state=\"gone\"} 0.5\n";
        assert!(text.starts_with(expected), "{text}");
        assert!(text.contains("# TYPE seen_total counter\n"), "{text}");
        assert_eq!(count.get(), 1);
    }
}
