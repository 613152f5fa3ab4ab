//! The texts of a call.

use std::slice;

use flow_core::{AccessPaths, BadDocument, Document};
use flow_models::ClassifierInput;

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
    /// If chunks or matches cannot be read.
    pub(crate) fn read(docs: &mut [Document], paths: &AccessPaths) -> Result<Self, BadDocument> {
        let mut texts = Self::default();
        for doc in docs {
            let before = texts.inputs.len();
            paths.visit(slice::from_mut(doc), &mut |doc| match doc.has_text() {
                true => texts.inputs.push(input(doc)),
                false => texts.without_text += 1,
            })?;
            texts.texts_of.push(texts.inputs.len() - before);
        }
        Ok(texts)
    }
}

fn input(doc: &Document) -> ClassifierInput {
    let tags = doc.tags();
    let pair = tags.get(TEXT_PAIR).and_then(|pair| pair.as_str());
    ClassifierInput {
        text: doc.text(),
        pair: pair.map(str::to_owned),
    }
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
}
