//! How the flow file changes the batching of an endpoint or method.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use flow_core::batching::{BatchMetric, BatchingRule, TwoMetrics};
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::sdk::{Batching, Fit};

/// The size of a batch if the flow file gives none, as in Jina.
const SIZE_DEFAULT: NonZeroUsize = NonZeroUsize::new(4).expect("4 is not zero");

/// How long a document waits if the flow file gives no time, as in Jina.
const WAIT_DEFAULT: Duration = Duration::from_secs(10);

/// The batching of one endpoint or method, with Jina's names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct BatchingOverride {
    rule: BatchingRule,
    /// The unit of sizes, if the rule names one.
    metric: Option<BatchMetric>,
}

/// A batching that is not valid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BadBatchingOverride {
    #[error("the batching of `{name}` is invalid")]
    Value {
        name: String,
        source: serde_json::Error,
    },
    #[error("the batching of `{name}` has `use_custom_metric` and another `metric`; leave one out")]
    TwoMetrics { name: String, source: TwoMetrics },
}

impl BatchingOverride {
    /// Rules by endpoint or method.
    pub(crate) fn all(
        overrides: &Map<String, Value>,
    ) -> Result<BTreeMap<String, Self>, BadBatchingOverride> {
        let rule = |(name, value): (&String, &Value)| {
            let rule =
                BatchingRule::deserialize(value).map_err(|source| BadBatchingOverride::Value {
                    name: name.clone(),
                    source,
                })?;
            let metric = rule
                .metric()
                .map_err(|source| BadBatchingOverride::TwoMetrics {
                    name: name.clone(),
                    source,
                })?;
            Ok((name.clone(), Self { rule, metric }))
        };
        overrides.iter().map(rule).collect()
    }

    /// The batching of a method whose author chose `own`; `None` turns batching off.
    pub(crate) fn apply_to(&self, own: Option<Batching>) -> Option<Batching> {
        if self.rule.use_dynamic_batching == Some(false) {
            return None;
        }
        let own = own.unwrap_or(Batching {
            size: SIZE_DEFAULT,
            wait_max: WAIT_DEFAULT,
            metric: BatchMetric::Documents,
            fit: Fit::Exact,
        });
        Some(Batching {
            size: self.rule.preferred_batch_size.unwrap_or(own.size),
            wait_max: self
                .rule
                .timeout
                .map_or(own.wait_max, Duration::from_millis),
            metric: self.metric.unwrap_or(own.metric),
            fit: match self.rule.flush_all {
                Some(true) => Fit::All,
                Some(false) => Fit::Exact,
                None => own.fit,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn overrides(value: Value) -> Result<BatchingOverride, String> {
        let map = Map::from_iter([("/encode".to_owned(), value)]);
        let mut all =
            BatchingOverride::all(&map).map_err(|error| flow_core::Chain(&error).to_string())?;
        Ok(all.remove("/encode").unwrap())
    }

    #[track_caller]
    fn check(
        value: Value,
        own: Option<Batching>,
        expected: Option<(usize, u64, BatchMetric, Fit)>,
    ) {
        let rule = overrides(value).unwrap().apply_to(own);
        let expected = expected.map(|(size, wait_ms, metric, fit)| Batching {
            size: NonZeroUsize::new(size).unwrap(),
            wait_max: Duration::from_millis(wait_ms),
            metric,
            fit,
        });
        assert_eq!(rule, expected);
    }

    #[test]
    fn defaults_of_batching_come_from_the_executor_and_then_from_jina() {
        use BatchMetric::{Bytes, Custom, Documents};
        use Fit::{All, Exact, Requests};
        let own = Some(Batching {
            metric: BatchMetric::Custom,
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
    fn a_batching_that_is_not_valid_is_reported_with_its_name() {
        let check = |value: Value, parts: &[&str]| {
            let error = overrides(value).unwrap_err();
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
