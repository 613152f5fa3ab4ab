//! A rule of dynamic batching, as flow files state it and executors receive it.

use std::num::NonZeroUsize;

use serde::{Deserialize, Serialize};

/// How requests to an endpoint share calls, with Jina's names. The executor decides about what is `None`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BatchingRule {
    /// Size of a batch, counted in `metric`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preferred_batch_size: Option<NonZeroUsize>,
    /// How long the oldest document waits for others, in milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u64>,
    /// A full batch takes everything that has gathered, even if it is more than the size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_all: Option<bool>,
    /// Sizes are the weights that the executor gives documents.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_custom_metric: Option<bool>,
    /// What sizes count. Only flow has this key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metric: Option<BatchMetric>,
    /// Whether the rule applies.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub use_dynamic_batching: Option<bool>,
}

/// What the size of a batch counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BatchMetric {
    /// Documents.
    #[default]
    Documents,
    /// Bytes of the documents' messages.
    Bytes,
    /// The executor's own weight of each document, such as its number of tokens.
    Custom,
}

/// `use_custom_metric` and `metric` of a rule contradict each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("`use_custom_metric` and `metric` say different things")]
pub struct TwoMetrics;

impl BatchingRule {
    /// What sizes count, from `metric` and `use_custom_metric`; `None` if neither is set.
    ///
    /// # Errors
    ///
    /// If the two contradict each other.
    pub fn metric(&self) -> Result<Option<BatchMetric>, TwoMetrics> {
        let custom = self.use_custom_metric;
        match (custom, self.metric) {
            (Some(custom), Some(metric)) if custom != (metric == BatchMetric::Custom) => {
                Err(TwoMetrics)
            }
            (_, Some(metric)) => Ok(Some(metric)),
            (Some(true), None) => Ok(Some(BatchMetric::Custom)),
            (Some(false), None) => Ok(Some(BatchMetric::Documents)),
            (None, None) => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_keys_of_the_metric_must_agree() {
        use BatchMetric::{Bytes, Custom, Documents};
        let check = |use_custom_metric, metric, expected| {
            let rule = BatchingRule {
                use_custom_metric,
                metric,
                ..BatchingRule::default()
            };
            assert_eq!(rule.metric(), expected, "{rule:?}");
        };
        check(None, None, Ok(None));
        check(None, Some(Bytes), Ok(Some(Bytes)));
        check(Some(true), None, Ok(Some(Custom)));
        check(Some(false), None, Ok(Some(Documents)));
        check(Some(true), Some(Custom), Ok(Some(Custom)));
        check(Some(true), Some(Bytes), Err(TwoMetrics));
        check(Some(false), Some(Custom), Err(TwoMetrics));
    }
}
