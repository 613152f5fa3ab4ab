//! Tests the sentence encoder with tiny models.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]

mod executor;
#[allow(dead_code, reason = "the model crate's own tests use the rest of it")]
#[path = "../../../../crates/flow-models/tests/it/tiny_model.rs"]
mod tiny_model;
