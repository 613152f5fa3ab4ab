//! The vectors of the tokens of texts: hidden states, before pooling.

use std::ops::Range;

use super::{EncodeError, EncodeRequest, IsCancelled, Reading, TextEncoder};
use crate::batch_plan::plan_batches;
use crate::encode_times::{EncodeTimer, EncodeTimes};

/// The vectors of the tokens of one text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct TokenVectors {
    /// A row-major matrix of `tokens × width`.
    pub values: Vec<f32>,
    /// Number of tokens, with special tokens and the prompt, after truncation.
    pub tokens: usize,
}

impl TextEncoder {
    /// Number of values of a token's vector.
    #[must_use]
    pub fn token_width(&self) -> usize {
        self.engine.hidden_size()
    }

    /// Encodes texts, and returns the vectors of their tokens, in the order of the texts: what the model gives, neither pooled nor
    /// normalized, whatever the request says. All texts together may have `tokens_max` tokens.
    ///
    /// # Errors
    ///
    /// If the tokenizer or the engine fails, the texts have too many tokens, a GPU computes, or `is_cancelled` returns true between two
    /// batches.
    pub fn token_vectors<T: AsRef<str> + Sync>(
        &self,
        texts: &[T],
        (request, tokens_max): (EncodeRequest<'_>, usize),
        is_cancelled: IsCancelled<'_>,
    ) -> Result<(Vec<TokenVectors>, EncodeTimes), EncodeError> {
        let timer = EncodeTimer::start();
        let prompt = self.prompt(request.prompt)?;
        let reading = Reading {
            prompt: &prompt,
            direction: request.direction,
        };
        let ids = timer.tokenize(|| self.tokenize(texts, reading, (self.limits, is_cancelled)))?;
        let lengths: Vec<usize> = ids.iter().map(Vec::len).collect();
        let tokens = lengths.iter().sum();
        if tokens > tokens_max {
            let max = tokens_max;
            return Err(EncodeError::TooManyTokens { tokens, max });
        }
        let plan = plan_batches(&lengths, self.limits);
        let compute = |batch: &Range<usize>| {
            if is_cancelled() {
                return Err(EncodeError::Cancelled);
            }
            let indices = &plan.order[batch.clone()];
            let tokens = self.token_batch(indices, &ids);
            let states = self.engine.states(&tokens)?;
            let of_text = |(place, &text): (usize, &usize)| TokenVectors {
                values: states
                    .of_text(place, lengths[text])
                    .flatten()
                    .copied()
                    .collect(),
                tokens: lengths[text],
            };
            let vectors: Vec<TokenVectors> = indices.iter().enumerate().map(of_text).collect();
            Ok((batch.clone(), vectors))
        };
        let mut all = vec![TokenVectors::default(); texts.len()];
        for result in self
            .pool
            .run((&plan.batches, &[]), self.batch_workers, compute)
        {
            let (batch, vectors) = result?;
            for (&text, vectors) in plan.order[batch].iter().zip(vectors) {
                all[text] = vectors;
            }
        }
        Ok((all, timer.end()))
    }
}
