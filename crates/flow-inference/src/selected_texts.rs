//! The texts that a model reads, and documents that have none.

use std::slice;

use flow_executor::{AccessPaths, BadDocument, CallError, Document};

use crate::excerpt;

/// The texts of the documents that access paths select, in their order.
#[derive(Debug, Default)]
pub struct SelectedTexts {
    /// The texts.
    pub texts: Vec<String>,
    /// How many of them each document of the request has.
    pub texts_of: Vec<usize>,
    /// The number of selected documents that have no text.
    pub without_text: usize,
}

impl SelectedTexts {
    /// Reads the texts of the selected documents.
    ///
    /// # Errors
    ///
    /// If chunks or matches cannot be read.
    pub fn read(docs: &mut [Document], paths: &AccessPaths) -> Result<Self, BadDocument> {
        let mut selected = Self::default();
        for doc in docs {
            let before = selected.texts.len();
            paths.visit(slice::from_mut(doc), &mut |doc| match doc.has_text() {
                true => selected.texts.push(doc.text()),
                false => selected.without_text += 1,
            })?;
            selected.texts_of.push(selected.texts.len() - before);
        }
        Ok(selected)
    }
}

/// Logs documents that have no text. They are returned unchanged, but a user may expect that the model reads them.
#[derive(Debug, Default)]
pub struct WithoutText {
    total: usize,
}

impl WithoutText {
    /// Logs so many documents: the first ones as a warning, with what happens to them.
    pub fn log(&mut self, count: usize, what_happens: &'static str) {
        if count == 0 {
            return;
        }
        if self.total == 0 {
            tracing::warn!(
                count,
                "{what_happens}; further ones are logged at debug level only"
            );
        }
        self.total += count;
        tracing::debug!(count, total = self.total, "documents without a text");
    }
}

/// The error of a text with more tokens than a model reads, which a request forbids to truncate. The place of the text among those of a
/// call says nothing to a client whose call was sent in pieces, so the error has its beginning.
#[must_use]
pub fn too_long(text: &str, max: usize) -> CallError {
    CallError::bad_request(format!(
        "a text has more than {max} tokens, the most that the model reads: `{}…`; \
         shorten it, or let it be truncated",
        excerpt(text)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_document_has_its_number_of_texts() {
        let mut whole = Document::from_text("");
        whole.set_chunks(vec![Document::from_text("a"), Document::from_text("b")]);
        let mut docs = [Document::from_text("c"), whole];
        let selected = SelectedTexts::read(&mut docs, &"@r,c".parse().unwrap()).unwrap();
        assert_eq!(selected.texts, ["c", "a", "b"]);
        assert_eq!(selected.texts_of, [1, 2]);
        assert_eq!(selected.without_text, 1);
    }
}
