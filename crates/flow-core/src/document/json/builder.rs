//! What a document is built of while its JSON is read. Each version of documents has its own builder.

use serde::de::Error;
use serde_json::Value;

use super::super::Document;
use super::super::format::BadDocument;
use crate::Tensor;

/// The fields of a document, as they are read. A null is `None`.
pub(super) trait DocumentBuilder: Default {
    /// Sets `embedding` or `tensor`.
    fn set_array(&mut self, name: &'static str, array: Option<Tensor>);

    /// Sets `chunks` or `matches`.
    fn set_documents(&mut self, name: &'static str, documents: Option<Vec<Document>>);

    /// Sets any other field.
    fn set(&mut self, name: &str, value: Value) -> Result<(), BadDocument>;

    /// The document, with a random id if it has none.
    fn into_document(self) -> Result<Document, BadDocument>;
}

/// Keeps an error, and makes the one that ends the parser.
pub(super) fn keep<E: Error>(error: BadDocument, failure: &mut Option<BadDocument>) -> E {
    *failure = Some(error);
    E::custom("a field is wrong")
}
