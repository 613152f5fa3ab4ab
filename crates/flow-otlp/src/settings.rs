//! What a process exports, and where to: what its options and the variables of OpenTelemetry say. Pure.

mod collector;
mod place;
mod target;
#[cfg(test)]
mod tests;
mod variables;

use std::collections::BTreeMap;
use std::time::Duration;

use flow_trace::Sampling;

use self::variables::{Variables, bad};

pub use self::collector::Collector;
pub use self::place::Place;
pub use self::target::{ExportTarget, OtlpProtocol};
pub use self::variables::BadExportSetting;
pub(crate) use self::variables::Signal;

/// The beginning of the names of all variables that are read.
const PREFIX: &str = "OTEL_";

/// What the options of a process ask for. Variables may ask for more, and log records are asked for by them only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requested {
    /// Where spans are exported; `None` disables the export.
    pub traces: Option<Collector>,
    /// Where metrics are exported; `None` disables the export.
    pub metrics: Option<Collector>,
}

/// What a process exports. By default, nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ExportSettings {
    /// The name of the process, such as `encoder/rep-0`.
    pub runtime_name: String,
    /// Whether a variable names the service, and not the runtime name.
    pub is_named: bool,
    /// How spans are exported; `None` if they are not.
    pub traces: Option<TraceSettings>,
    /// How metrics are exported; `None` if they are not.
    pub metrics: Option<MetricSettings>,
    /// How log records are exported; `None` if they are not.
    pub logs: Option<RecordSettings>,
    /// Where in a cluster the process runs.
    pub place: Place,
}

/// How spans are made and exported.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// Where to.
    pub target: ExportTarget,
    /// Which requests that belong to no trace yet are recorded.
    pub sampling: Sampling,
    /// How spans wait.
    pub batches: BatchSettings,
}

/// How metrics are exported.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSettings {
    /// Where to.
    pub target: ExportTarget,
    /// Time between two exports.
    pub interval: Duration,
    /// How long an export may take.
    pub timeout: Duration,
    /// The form of histograms.
    pub histograms: Histograms,
}

/// How log records are exported.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordSettings {
    /// Where to.
    pub target: ExportTarget,
    /// How records wait.
    pub batches: BatchSettings,
}

/// How what comes one by one waits for its export.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchSettings {
    /// How many may wait.
    pub queue_max: usize,
    /// How many are exported at once.
    pub batch_max: usize,
    /// How long one waits for others.
    pub delay: Duration,
    /// How long an export may take.
    pub timeout: Duration,
}

/// The form of histograms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Histograms {
    /// Buckets whose bounds grow by a constant factor, as those of Prometheus' native histograms.
    Exponential,
    /// The buckets of Prometheus' classic histograms.
    Explicit,
}

impl ExportSettings {
    /// The settings of a process with this name. The collector of the flow file wins over that of the variables, which can turn
    /// each export on and off.
    ///
    /// # Errors
    ///
    /// If a variable has a value that is not known here.
    pub fn new(
        runtime_name: impl Into<String>,
        requested: &Requested,
        environment: &BTreeMap<String, String>,
    ) -> Result<Self, BadExportSetting> {
        let variables = Variables(environment);
        let traces = variables.collector(Signal::Traces, requested.traces.as_ref())?;
        let traces = traces.map(|it| variables.traces(&it)).transpose()?;
        let metrics = variables.collector(Signal::Metrics, requested.metrics.as_ref())?;
        let metrics = metrics.map(|it| variables.metrics(&it)).transpose()?;
        let logs = variables.collector(Signal::Logs, None)?;
        let logs = logs.map(|it| variables.logs(&it)).transpose()?;
        Ok(Self {
            runtime_name: runtime_name.into(),
            is_named: variables.get("OTEL_SERVICE_NAME").is_some(),
            traces,
            metrics,
            logs,
            place: Place::new(environment),
        })
    }

    /// The variables of an environment that are read here.
    #[must_use]
    pub fn variables(
        environment: impl IntoIterator<Item = (String, String)>,
    ) -> BTreeMap<String, String> {
        let all = environment.into_iter();
        all.filter(|(name, _)| name.starts_with(PREFIX) || Place::is_named_by(name))
            .collect()
    }
}

