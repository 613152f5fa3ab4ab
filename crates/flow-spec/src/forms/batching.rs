//! `uses_dynamic_batching`: endpoint or method → how requests share calls.

use std::num::NonZeroUsize;

use indexmap::IndexMap;

use super::form::{Shape, ValueForm};
use super::scalar::{entries, integer, mapping, reject, word};
use super::time;
use crate::diagnostics::{Diagnostics, Problem};
use crate::keys::{BATCHING_MAPPING, BatchingOptions, Options as _, Section};
use crate::values::{BatchMetric, BatchingRule};
use crate::yaml::YamlNode;

pub(crate) const BATCHING: ValueForm<IndexMap<String, BatchingRule>> =
    ValueForm::new(Shape::Batching, batching);
pub(crate) const BATCH_SIZE: ValueForm<NonZeroUsize> = ValueForm::new(Shape::Count, size);
pub(crate) const BATCH_TIMEOUT: ValueForm<u64> = ValueForm::new(Shape::Time, timeout);
pub(crate) const BATCH_METRIC: ValueForm<BatchMetric> =
    ValueForm::new(Shape::Word(&["documents", "bytes", "custom"]), metric);

fn batching(
    node: &YamlNode,
    diagnostics: &mut Diagnostics,
) -> Option<IndexMap<String, BatchingRule>> {
    let node = mapping(node, diagnostics)?;
    let rules = entries(&node, diagnostics)?.iter();
    let rules = rules.map(|entry| (entry.key.clone(), rule(&entry.value, diagnostics)));
    Some(rules.collect())
}

fn rule(node: &YamlNode, diagnostics: &mut Diagnostics) -> BatchingRule {
    let section = Section::read(Some(node), &BATCHING_MAPPING, diagnostics);
    let written = BatchingOptions::read(&section, diagnostics);
    let custom_span = written.use_custom_metric.as_ref().map(|it| it.span.clone());
    let rule = BatchingRule {
        preferred_batch_size: written.preferred_batch_size.map(|it| it.value),
        timeout: written.timeout.map(|it| it.value),
        flush_all: written.flush_all.map(|it| it.value),
        use_custom_metric: written.use_custom_metric.map(|it| it.value),
        metric: written.metric.map(|it| it.value),
        use_dynamic_batching: written.use_dynamic_batching.map(|it| it.value),
    };
    if let (Err(contradiction), Some(span)) = (rule.metric(), custom_span) {
        let problem = Problem::new(&span, contradiction.to_string());
        diagnostics.problem(problem.remedy("keep one of them"));
    }
    rule
}

fn metric(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<BatchMetric> {
    let words = [
        ("documents", BatchMetric::Documents),
        ("bytes", BatchMetric::Bytes),
        ("custom", BatchMetric::Custom),
    ];
    word(node, &words, diagnostics)
}

fn size(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<NonZeroUsize> {
    let number = integer(node).and_then(|number| usize::try_from(number).ok());
    let size = number.and_then(NonZeroUsize::new);
    size.or_else(|| reject(node, "a whole number, at least 1", diagnostics))
}

/// In milliseconds.
fn timeout(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<u64> {
    match time::time(node, diagnostics)? {
        Some(time) => u64::try_from(time.as_millis()).ok(),
        None => {
            let message = "must end at some time, is `-1`";
            let problem = Problem::new(&node.span, message);
            diagnostics.problem(
                problem.remedy("documents of a batch that never fills would wait forever"),
            );
            None
        }
    }
}
