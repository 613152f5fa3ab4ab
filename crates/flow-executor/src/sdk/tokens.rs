//! The tokens that a model read, by document.

use std::ops::Range;

use flow_core::Usage;

/// How many tokens a model read for each document of a call, in the order of the documents.
///
/// A method bound with [`on_batch`](crate::Endpoints::on_batch) may return it. Each request gets the sum of its own
/// documents, also if it shared the call with others. The gateway adds up the sums of all executors of a flow, and
/// HTTP clients see the total as the request's usage.
///
/// ```
/// # use flow_executor::{CallError, Document, Parameters, Tokens};
/// # struct Model;
/// # impl Model {
/// #     fn tokens(&self, text: &str) -> usize { text.len() }
/// fn encode(&mut self, docs: &mut [Document], _: &Parameters) -> Result<Tokens, CallError> {
///     Ok(docs.iter().map(|doc| self.tokens(&doc.text())).collect())
/// }
/// # }
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tokens {
    each: Vec<usize>,
    cached: Option<Vec<usize>>,
}

impl Tokens {
    /// The number of tokens of each document.
    #[must_use]
    pub fn each(&self) -> &[usize] {
        &self.each
    }

    /// Adds how many texts of each document had a vector already. Clients get the sum of their request as the metadata
    /// `flow-cached-texts`.
    #[must_use]
    pub fn with_cached(self, texts: impl IntoIterator<Item = usize>) -> Self {
        Self {
            cached: Some(texts.into_iter().collect()),
            ..self
        }
    }

    /// What was counted of these documents.
    pub(crate) fn usage(&self, documents: Range<usize>) -> Usage {
        let sum = |each: &[usize]| each.iter().map(|&it| it as u64).sum();
        Usage {
            tokens: sum(&self.each[documents.clone()]),
            cached_texts: self.cached.as_ref().map(|it| sum(&it[documents])),
        }
    }

    /// For how many documents there are numbers, if it is not for this many.
    pub(crate) fn wrong_number(&self, documents: usize) -> Option<usize> {
        let cached = self.cached.as_ref().map(Vec::len);
        let counts = [Some(self.each.len()), cached];
        counts.into_iter().flatten().find(|it| *it != documents)
    }
}

impl FromIterator<usize> for Tokens {
    fn from_iter<I: IntoIterator<Item = usize>>(each: I) -> Self {
        Self {
            each: each.into_iter().collect(),
            cached: None,
        }
    }
}

/// What a method bound with `on_batch` may return besides the documents that it changed.
pub trait IntoTokens {
    /// The tokens of each document, if the method counts them.
    fn into_tokens(self) -> Option<Tokens>;
}

impl IntoTokens for () {
    fn into_tokens(self) -> Option<Tokens> {
        None
    }
}

impl IntoTokens for Tokens {
    fn into_tokens(self) -> Option<Tokens> {
        Some(self)
    }
}
