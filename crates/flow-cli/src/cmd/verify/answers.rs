//! Matches the documents of a reply to those of its request.

use std::collections::HashMap;

use flow_core::{Document, DocumentArray};

/// The documents of a reply.
#[derive(Debug)]
pub(super) struct Answers<'a> {
    /// In the order of the reply.
    documents: Vec<(String, &'a Document)>,
    /// Positions by id.
    by_id: HashMap<String, usize>,
}

impl<'a> Answers<'a> {
    pub(super) fn new(reply: &'a DocumentArray) -> Self {
        let documents: Vec<_> = reply.iter().map(|it| (it.id(), it)).collect();
        let by_id = documents.iter().enumerate();
        let by_id = by_id.map(|(at, (id, _))| (id.clone(), at)).collect();
        Self { documents, by_id }
    }

    /// The answer to the document with this place in the request and this id. The document in the same place is preferred,
    /// because several documents may have the same id.
    pub(super) fn find(&self, at: usize, id: &str) -> Option<&'a Document> {
        let in_place = self.documents.get(at).filter(|(found, _)| found == id);
        let anywhere = || self.documents.get(*self.by_id.get(id)?);
        in_place.or_else(anywhere).map(|(_, document)| *document)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(documents: &[(&str, &str)]) -> DocumentArray {
        let document = |(id, text): &(&str, &str)| {
            let mut document = Document::from_text(text);
            document.set_id(id);
            document
        };
        documents.iter().map(document).collect()
    }

    #[test]
    fn an_answer_is_found_wherever_it_is() {
        let reply = reply(&[("a", "1"), ("b", "2")]);
        let answers = Answers::new(&reply);
        let found = |at, id: &str| answers.find(at, id).map(Document::text);
        assert_eq!(found(0, "a").as_deref(), Some("1"));
        assert_eq!(found(0, "b").as_deref(), Some("2"));
        assert_eq!(found(7, "a").as_deref(), Some("1"));
        assert_eq!(found(0, "c"), None);
    }

    #[test]
    fn of_documents_with_the_same_id_each_has_the_answer_in_its_place() {
        let reply = reply(&[("a", "1"), ("a", "2")]);
        let answers = Answers::new(&reply);
        let found = [0, 1].map(|at| answers.find(at, "a").map(Document::text));
        assert_eq!(found, [Some("1".to_owned()), Some("2".to_owned())]);
    }
}
