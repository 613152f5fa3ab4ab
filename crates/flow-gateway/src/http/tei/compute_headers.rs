//! The headers that say what a call took.

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use super::super::model_call::ModelWork;
use super::super::models::ServedModel;

/// The characters of all texts.
pub(super) fn characters(texts: &[String]) -> usize {
    texts.iter().map(|text| text.chars().count()).sum()
}

/// The headers that say what a call took. Those of parts that are not measured are left out.
pub(super) fn compute_headers(
    model: &ServedModel,
    characters: usize,
    work: &ModelWork,
) -> HeaderMap {
    let mut headers = work.headers();
    let mut add = |name: &'static str, value: u64| {
        headers.insert(HeaderName::from_static(name), HeaderValue::from(value));
    };
    let (took, stages) = (Some(work.took), work.stages);
    // As in text-embeddings-inference, the first two are the same.
    let times = [
        ("x-compute-time", took),
        ("x-total-time", took),
        ("x-tokenization-time", stages.tokenization),
        ("x-queue-time", stages.queue),
        ("x-inference-time", stages.inference),
    ];
    for (name, took) in times {
        if let Some(took) = took {
            add(name, u64::try_from(took.as_millis()).unwrap_or(u64::MAX));
        }
    }
    add("x-compute-characters", characters as u64);
    if let Some(tokens) = work.tokens() {
        add("x-compute-tokens", tokens);
    }
    if let Some(info) = &model.info {
        let device = match info.device.as_str() {
            "cpu" => "cpu",
            _ => "gpu",
        };
        let device = HeaderValue::from_static(device);
        headers.insert(HeaderName::from_static("x-compute-type"), device);
    }
    headers
}
