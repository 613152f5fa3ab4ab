//! Tests the sparse encoder with tiny models.

#![allow(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, in test helpers as well"
)]

mod executor;
#[allow(dead_code, reason = "the model crate's own tests use the rest of it")]
#[path = "../../../../crates/flow-models/tests/it/tiny_model.rs"]
mod tiny_model;
