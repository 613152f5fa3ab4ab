//! A metric of any kind, and all metrics of one name.

use std::sync::Arc;

use crate::histogram::{DurationHistogram, Observed, SizeHistogram, ValueHistogram};
use crate::metric::{Counter, DurationSummary, FloatCounter, FloatGauge, Gauge, SizeSummary};

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

/// Labels that a metric keeps.
pub type OwnedLabels = Arc<[(String, String)]>;

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
    /// How long things took, and how often about that long.
    DurationHistogram(DurationHistogram),
    /// How many there were, and how often about as many.
    SizeHistogram(SizeHistogram),
    /// A sum of numbers.
    FloatCounter(FloatCounter),
    /// A number.
    FloatGauge(FloatGauge),
    /// How large numbers were, and how often about that large.
    ValueHistogram(ValueHistogram),
}

/// What Prometheus calls the type of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MetricKind {
    /// A number that only grows.
    Counter,
    /// A number that may also become smaller.
    Gauge,
    /// A count and a sum.
    Summary,
    /// How many values are how large.
    Histogram,
}

/// All metrics of one name.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    pub(crate) name: Arc<str>,
    pub(crate) help: Arc<str>,
    pub(crate) members: Vec<(OwnedLabels, Metric)>,
    /// Registered by an executor's author, who gets the same metric for the same name.
    pub(crate) is_shared: bool,
}

/// The values of all metrics of one name, at one time.
#[derive(Debug)]
pub struct Values {
    /// The name, as Prometheus reads it.
    pub name: Arc<str>,
    /// A sentence for people who read it.
    pub help: Arc<str>,
    /// The type of all of them.
    pub kind: MetricKind,
    /// The value of each, with its labels.
    pub samples: Vec<(OwnedLabels, Value)>,
}

/// The value of a metric.
#[derive(Debug)]
pub enum Value {
    /// Of a counter or a gauge.
    Number(f64),
    /// Of a summary, which has no quantiles.
    Summary {
        /// How many values there were.
        count: u64,
        /// Their sum.
        sum: f64,
    },
    /// Of a histogram.
    Histogram(Box<Observed>),
}

/// The label of the metric that stands for all that find no room.
const OVERFLOW: [&str; 2] = ["otel_metric_overflow", "true"];

pub(crate) fn owned(labels: Labels<'_>) -> OwnedLabels {
    let pairs = labels.iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

impl Family {
    pub(crate) fn new(
        description: Description<'_>,
        member: (OwnedLabels, Metric),
        is_shared: bool,
    ) -> Self {
        Self {
            name: description.name.into(),
            help: description.help.into(),
            members: vec![member],
            is_shared,
        }
    }

    /// Adds a metric of this kind with these labels.
    pub(crate) fn add<M: SharedMetric>(&mut self, labels: OwnedLabels) -> M {
        let metric = M::default();
        self.members.push((labels, metric.clone().into()));
        metric
    }

    /// The labels of the metric that stands for all that find no room: those that all others have, and one that
    /// OpenTelemetry has for this.
    pub(crate) fn overflow_labels(&self) -> OwnedLabels {
        let mut labels = self.members.iter().map(|(labels, _)| labels);
        let first = labels.next().into_iter().flat_map(|it| it.iter());
        let common = first.filter(|pair| labels.clone().all(|own| own.contains(pair)));
        let overflow = OVERFLOW.map(str::to_owned);
        common.cloned().chain([overflow.into()]).collect()
    }

    /// The metric of this kind with these labels.
    pub(crate) fn shared<M: SharedMetric>(&self, labels: Labels<'_>) -> Option<M> {
        let is_same = |own: &OwnedLabels| {
            let own = own.iter().map(|(name, value)| (&**name, &**value));
            own.eq(labels.iter().copied())
        };
        let mut members = self.members.iter();
        let (_, metric) = members.find(|(own, _)| is_same(own))?;
        M::of(metric).cloned()
    }

    /// The current values.
    pub(crate) fn read(self) -> Option<Values> {
        let kind = self.members.first()?.1.kind();
        let members = self.members.into_iter();
        Some(Values {
            name: self.name,
            help: self.help,
            kind,
            samples: members.map(|(labels, it)| (labels, it.read())).collect(),
        })
    }
}

impl Metric {
    fn kind(&self) -> MetricKind {
        match self {
            Self::Counter(_) | Self::FloatCounter(_) => MetricKind::Counter,
            Self::Gauge(_) | Self::FloatGauge(_) => MetricKind::Gauge,
            Self::Durations(_) | Self::Sizes(_) => MetricKind::Summary,
            Self::DurationHistogram(_) | Self::SizeHistogram(_) | Self::ValueHistogram(_) => {
                MetricKind::Histogram
            }
        }
    }

    #[allow(
        clippy::cast_precision_loss,
        reason = "Prometheus' own numbers are floats"
    )]
    fn read(&self) -> Value {
        match self {
            Self::Counter(counter) => Value::Number(counter.get() as f64),
            Self::Gauge(gauge) => Value::Number(gauge.get() as f64),
            Self::Durations(durations) => {
                let (count, sum) = durations.get();
                let sum = sum.as_secs_f64();
                Value::Summary { count, sum }
            }
            Self::Sizes(sizes) => {
                let (count, sum) = sizes.get();
                let sum = sum as f64;
                Value::Summary { count, sum }
            }
            Self::DurationHistogram(durations) => Value::Histogram(Box::new(durations.read())),
            Self::SizeHistogram(sizes) => Value::Histogram(Box::new(sizes.read())),
            Self::FloatCounter(counter) => Value::Number(counter.get()),
            Self::FloatGauge(gauge) => Value::Number(gauge.get()),
            Self::ValueHistogram(values) => Value::Histogram(Box::new(values.read())),
        }
    }
}

impl MetricKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Summary => "summary",
            Self::Histogram => "histogram",
        }
    }
}

/// A metric that an executor's author may ask for again by its name.
pub trait SharedMetric: Clone + Default + Into<Metric> {
    /// The metric, if it is of this kind.
    fn of(metric: &Metric) -> Option<&Self>;
}

/// Makes each kind a [`Metric`], and lets it be found again.
macro_rules! kinds {
    ($($type:ident => $variant:ident),+ $(,)?) => {$(
        impl From<$type> for Metric {
            fn from(metric: $type) -> Self {
                Self::$variant(metric)
            }
        }

        impl SharedMetric for $type {
            fn of(metric: &Metric) -> Option<&Self> {
                match metric {
                    Metric::$variant(metric) => Some(metric),
                    _ => None,
                }
            }
        }
    )+};
}

kinds! {
    Counter => Counter,
    Gauge => Gauge,
    DurationSummary => Durations,
    SizeSummary => Sizes,
    DurationHistogram => DurationHistogram,
    SizeHistogram => SizeHistogram,
    FloatCounter => FloatCounter,
    FloatGauge => FloatGauge,
    ValueHistogram => ValueHistogram,
}
