//! The module `flow_serve._native` of the Python package.
//!
//! Python objects stand on the types of the other crates here; what needs no Rust is in `python/flow_serve/`. The
//! interpreter's lock is held only where Python objects are touched: not while bytes move, are decoded or encoded.

#![allow(
    unsafe_code,
    reason = "what PyO3's macros write for classes and functions"
)]

mod document;

use pyo3::prelude::*;

#[pymodule(name = "_native")]
mod native {
    #[pymodule_export]
    use crate::document::{NamedScore, PyDocument, PyDocumentArray};
}
