//! The texts of a call.

use std::slice;

use flow_core::{AccessPaths, Document};
use flow_executor::CallError;
use flow_models::ClassifierInput;
use serde_json::Value;

/// The tag with the second text of a pair, as the pipelines of the transformers library call it.
pub(crate) const TEXT_PAIR: &str = "text_pair";

/// The texts of a call, in the order of their documents.
#[derive(Debug, Default)]
pub(crate) struct InputTexts {
    pub(crate) inputs: Vec<ClassifierInput>,
    /// The number of texts of each document of the request.
    pub(crate) texts_of: Vec<usize>,
    /// The number of selected documents that have no text.
    pub(crate) without_text: usize,
}

impl InputTexts {
    /// Reads the texts of the selected documents.
    ///
    /// # Errors
    ///
    /// If chunks or matches cannot be read, or the second text of a pair is none.
    pub(crate) fn read(docs: &mut [Document], paths: &AccessPaths) -> Result<Self, CallError> {
        let mut texts = Self::default();
        for doc in docs {
            let before = texts.inputs.len();
            paths.try_visit(slice::from_mut(doc), &mut |doc| {
                let input = input(doc)?;
                texts.without_text += usize::from(input.is_none());
                texts.inputs.extend(input);
                Ok::<(), CallError>(())
            })?;
            texts.texts_of.push(texts.inputs.len() - before);
        }
        Ok(texts)
    }
}

/// The text of a document, or its pair. `None` if it has neither.
fn input(doc: &Document) -> Result<Option<ClassifierInput>, CallError> {
    let pair = match doc.tags().remove(TEXT_PAIR) {
        None | Some(Value::Null) => None,
        Some(Value::String(pair)) => Some(pair),
        Some(_) => {
            let message = format!("the tag `{TEXT_PAIR}` must be a text");
            return Err(CallError::bad_request(message));
        }
    };
    Ok(is_input(doc).then(|| ClassifierInput {
        text: doc.text(),
        pair,
    }))
}

/// Whether a document is classified: it has a text, or a pair of which the first text is empty.
pub(crate) fn is_input(doc: &Document) -> bool {
    doc.has_text() || doc.tags().get(TEXT_PAIR).is_some_and(Value::is_string)
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn a_document_has_a_text_and_perhaps_its_pair() {
        let mut pair = Document::from_text("a");
        pair.set_tags(&Map::from_iter([("text_pair".to_owned(), json!("b"))]));
        let mut whole = Document::from_text("");
        whole.set_chunks(vec![Document::from_text("c"), pair.clone()]);
        let mut docs = [pair, whole];
        let texts = InputTexts::read(&mut docs, &"@r,c".parse().unwrap()).unwrap();
        let inputs: Vec<_> = texts
            .inputs
            .iter()
            .map(|it| (it.text.as_str(), it.pair.as_deref()))
            .collect();
        assert_eq!(inputs, [("a", Some("b")), ("c", None), ("a", Some("b"))]);
        assert_eq!(texts.texts_of, [1, 2]);
        assert_eq!(texts.without_text, 1);
    }

    #[test]
    fn the_second_text_of_a_pair_must_be_a_text() {
        let read = |pair: Value| {
            let mut doc = Document::from_text("");
            doc.set_tags(&Map::from_iter([("text_pair".to_owned(), pair)]));
            let texts = InputTexts::read(&mut [doc], &AccessPaths::default());
            texts.map(|texts| texts.inputs.len())
        };
        assert_eq!(read(json!("b")).unwrap(), 1);
        assert_eq!(read(Value::Null).unwrap(), 0);
        let error = read(json!(5)).unwrap_err().to_string();
        assert_eq!(error, "the tag `text_pair` must be a text");
    }
}