/// The names of the variables of one kind of batches.
struct BatchNames {
    queue_max: &'static str,
    batch_max: &'static str,
    delay: (&'static str, u64),
    timeout: &'static str,
}

impl Variables<'_> {
    fn traces(&self, collector: &Collector) -> Result<TraceSettings, BadExportSetting> {
        let target = ExportTarget::new(Signal::Traces, collector, self)?;
        let names = BatchNames {
            queue_max: "OTEL_BSP_MAX_QUEUE_SIZE",
            batch_max: "OTEL_BSP_MAX_EXPORT_BATCH_SIZE",
            delay: ("OTEL_BSP_SCHEDULE_DELAY", 5_000),
            timeout: "OTEL_BSP_EXPORT_TIMEOUT",
        };
        Ok(TraceSettings {
            batches: self.batches(&names, target.request_max)?,
            sampling: self.sampling()?,
            target,
        })
    }

    fn logs(&self, collector: &Collector) -> Result<RecordSettings, BadExportSetting> {
        let target = ExportTarget::new(Signal::Logs, collector, self)?;
        let names = BatchNames {
            queue_max: "OTEL_BLRP_MAX_QUEUE_SIZE",
            batch_max: "OTEL_BLRP_MAX_EXPORT_BATCH_SIZE",
            delay: ("OTEL_BLRP_SCHEDULE_DELAY", 1_000),
            timeout: "OTEL_BLRP_EXPORT_TIMEOUT",
        };
        Ok(RecordSettings {
            batches: self.batches(&names, target.request_max)?,
            target,
        })
    }

    fn batches(
        &self,
        names: &BatchNames,
        request_max: Duration,
    ) -> Result<BatchSettings, BadExportSetting> {
        let queue_max = self.number(names.queue_max, 2048)?.max(1);
        let (delay, default) = names.delay;
        Ok(BatchSettings {
            queue_max,
            batch_max: self.number(names.batch_max, 512)?.clamp(1, queue_max),
            delay: self.milliseconds(delay, default)?,
            timeout: self.milliseconds(names.timeout, 30_000)?.min(request_max),
        })
    }

    fn metrics(&self, collector: &Collector) -> Result<MetricSettings, BadExportSetting> {
        const TEMPORALITY: &str = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        const INTERVAL: &str = "OTEL_METRIC_EXPORT_INTERVAL";
        let target = ExportTarget::new(Signal::Metrics, collector, self)?;
        let temporality = self.get(TEMPORALITY);
        if let Some(other) = temporality.filter(|it| !it.eq_ignore_ascii_case("cumulative")) {
            let expected = "expected `cumulative`; a collector can convert its values";
            return Err(bad(TEMPORALITY, other, expected));
        }
        let interval = self.milliseconds(INTERVAL, 60_000)?;
        if interval.is_zero() {
            return Err(bad(INTERVAL, "0", "expected milliseconds, at least 1"));
        }
        let timeout = self.milliseconds("OTEL_METRIC_EXPORT_TIMEOUT", 30_000)?;
        Ok(MetricSettings {
            timeout: timeout.min(target.request_max),
            target,
            interval,
            histograms: self.histograms()?,
        })
    }

    /// Exponential ones by default, unlike the standard's: they are what is counted, and no query interpolates.
    fn histograms(&self) -> Result<Histograms, BadExportSetting> {
        const NAME: &str = "OTEL_EXPORTER_OTLP_METRICS_DEFAULT_HISTOGRAM_AGGREGATION";
        match self.get(NAME) {
            None | Some("base2_exponential_bucket_histogram") => Ok(Histograms::Exponential),
            Some("explicit_bucket_histogram") => Ok(Histograms::Explicit),
            Some(other) => Err(bad(
                NAME,
                other,
                "expected `base2_exponential_bucket_histogram` or `explicit_bucket_histogram`",
            )),
        }
    }

    fn sampling(&self) -> Result<Sampling, BadExportSetting> {
        const SAMPLER: &str = "OTEL_TRACES_SAMPLER";
        const EXPECTED: &str = "expected `always_on`, `always_off` or `traceidratio`, or one of them after `parentbased_`";
        let name = self.get(SAMPLER).unwrap_or("parentbased_always_on");
        let root = name.strip_prefix("parentbased_");
        let ratio = match root.unwrap_or(name) {
            "always_on" => 1.0,
            "always_off" => 0.0,
            "traceidratio" => self.ratio()?,
            _ => return Err(bad(SAMPLER, name, EXPECTED)),
        };
        Ok(Sampling {
            ratio,
            follows_parent: root.is_some(),
        })
    }

    fn ratio(&self) -> Result<f64, BadExportSetting> {
        const ARGUMENT: &str = "OTEL_TRACES_SAMPLER_ARG";
        let Some(text) = self.get(ARGUMENT) else {
            return Ok(1.0);
        };
        let ratio = text.parse().ok();
        let ratio = ratio.filter(|it| (0.0..=1.0).contains(it));
        ratio.ok_or_else(|| bad(ARGUMENT, text, "expected a number from 0 to 1"))
    }
}
