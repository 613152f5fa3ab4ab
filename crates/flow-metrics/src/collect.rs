//! Values that are computed at each scrape instead of being counted as they change.

use std::fmt;
use std::sync::Arc;

use crate::family::{Description, Kind, Labels, Value, Values, owned};

/// Supplies values at each scrape.
#[derive(Clone)]
pub(crate) struct Collector(pub(crate) Arc<dyn Fn(&mut Collected) + Send + Sync>);

impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Collector")
    }
}

/// The values that were looked up.
#[derive(Debug, Default)]
pub struct Collected(pub(crate) Vec<Values>);

impl Collected {
    /// Adds a number that only grows.
    pub fn counter(&mut self, description: Description<'_>, labels: Labels<'_>, value: f64) {
        self.add((Kind::Counter, description), labels, value);
    }

    /// Adds a number that may also become smaller.
    pub fn gauge(&mut self, description: Description<'_>, labels: Labels<'_>, value: f64) {
        self.add((Kind::Gauge, description), labels, value);
    }

    fn add(
        &mut self,
        (kind, description): (Kind, Description<'_>),
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
