//! Orders the matches of a document by their scores.

use std::cmp::Ordering;

use flow_core::{AccessPaths, BadDocument, Document};

/// The name of the score that a match gets.
pub(crate) const RELEVANCE: &str = "relevance";

/// How scores are written, and how many matches a document keeps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RankingOptions {
    /// Whether scores are as the model gives them, instead of from 0 to 1.
    pub(crate) raw_scores: bool,
    /// Number of matches that a document keeps; `None` for all.
    pub(crate) top_k: Option<usize>,
}

impl RankingOptions {
    /// Gives the matches of the selected documents their scores, and orders them, the best first. Matches without a text have no
    /// score: they keep their order after the others. `scores` has what the model gave each match with a text.
    ///
    /// # Errors
    ///
    /// If chunks or matches cannot be read.
    pub(crate) fn apply(
        self,
        docs: &mut [Document],
        paths: &AccessPaths,
        scores: &[f32],
    ) -> Result<(), BadDocument> {
        let mut scores = scores.iter();
        paths.try_visit::<BadDocument>(docs, &mut |query| {
            if query.has_text() {
                let id = query.id();
                self.set_scores(&id, query.matches_mut()?, &mut scores);
            }
            Ok(())
        })?;
        // Only now, because a path may lead to the matches of documents that another path selects.
        paths.try_visit(docs, &mut |query| {
            if query.has_text() {
                self.order(query.matches_mut()?);
            }
            Ok(())
        })
    }

    fn set_scores<'s>(
        self,
        query: &str,
        matches: &mut [Document],
        scores: &mut impl Iterator<Item = &'s f32>,
    ) {
        let with_text = matches.iter_mut().filter(|found| found.has_text());
        // `zip` would take a score when the matches end.
        for found in with_text {
            if let Some(score) = scores.next() {
                found.set_score(RELEVANCE, self.score(*score), query);
            }
        }
    }

    fn order(self, matches: &mut Vec<Document>) {
        // The sort is stable.
        matches.sort_by_cached_key(|found| {
            let score = found.has_text().then(|| found.score(RELEVANCE)).flatten();
            Descending(score)
        });
        matches.truncate(self.top_k.unwrap_or(usize::MAX));
    }

    fn score(self, raw: f32) -> f32 {
        match self.raw_scores {
            true => raw,
            false => 1.0 / (1.0 + (-raw).exp()),
        }
    }
}

/// Orders scores, the largest first, and matches without one last.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Descending(Option<f32>);

impl Eq for Descending {}

impl Ord for Descending {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self.0, other.0) {
            (Some(own), Some(other)) => other.total_cmp(&own),
            (own, other) => other.is_some().cmp(&own.is_some()),
        }
    }
}

impl PartialOrd for Descending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(texts: &[&str]) -> Document {
        let mut query = Document::from_text("q");
        query.set_id("q7");
        query.set_matches(texts.iter().map(|text| Document::from_text(text)).collect());
        query
    }

    fn apply(
        ranking: RankingOptions,
        texts: &[&str],
        scores: &[f32],
    ) -> Vec<(String, Option<f32>)> {
        let mut docs = [query(texts)];
        ranking
            .apply(&mut docs, &AccessPaths::default(), scores)
            .unwrap();
        let pair = |found: &Document| (found.text(), found.score(RELEVANCE));
        docs[0].matches_mut().unwrap().iter().map(pair).collect()
    }

    const RAW: RankingOptions = RankingOptions {
        raw_scores: true,
        top_k: None,
    };

    #[test]
    fn matches_are_ordered_by_their_scores() {
        let ranked = apply(RAW, &["a", "b", "c"], &[0.5, 2.0, -1.0]);
        let expected = [("b", 2.0), ("a", 0.5), ("c", -1.0)];
        assert_eq!(
            ranked,
            expected.map(|(text, score)| (text.to_owned(), Some(score)))
        );
    }

    #[test]
    fn scores_are_between_0_and_1_unless_they_are_to_be_raw() {
        let ranking = RankingOptions {
            raw_scores: false,
            ..RAW
        };
        let ranked = apply(ranking, &["a", "b"], &[0.0, 200.0]);
        let scores: Vec<f32> = ranked.iter().filter_map(|(_, score)| *score).collect();
        assert_eq!(scores, [1.0, 0.5]);
    }

    #[test]
    fn matches_without_a_text_come_last_and_only_the_best_are_kept() {
        let ranked = apply(RAW, &["", "a", "", "b"], &[1.0, 2.0]);
        let texts: Vec<&str> = ranked.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["b", "a", "", ""]);
        assert_eq!(ranked[3].1, None);
        let best = RankingOptions {
            top_k: Some(1),
            ..RAW
        };
        assert_eq!(apply(best, &["", "a", "b"], &[1.0, 2.0]).len(), 1);
    }

    #[test]
    fn a_path_may_lead_to_the_matches_of_selected_documents() {
        let mut root = query(&["a", "b"]);
        for (found, own) in root
            .matches_mut()
            .unwrap()
            .iter_mut()
            .zip([["c", "d"], ["e", "f"]])
        {
            found.set_matches(own.iter().map(|text| Document::from_text(text)).collect());
        }
        let mut docs = [root];
        let scores = [1.0, 2.0, 3.0, 4.0, 6.0, 5.0];
        let paths = "@r,m".parse().unwrap();
        RAW.apply(&mut docs, &paths, &scores).unwrap();
        let mut texts = Vec::new();
        for found in docs[0].matches_mut().unwrap() {
            texts.push(found.text());
            let own = found.matches_mut().unwrap().iter();
            texts.extend(own.map(Document::text));
        }
        assert_eq!(texts, ["b", "e", "f", "a", "d", "c"]);
    }

    #[test]
    fn a_score_has_the_id_of_its_query() {
        let mut docs = [query(&["a"])];
        RAW.apply(&mut docs, &AccessPaths::default(), &[1.0])
            .unwrap();
        let scores = docs[0].matches_mut().unwrap()[0].json_field("scores");
        assert_eq!(scores.unwrap()[RELEVANCE]["ref_id"], "q7");
    }
}
