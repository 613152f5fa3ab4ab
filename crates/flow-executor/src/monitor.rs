//! Numbers of an executor's own, beside those that every executor shows.

use std::time::Duration;

use flow_metrics::{BadMetricName, Description, DurationSummary, Registry, Stopwatch};

/// Where an executor shows numbers of its own: Jina's `@monitor` and `self.monitor`.
///
/// A flow without `monitoring: true` gets one that counts nothing, so an executor need not ask.
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
///         let upper = context.monitor.timer("upper_seconds", "Time spent with capitals.")?;
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
pub struct Monitor(Option<Shown>);

#[derive(Debug, Clone)]
struct Shown {
    metrics: Registry,
    runtime_name: String,
}

/// Takes times, and shows how many and how long. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Timer(Option<DurationSummary>);

impl Monitor {
    pub(crate) fn new(metrics: &Registry, runtime_name: &str) -> Self {
        Self(Some(Shown {
            metrics: metrics.clone(),
            runtime_name: runtime_name.to_owned(),
        }))
    }

    /// A timer that is shown as the summary `jina_<name>`. To be asked for while the executor loads; whoever
    /// asks for a name again, such as the executor of another worker, gets the same timer.
    ///
    /// # Errors
    ///
    /// If Prometheus would not read the name, or every executor counts something under it. A flow that is not
    /// monitored accepts every name.
    pub fn timer(&self, name: &str, help: &str) -> Result<Timer, BadMetricName> {
        let Some(shown) = &self.0 else {
            return Ok(Timer::default());
        };
        let name = format!("jina_{name}");
        let title = Description { name: &name, help };
        let labels = &[("runtime_name", shown.runtime_name.as_str())];
        let seconds = shown.metrics.shared_duration_summary(title, labels)?;
        Ok(Timer(Some(seconds)))
    }
}

impl Timer {
    /// Takes the time of `work`, whatever comes of it.
    pub fn time<R>(&self, work: impl FnOnce() -> R) -> R {
        let time = self.start();
        let outcome = work();
        drop(time);
        outcome
    }

    /// Takes the time until what this returns is dropped.
    #[must_use]
    pub fn start(&self) -> Option<Stopwatch> {
        self.0.as_ref().map(DurationSummary::start)
    }

    /// A time that was taken elsewhere.
    pub fn observe(&self, took: Duration) {
        self.0.iter().for_each(|it| it.observe(took));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timer_is_shown_under_jinas_name_with_the_process_beside_it() {
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
    fn a_flow_that_is_not_monitored_counts_nothing() {
        let timer = Monitor::default().timer("x", "").unwrap();
        assert_eq!(timer.time(|| 7), 7);
        assert!(timer.start().is_none());
    }
}
