//! Values that are computed at each scrape instead of being counted as they change.

use std::fmt;
use std::sync::Arc;

use crate::family::{Description, Labels, MetricKind, Value, Values, owned};

/// Supplies values at each scrape.
#[derive(Clone)]
pub(crate) struct ScrapeCallback(pub(crate) Arc<dyn Fn(&mut Collected) + Send + Sync>);

impl fmt::Debug for ScrapeCallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ScrapeCallback")
    }
}

/// The values that were looked up.
#[derive(Debug, Default)]
pub struct Collected(pub(crate) Vec<Values>);

impl Collected {
    /// Adds a number that only grows.
    pub fn counter(&mut self, description: Description<'_>, labels: Labels<'_>, value: f64) {
        self.add((MetricKind::Counter, description), labels, value);
    }

    /// Adds a number that may also become smaller.
    pub fn gauge(&mut self, description: Description<'_>, labels: Labels<'_>, value: f64) {
        self.add((MetricKind::Gauge, description), labels, value);
    }

    fn add(
        &mut self,
        (kind, description): (MetricKind, Description<'_>),
        labels: Labels<'_>,
        value: f64,
    ) {
        let sample = (owned(labels), Value::Number(value));
        match self.0.iter_mut().find(|it| *it.name == *description.name) {
            Some(values) => values.samples.push(sample),
            None => self.0.push(Values {
                name: description.name.into(),
                help: description.help.into(),
                kind,
                samples: vec![sample],
            }),
        }
    }
}
