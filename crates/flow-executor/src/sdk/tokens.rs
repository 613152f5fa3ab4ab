//! The tokens that a model read, by document.

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
pub struct Tokens(Vec<usize>);

impl Tokens {
    /// The number of tokens of each document.
    #[must_use]
    pub fn each(&self) -> &[usize] {
        &self.0
    }
}

impl FromIterator<usize> for Tokens {
    fn from_iter<I: IntoIterator<Item = usize>>(each: I) -> Self {
        Self(each.into_iter().collect())
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
