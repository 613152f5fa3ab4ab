//! Metrics of an executor's own, in addition to those that every executor has.

use std::time::Duration;

use flow_metrics::{BadMetricName, Description, DurationSummary, Registry, Stopwatch};

/// Registers metrics of an executor's own, like Jina's `@monitor` and `self.monitor`.
///
/// Without `monitoring: true` in the flow file it measures nothing, so an executor can always use it.
///
/// ```
/// use flow_executor::{CallError, DocumentArray, Endpoints, Executor, LoadContext, LoadError, Parameters, Timer};
///
/// struct Shout {
///     upper: Timer,
/// }
///
/// impl Executor for Shout {
///     type With = serde_json::Map<String, serde_json::Value>;
///
///     fn load(_: Self::With, context: &LoadContext) -> Result<Self, LoadError> {
///         // Shown as `jina_upper_seconds_count` and `jina_upper_seconds_sum`.
///         let upper = context.monitor.timer("upper_seconds", "Time to convert to upper case.")?;
///         Ok(Self { upper })
///     }
///
///     fn endpoints() -> Endpoints<Self> {
///         Endpoints::new().on("/shout", Self::shout)
///     }
/// }
///
/// impl Shout {
///     fn shout(&mut self, docs: &mut DocumentArray, _: &Parameters) -> Result<(), CallError> {
///         for doc in docs {
///             let text = self.upper.time(|| doc.text().to_uppercase());
///             doc.set_text(text);
///         }
///         Ok(())
///     }
/// }
/// ```
#[derive(Debug, Clone, Default)]
pub struct Monitor(Option<Registration>);

#[derive(Debug, Clone)]
struct Registration {
    metrics: Registry,
    runtime_name: String,
}

/// Measures times, and exports their number and sum. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Timer(Option<DurationSummary>);

impl Monitor {
    pub(crate) fn new(metrics: &Registry, runtime_name: &str) -> Self {
        Self(Some(Registration {
            metrics: metrics.clone(),
            runtime_name: runtime_name.to_owned(),
        }))
    }

    /// A timer that is exported as the summary `jina_<name>`. Call this while the executor loads. The same name, for
    /// example in another worker, returns the same timer.
    ///
    /// # Errors
    ///
    /// If the name is not valid in Prometheus, or every executor has a metric of this name. Without monitoring every name
    /// is accepted.
    pub fn timer(&self, name: &str, help: &str) -> Result<Timer, BadMetricName> {
        let Some(registration) = &self.0 else {
            return Ok(Timer::default());
        };
        let name = format!("jina_{name}");
        let title = Description { name: &name, help };
        let labels = &[("runtime_name", registration.runtime_name.as_str())];
        let seconds = registration
            .metrics
            .shared_duration_summary(title, labels)?;
        Ok(Timer(Some(seconds)))
    }
}

impl Timer {
    /// Measures the time of `work`.
    pub fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let time = self.start();
        let outcome = work();
        drop(time);
        outcome
    }

    /// Measures the time until the returned value is dropped.
    #[must_use]
    pub fn start(&self) -> Option<Stopwatch> {
        self.0.as_ref().map(DurationSummary::start)
    }

    /// Adds a time that was measured elsewhere.
    pub fn observe(&self, took: Duration) {
        self.0.iter().for_each(|it| it.observe(took));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_exported_under_jinas_name_with_a_label_for_the_process() {
        let metrics = Registry::new();
        let monitor = Monitor::new(&metrics, "enc/rep-1");
        let timer = || monitor.timer("tokenize_seconds", "Time.").unwrap();
        assert_eq!(timer().time(|| 7), 7);
        timer().observe(Duration::from_secs(2));
        let text = metrics.text();
        let expected = "jina_tokenize_seconds_count{runtime_name=\"enc/rep-1\"} 2\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn without_monitoring_nothing_is_measured() {
        let timer = Monitor::default().timer("x", "").unwrap();
        assert_eq!(timer.time(|| 7), 7);
        assert!(timer.start().is_none());
    }
}
