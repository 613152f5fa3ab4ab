//! A metric of any kind, and all metrics of one name.

use crate::metric::{Counter, DurationSummary, Gauge, SizeSummary};

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

/// All metrics of one name.
#[derive(Debug)]
pub(crate) struct Family {
    pub(crate) name: String,
    pub(crate) help: String,
    /// Each with its formatted labels.
    pub(crate) members: Vec<(String, Metric)>,
    /// Registered by an executor's author, who gets the same metric for the same name.
    pub(crate) is_shared: bool,
}

impl Family {
    pub(crate) fn new(
        description: Description<'_>,
        member: (String, Metric),
        is_shared: bool,
    ) -> Self {
        Self {
            name: description.name.to_owned(),
            help: description.help.to_owned(),
            members: vec![member],
            is_shared,
        }
    }
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
