//! The names of what is measured: the table's rows and columns.

use crate::bench::servers::load::Load;

pub(super) const CORPORA: [&str; 2] = ["tutorial", "mixed"];

/// The precisions of ours.
pub(super) const PRECISIONS: [&str; 3] = ["f32", "bf16", "int8"];

pub(super) const INFINITY_ONNX: &str = "Infinity with ONNX Runtime fp32, HTTP with base64";
pub(super) const INFINITY_TORCH: &str = "Infinity with torch fp32, HTTP with base64";

/// Figures of each load.
pub(super) const RATE: &str = "texts/s";
pub(super) const P50: &str = "p50, ms";
pub(super) const P99: &str = "p99, ms";

pub(super) fn flow_grpc(precision: &str) -> String {
    format!("flow {precision}, gRPC")
}

pub(super) fn flow_http(precision: &str) -> String {
    format!("flow {precision}, HTTP with base64")
}

pub(super) fn row(corpus: &str, load: &Load, figure: &str) -> String {
    format!("{corpus} · {} · {figure}", load.name)
}
