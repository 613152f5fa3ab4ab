//! Metrics of an executor's own, for `self.monitor`.

use flow_executor::{Monitor, Stopwatch};
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

#[pymethods]
impl ExecutorMonitor {
    /// Starts a timer that is exported as the summary `jina_<name>`.
    fn start(&self, name: &str, documentation: &str) -> PyResult<RunningTimer> {
        let timer = self.0.timer(name, documentation);
        let timer = timer.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(RunningTimer(timer.start()))
    }
}

#[pymethods]
impl RunningTimer {
    fn stop(&mut self) {
        drop(self.0.take());
    }
}
