//! Writes the scores of labels into documents.

use std::num::NonZeroUsize;

use flow_core::Document;

/// How scores are written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScoreOptions<'a> {
    /// The labels, in the order of the scores.
    pub(crate) labels: &'a [String],
    /// Number of labels whose scores a document gets; `None` for all.
    pub(crate) top_k: Option<NonZeroUsize>,
    /// The tag that gets the label with the best score.
    pub(crate) label_tag: Option<&'a str>,
}

impl ScoreOptions<'_> {
    /// Gives a document the scores of the best labels, and the best label as a tag.
    pub(crate) fn write(self, doc: &mut Document, scores: &[f32]) {
        let mut ranked: Vec<_> = self.labels.iter().zip(scores.iter().copied()).collect();
        // The sort is stable: labels with the same score keep their order.
        ranked.sort_by(|a, b| b.1.total_cmp(&a.1));
        ranked.truncate(self.top_k.map_or(usize::MAX, NonZeroUsize::get));
        if let (Some(tag), Some((label, _))) = (self.label_tag, ranked.first()) {
            let mut tags = doc.tags();
            tags.insert(tag.to_owned(), label.as_str().into());
            doc.set_tags(&tags);
        }
        let id = doc.id();
        // The scores of an earlier classification do not stay.
        let none = self.labels.iter().map(|label| (label.as_str(), None));
        let best = ranked
            .iter()
            .map(|(label, score)| (label.as_str(), Some(*score)));
        doc.set_scores(none.chain(best), &id);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Map, json};

    use super::*;

    #[test]
    fn a_document_gets_the_best_scores_and_the_best_label() {
        let labels = ["x", "y", "z"].map(str::to_owned);
        let mut options = ScoreOptions {
            labels: &labels,
            top_k: NonZeroUsize::new(2),
            label_tag: Some("label"),
        };
        let mut doc = Document::from_text("a");
        doc.set_tags(&Map::from_iter([("page".to_owned(), json!(1))]));
        options.write(&mut doc, &[0.25, 0.5, 0.125]);
        let scores: Vec<_> = labels.iter().map(|label| doc.score(label)).collect();
        assert_eq!(scores, [Some(0.25), Some(0.5), None]);
        let tags = serde_json::Value::Object(doc.tags());
        assert_eq!(tags, json!({"page": 1, "label": "y"}));
        options.write(&mut doc, &[0.25, 0.125, 0.5]);
        let scores: Vec<_> = labels.iter().map(|label| doc.score(label)).collect();
        assert_eq!(scores, [Some(0.25), None, Some(0.5)]);

        (options.top_k, options.label_tag) = (None, None);
        let mut doc = Document::from_text("a");
        options.write(&mut doc, &[0.5, 0.25, 0.125]);
        assert_eq!(doc.score("z"), Some(0.125));
        assert!(doc.tags().is_empty());
    }
}
