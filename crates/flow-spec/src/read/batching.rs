//! `uses_dynamic_batching`: endpoint or method → how requests share calls.

use std::num::NonZeroUsize;

use indexmap::IndexMap;

use super::{entries, flag, integer, mapping, reject, time, word};
use crate::keys;
use crate::problem::{Findings, Problem};
use crate::section::Section;
use crate::settings::{Batching, Metric};
use crate::yaml::Node;

pub(crate) fn batching(node: &Node, findings: &mut Findings) -> Option<IndexMap<String, Batching>> {
    let node = mapping(node, findings)?;
    let rules = entries(&node, findings)?.iter();
    Some(
        rules
            .map(|entry| (entry.key.clone(), rule(&entry.value, findings)))
            .collect(),
    )
}

fn rule(node: &Node, findings: &mut Findings) -> Batching {
    let section = Section::read(Some(node), &keys::BATCHING, findings);
    let written = section.value("use_custom_metric", findings, flag);
    let metric = section.value("metric", findings, metric);
    if let (Some(written), Some(metric)) = (&written, &metric)
        && written.value != (metric.value == Metric::Custom)
    {
        let message = "`use_custom_metric` and `metric` say different things";
        findings.problem(Problem::new(&written.place, message).remedy("keep one of them"));
    }
    let mut value = |key, read: fn(&Node, &mut Findings) -> Option<bool>| {
        section.value(key, findings, read).map(|at| at.value)
    };
    let (flush_all, use_dynamic_batching) = (
        value("flush_all", flag),
        value("use_dynamic_batching", flag),
    );
    Batching {
        preferred_batch_size: section
            .value("preferred_batch_size", findings, size)
            .map(|at| at.value),
        timeout: section
            .value("timeout", findings, timeout)
            .map(|at| at.value),
        flush_all,
        use_custom_metric: written.map(|at| at.value),
        metric: metric.map(|at| at.value),
        use_dynamic_batching,
    }
}

fn metric(node: &Node, findings: &mut Findings) -> Option<Metric> {
    let words = [
        ("documents", Metric::Documents),
        ("bytes", Metric::Bytes),
        ("custom", Metric::Custom),
    ];
    word(node, &words, findings)
}

fn size(node: &Node, findings: &mut Findings) -> Option<NonZeroUsize> {
    let number = integer(node).and_then(|number| usize::try_from(number).ok());
    let size = number.and_then(NonZeroUsize::new);
    size.or_else(|| reject(node, "a whole number, at least 1", findings))
}

/// In milliseconds.
fn timeout(node: &Node, findings: &mut Findings) -> Option<u64> {
    match time::time(node, findings)? {
        Some(time) => u64::try_from(time.as_millis()).ok(),
        None => {
            let message = "must end at some time, is `-1`";
            let problem = Problem::new(&node.place, message);
            findings.problem(
                problem.remedy("documents of a batch that never fills would wait for ever"),
            );
            None
        }
    }
}
