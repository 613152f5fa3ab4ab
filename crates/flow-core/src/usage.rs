//! What a model read for a request, such as tokens.

/// What a model read for a request, and what it did not have to compute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the texts.
    pub tokens: u64,
    /// Texts whose vectors were there already. `None` if the executor has no cache.
    pub cached_texts: Option<u64>,
}

impl Usage {
    /// That of two calls together; `None` if neither reports it.
    #[must_use]
    pub fn sum(a: Option<Self>, b: Option<Self>) -> Option<Self> {
        let (Some(one), Some(other)) = (a, b) else {
            return a.or(b);
        };
        let cached_texts = match (one.cached_texts, other.cached_texts) {
            (Some(one), Some(other)) => Some(one.saturating_add(other)),
            (one, other) => one.or(other),
        };
        Some(Self {
            tokens: one.tokens.saturating_add(other.tokens),
            cached_texts,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reported_counts_are_summed_and_missing_ones_stay_absent() {
        let usage = |tokens, cached_texts| {
            Some(Usage {
                tokens,
                cached_texts,
            })
        };
        assert_eq!(Usage::sum(None, None), None);
        assert_eq!(Usage::sum(usage(1, None), None), usage(1, None));
        assert_eq!(Usage::sum(None, usage(1, Some(0))), usage(1, Some(0)));
        assert_eq!(Usage::sum(usage(1, None), usage(2, None)), usage(3, None));
        assert_eq!(
            Usage::sum(usage(1, Some(3)), usage(2, None)),
            usage(3, Some(3))
        );
        assert_eq!(
            Usage::sum(usage(1, Some(3)), usage(2, Some(4))),
            usage(3, Some(7))
        );
    }
}
