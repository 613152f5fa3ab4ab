//! Metrics of an executor's own, for `self.monitor` and `self.meter`.

use flow_executor::{BadMetricName, FloatCounter, FloatGauge, Monitor, Stopwatch, ValueHistogram};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

/// Makes timers; see [`Monitor`].
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug, Default)]
pub(crate) struct ExecutorMonitor(pub(super) Monitor);

/// Measures the time until it is stopped.
#[pyclass(module = "flow_serve._native")]
#[derive(Debug)]
pub(crate) struct RunningTimer(Option<Stopwatch>);

#[allow(
    clippy::needless_pass_by_value,
    reason = "PyO3 makes the arguments of what Python calls"
)]
#[pymethods]
impl ExecutorMonitor {
    /// Starts a timer that is exported as the summary `jina_<name>`.
    fn start(&self, name: &str, documentation: &str) -> PyResult<RunningTimer> {
        let timer = self.0.timer(name, documentation);
        Ok(RunningTimer(timer.map_err(bad_name)?.start()))
    }

    /// A sum of numbers with these labels.
    fn counter(
        &self,
        name: &str,
        help: &str,
        labels: Vec<(String, String)>,
    ) -> PyResult<MetricCounter> {
        let metric = self.0.labelled((name, help), &borrowed(&labels));
        metric.map(MetricCounter).map_err(bad_name)
    }

    /// A number with these labels.
    fn gauge(
        &self,
        name: &str,
        help: &str,
        labels: Vec<(String, String)>,
    ) -> PyResult<MetricGauge> {
        let metric = self.0.labelled((name, help), &borrowed(&labels));
        metric.map(MetricGauge).map_err(bad_name)
    }

    /// How large numbers are, with these labels.
    fn histogram(
        &self,
        name: &str,
        help: &str,
        labels: Vec<(String, String)>,
    ) -> PyResult<MetricHistogram> {
        let metric = self.0.labelled((name, help), &borrowed(&labels));
        metric.map(MetricHistogram).map_err(bad_name)
    }
}

/// A sum of numbers; nothing if nothing is measured.
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug)]
pub(crate) struct MetricCounter(Option<FloatCounter>);

/// A number that changes; nothing if nothing is measured.
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug)]
pub(crate) struct MetricGauge(Option<FloatGauge>);

/// How large numbers are; nothing if nothing is measured.
#[pyclass(module = "flow_serve._native", frozen)]
#[derive(Debug)]
pub(crate) struct MetricHistogram(Option<ValueHistogram>);

#[pymethods]
impl MetricCounter {
    fn add(&self, number: f64) {
        self.0.iter().for_each(|it| it.add(number));
    }
}

#[pymethods]
impl MetricGauge {
    fn add(&self, number: f64) {
        self.0.iter().for_each(|it| it.add(number));
    }

    fn set(&self, number: f64) {
        self.0.iter().for_each(|it| it.set(number));
    }
}

#[pymethods]
impl MetricHistogram {
    fn record(&self, number: f64) {
        self.0.iter().for_each(|it| it.observe(number));
    }
}

#[allow(clippy::needless_pass_by_value, reason = "what `map_err` wants")]
fn bad_name(error: BadMetricName) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn borrowed(labels: &[(String, String)]) -> Vec<(&str, &str)> {
    let labels = labels.iter();
    labels.map(|(name, value)| (&**name, &**value)).collect()
}

#[pymethods]
impl RunningTimer {
    fn stop(&mut self) {
        drop(self.0.take());
    }
}
