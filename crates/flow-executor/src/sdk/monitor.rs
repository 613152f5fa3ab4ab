//! Metrics of an executor's own, in addition to those that every executor has.

use std::time::Duration;

use flow_metrics::{
    BadMetricName, Counter, Description, DurationHistogram, DurationSummary, Labels, Registry,
    SharedMetric, SizeHistogram, Stopwatch,
};

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

/// Measures times, and exports how many took about how long. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Durations(Option<DurationHistogram>);

/// Counts how often there were about how many of something. Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Sizes(Option<SizeHistogram>);

/// Counts events. Clones share the count.
#[derive(Debug, Clone, Default)]
pub struct Count(Option<Counter>);

impl Monitor {
    pub(crate) fn new(metrics: &Registry, runtime_name: &str) -> Self {
        Self(Some(Registration {
            metrics: metrics.clone(),
            runtime_name: runtime_name.to_owned(),
        }))
    }

    /// Whether anything is measured.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.0.is_some()
    }

    /// A timer that is exported as the summary `jina_<name>`. Call this while the executor loads. The same name, for
    /// example in another worker, returns the same timer.
    ///
    /// # Errors
    ///
    /// If the name is not valid in Prometheus, or every executor has a metric of this name. Without monitoring every name
    /// is accepted.
    pub fn timer(&self, name: &str, help: &str) -> Result<Timer, BadMetricName> {
        Ok(Timer(self.shared(&format!("jina_{name}"), help)?))
    }

    /// A histogram of times, exported in seconds under this name, which should end in `_seconds`. Call this while the executor
    /// loads. The same name returns the same histogram.
    ///
    /// # Errors
    ///
    /// If the name is not valid in Prometheus, or another metric has it. Without monitoring every name is accepted.
    pub fn durations(&self, name: &str, help: &str) -> Result<Durations, BadMetricName> {
        Ok(Durations(self.shared(name, help)?))
    }

    /// A histogram of numbers, such as those of words of a document, exported under this name. Call this while the executor
    /// loads. The same name returns the same histogram.
    ///
    /// # Errors
    ///
    /// If the name is not valid in Prometheus, or another metric has it. Without monitoring every name is accepted.
    pub fn sizes(&self, name: &str, help: &str) -> Result<Sizes, BadMetricName> {
        Ok(Sizes(self.shared(name, help)?))
    }

    /// A counter, exported under this name, which should end in `_total`. Call this while the executor loads. The same name
    /// returns the same counter.
    ///
    /// # Errors
    ///
    /// If the name is not valid in Prometheus, or another metric has it. Without monitoring every name is accepted.
    pub fn count(&self, name: &str, help: &str) -> Result<Count, BadMetricName> {
        Ok(Count(self.shared(name, help)?))
    }

    /// A metric of any kind under this name, with labels of its own. The same name and labels return the same metric. A name has
    /// at most [`MEMBERS_MAX`](flow_metrics::MEMBERS_MAX) metrics; all further labels share one. `None` without monitoring.
    ///
    /// # Errors
    ///
    /// If the name is not valid in Prometheus, or another metric has it.
    pub fn labelled<M: SharedMetric>(
        &self,
        (name, help): (&str, &str),
        own: Labels<'_>,
    ) -> Result<Option<M>, BadMetricName> {
        let Some(registration) = &self.0 else {
            return Ok(None);
        };
        let runtime = ("runtime_name", registration.runtime_name.as_str());
        let labels: Vec<_> = std::iter::once(runtime)
            .chain(own.iter().copied())
            .collect();
        let title = Description { name, help };
        registration.metrics.shared(title, &labels).map(Some)
    }

    fn shared<M: SharedMetric>(&self, name: &str, help: &str) -> Result<Option<M>, BadMetricName> {
        self.labelled((name, help), &[])
    }
}

impl Count {
    /// Adds a number of events.
    pub fn add(&self, events: usize) {
        self.0.iter().for_each(|it| it.add(events));
    }
}

/// How a type that may hold a metric of times measures them.
macro_rules! measures_times {
    ($($type:ident by $metric:ident),+) => {$(
        impl $type {
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
                self.0.as_ref().map($metric::start)
            }

            /// Adds a time that was measured elsewhere.
            pub fn observe(&self, took: Duration) {
                self.0.iter().for_each(|it| it.observe(took));
            }
        }
    )+};
}

measures_times!(Timer by DurationSummary, Durations by DurationHistogram);

impl Sizes {
    /// Adds a number.
    pub fn observe(&self, size: usize) {
        self.0.iter().for_each(|it| it.observe(size));
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
    fn histograms_have_the_names_that_the_author_chose() {
        let metrics = Registry::new();
        let monitor = Monitor::new(&metrics, "enc/rep-1");
        let durations = monitor.durations("parse_seconds", "Time.").unwrap();
        durations.observe(Duration::from_millis(2));
        assert_eq!(durations.time(|| 7), 7);
        monitor.sizes("words", "Words.").unwrap().observe(3);
        let text = metrics.text();
        let expected = "parse_seconds_bucket{runtime_name=\"enc/rep-1\",le=\"0.0025\"} 2\n";
        assert!(text.contains(expected), "{text}");
        assert!(
            text.contains("words_sum{runtime_name=\"enc/rep-1\"} 3\n"),
            "{text}"
        );
        assert!(monitor.sizes("parse_seconds", "").is_err());
    }

    #[test]
    fn without_monitoring_nothing_is_measured() {
        let timer = Monitor::default().timer("x", "").unwrap();
        assert_eq!(timer.time(|| 7), 7);
        assert!(timer.start().is_none());
    }
}
