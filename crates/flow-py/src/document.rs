//! Documents as Python objects, with the attributes of DocArray 0.21.
//!
//! A [`PyDocument`] wraps a Rust document, which keeps the bytes in which it arrived. What Python can change in place, such
//! as tags and arrays, is created on first access, kept beside the document, and written back when the document leaves
//! Python. A [`PyDocumentArray`] creates the Python object of a document on first access, and returns the same object
//! each time.

mod array_class;
mod columns;
mod document_class;
mod errors;
mod fields;
mod iterator;
mod json;
mod numpy;
mod objects;
mod scores;
mod select;
mod tensor_view;
mod values;

pub(crate) use errors::bad_document;
pub(crate) use objects::{PyDocument, PyDocumentArray, all_to_rust, to_rust};
pub(crate) use scores::NamedScore;
pub(crate) use values::{Numbers, map_from_python, map_to_python, value_to_python};
