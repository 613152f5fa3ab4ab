//! Which rule of sharing calls holds for which endpoint: the executor's own, and what the flow file says.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::batch::{Batching, Fit, Metric};

/// Documents in a call where a rule of the flow file names no number, as in Jina.
const SIZE_DEFAULT: NonZeroUsize = NonZeroUsize::new(4).expect("4 is not zero");

/// How long a document waits where a rule of the flow file names no time, as in Jina.
const WAIT_DEFAULT: Duration = Duration::from_secs(10);

/// What the flow file says of one endpoint or method, with Jina's names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Written {
    preferred_batch_size: Option<NonZeroUsize>,
    /// Milliseconds.
    timeout: Option<u64>,
    flush_all: Option<bool>,
    use_custom_metric: Option<bool>,
    metric: Option<Metric>,
    use_dynamic_batching: Option<bool>,
}

/// What is written makes no sense.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadRule {
    #[error("the batching of `{place}` is wrong: {reason}")]
    Value { place: String, reason: String },
    #[error(
        "the batching of `{place}` says `use_custom_metric` and another `metric`; leave one out"
    )]
    TwoMetrics { place: String },
}

impl Written {
    /// Rules by endpoint or method.
    pub(crate) fn all(written: &Map<String, Value>) -> Result<BTreeMap<String, Self>, BadRule> {
        let rule = |(place, value): (&String, &Value)| {
            let rule = Self::deserialize(value).map_err(|error| BadRule::Value {
                place: place.clone(),
                reason: error.to_string(),
            })?;
            rule.check(place)?;
            Ok((place.clone(), rule))
        };
        written.iter().map(rule).collect()
    }

    fn check(&self, place: &str) -> Result<(), BadRule> {
        match (self.use_custom_metric, self.metric) {
            (Some(true), Some(Metric::Documents | Metric::Bytes))
            | (Some(false), Some(Metric::Custom)) => Err(BadRule::TwoMetrics {
                place: place.to_owned(),
            }),
            _ => Ok(()),
        }
    }

    /// The rule that holds where the executor's own is `own`; none: no batching but the runtime's own.
    pub(crate) fn over(&self, own: Option<Batching>) -> Option<Batching> {
        if self.use_dynamic_batching == Some(false) {
            return None;
        }
        let own = own.unwrap_or(Batching {
            size: SIZE_DEFAULT,
            wait_max: WAIT_DEFAULT,
            metric: Metric::Documents,
            fit: Fit::Exact,
        });
        Some(Batching {
            size: self.preferred_batch_size.unwrap_or(own.size),
            wait_max: self.timeout.map_or(own.wait_max, Duration::from_millis),
            metric: self.metric().unwrap_or(own.metric),
            fit: match self.flush_all {
                Some(true) => Fit::All,
                Some(false) => Fit::Exact,
                None => own.fit,
            },
        })
    }

    fn metric(&self) -> Option<Metric> {
        self.metric.or(match self.use_custom_metric {
            Some(true) => Some(Metric::Custom),
            Some(false) => Some(Metric::Documents),
            None => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(value: Value) -> Result<Written, String> {
        let map = Map::from_iter([("/encode".to_owned(), value)]);
        let mut all = Written::all(&map).map_err(|error| error.to_string())?;
        Ok(all.remove("/encode").unwrap())
    }

    #[track_caller]
    fn check(value: Value, own: Option<Batching>, expected: Option<(usize, u64, Metric, Fit)>) {
        let rule = written(value).unwrap().over(own);
        let expected = expected.map(|(size, wait_ms, metric, fit)| Batching {
            size: NonZeroUsize::new(size).unwrap(),
            wait_max: Duration::from_millis(wait_ms),
            metric,
            fit,
        });
        assert_eq!(rule, expected);
    }

    #[test]
    fn what_is_not_written_is_the_executors_or_else_jinas() {
        use Fit::{All, Exact, Requests};
        use Metric::{Bytes, Custom, Documents};
        let own = Some(Batching {
            metric: Metric::Custom,
            ..Batching::default()
        });
        check(json!({}), None, Some((4, 10_000, Documents, Exact)));
        check(json!({}), own, Some((256, 0, Custom, Requests)));
        check(
            json!({"preferred_batch_size": 32, "timeout": 5, "flush_all": true}),
            own,
            Some((32, 5, Custom, All)),
        );
        check(
            json!({"use_custom_metric": false, "flush_all": false}),
            own,
            Some((256, 0, Documents, Exact)),
        );
        check(
            json!({"use_custom_metric": true}),
            None,
            Some((4, 10_000, Custom, Exact)),
        );
        check(
            json!({"metric": "bytes"}),
            own,
            Some((256, 0, Bytes, Requests)),
        );
        check(json!({"use_dynamic_batching": false}), own, None);
    }

    #[test]
    fn what_makes_no_sense_is_told_with_its_place() {
        let check = |value: Value, parts: &[&str]| {
            let error = written(value).unwrap_err();
            for part in parts {
                assert!(error.contains(part), "{error:?} does not say {part:?}");
            }
        };
        check(
            json!({"prefered": 1}),
            &["`/encode`", "unknown field `prefered`"],
        );
        check(
            json!({"preferred_batch_size": 0}),
            &["`/encode`", "nonzero"],
        );
        check(
            json!({"use_custom_metric": true, "metric": "bytes"}),
            &["`/encode`", "`metric`", "leave one out"],
        );
    }
}
