//! The texts of a call: queries, and the matches of each.

use std::slice;

use flow_core::{AccessPaths, BadDocument, Document};
use flow_executor::CallError;

/// Maximum number of matches of a document that are ordered.
const MATCHES_MAX: usize = 10_000;

/// The texts of a call. A pair is a match with a text, and its query.
#[derive(Debug, Default)]
pub(crate) struct PairTexts {
    pub(crate) queries: Vec<String>,
    /// The texts of matches, each with the index of its query.
    pub(crate) matches: Vec<(usize, String)>,
    /// The number of pairs of each document of the request.
    pub(crate) pairs_of: Vec<usize>,
    /// The number of documents that have matches and no text.
    pub(crate) without_text: usize,
    /// The most matches with a text that a document has.
    matches_max: usize,
}

impl PairTexts {
    /// Reads the texts of the selected documents and of their matches.
    ///
    /// # Errors
    ///
    /// If chunks or matches cannot be read.
    pub(crate) fn read(docs: &mut [Document], paths: &AccessPaths) -> Result<Self, BadDocument> {
        let mut texts = Self::default();
        for doc in docs {
            let before = texts.matches.len();
            paths.try_visit(slice::from_mut(doc), &mut |query| texts.add(query))?;
            let pairs = texts.matches.len() - before;
            texts.pairs_of.push(pairs);
        }
        Ok(texts)
    }

    fn add(&mut self, query: &mut Document) -> Result<(), BadDocument> {
        let text = query.has_text().then(|| query.text());
        let matches = query.matches_mut()?;
        let Some(text) = text else {
            self.without_text += usize::from(!matches.is_empty());
            return Ok(());
        };
        let (index, before) = (self.queries.len(), self.matches.len());
        let with_text = matches.iter().filter(|found| found.has_text());
        self.matches
            .extend(with_text.map(|found| (index, found.text())));
        self.matches_max = self.matches_max.max(self.matches.len() - before);
        self.queries.push(text);
        Ok(())
    }

    /// Refuses a document with too many matches. A call is not interrupted for others, and if a query is long, each of its matches
    /// takes as long as the longest text.
    pub(crate) fn check_limit(&self) -> Result<(), CallError> {
        match self.matches_max > MATCHES_MAX {
            true => Err(CallError::bad_request(format!(
                "a document has {} matches; at most {MATCHES_MAX} are ordered",
                self.matches_max
            ))),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str, matches: &[&str]) -> Document {
        let mut query = Document::from_text(text);
        let matches = matches.iter().map(|text| Document::from_text(text));
        query.set_matches(matches.collect());
        query
    }

    #[test]
    fn each_match_with_a_text_is_a_pair_with_its_query() {
        let mut docs = [
            query("q", &["a", "", "b"]),
            query("", &["c"]),
            query("r", &["d"]),
            query("", &[]),
        ];
        let texts = PairTexts::read(&mut docs, &AccessPaths::default()).unwrap();
        assert_eq!(texts.queries, ["q", "r"]);
        let matches = [(0, "a"), (0, "b"), (1, "d")];
        let matches = matches.map(|(query, text)| (query, text.to_owned()));
        assert_eq!(texts.matches, matches);
        assert_eq!(texts.without_text, 1);
        assert_eq!(texts.pairs_of, [2, 0, 1, 0]);
    }

    #[test]
    fn a_document_has_only_so_many_matches() {
        let check = |count: usize| {
            let matches = vec!["a"; count];
            let mut docs = [query("q", &matches), query("q", &["a"])];
            let texts = PairTexts::read(&mut docs, &AccessPaths::default()).unwrap();
            texts.check_limit().map_err(|error| error.to_string())
        };
        assert_eq!(check(MATCHES_MAX), Ok(()));
        let error = check(MATCHES_MAX + 1).unwrap_err();
        assert!(error.contains("10001 matches; at most 10000"), "{error}");
    }
}
