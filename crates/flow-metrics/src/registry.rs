//! The metrics of a process, by their names.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::family::{Description, Family, Labels, Metric};
use crate::metric::DurationSummary;
use crate::text;

/// The metrics of one process. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Registry(Arc<Mutex<Vec<Family>>>);

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
    use crate::metric::Counter;

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
