//! Encodes each text of a call once, and none that is in a cache.

use std::collections::HashMap;

use crate::encode_times::EncodeTimes;
use crate::encoder::{EncodeError, EncodeRequest, IsCancelled, TextEncoder};
use crate::vector_cache::{CacheCounts, VectorCache, VectorKey};
use crate::vectors::Vectors;

/// A text encoder with a cache of vectors, or without one. With a cache it computes the vectors of identical texts once, within
/// a call too. The vectors are the same, bit for bit, as those of the encoder itself.
#[derive(Debug)]
pub struct CachedEncoder {
    encoder: TextEncoder,
    cache: Option<VectorCache>,
}

/// What the model did for a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EncodeWork {
    /// Tokens that it read. Those of cached texts do not count.
    pub tokens: usize,
    /// How long it took.
    pub times: EncodeTimes,
}

/// The vectors of a call, and what they took.
#[derive(Debug)]
pub struct Encoded {
    /// The vectors, in the order of the texts.
    pub vectors: Vectors,
    /// What the model did; `None` if it had nothing to compute.
    pub work: Option<EncodeWork>,
    /// For each text whether its vector was there already: in the cache, or computed for an identical text of the call.
    /// `None` without a cache.
    pub is_cached: Option<Vec<bool>>,
}

impl CachedEncoder {
    /// An encoder with a cache, or without one.
    #[must_use]
    pub fn new(encoder: TextEncoder, cache: Option<VectorCache>) -> Self {
        Self { encoder, cache }
    }

    /// The encoder itself.
    #[must_use]
    pub fn encoder(&self) -> &TextEncoder {
        &self.encoder
    }

    /// How often vectors were found in the cache. `None` without a cache.
    #[must_use]
    pub fn counts(&self) -> Option<CacheCounts> {
        self.cache.as_ref().map(VectorCache::counts)
    }

    /// Encodes texts as a request asks for it.
    ///
    /// # Errors
    ///
    /// If the tokenizer or the engine fails. The vectors of a call that fails are not stored.
    pub fn encode(
        &mut self,
        texts: &[String],
        request: EncodeRequest<'_>,
    ) -> Result<Encoded, EncodeError> {
        self.encode_unless(texts, request, &|| false)
    }

    /// The same, but ends early if `is_cancelled` returns true between two batches.
    ///
    /// # Errors
    ///
    /// If the tokenizer or the engine fails, or it was cancelled. The vectors of a call that fails are not stored.
    pub fn encode_unless(
        &mut self,
        texts: &[String],
        request: EncodeRequest<'_>,
        is_cancelled: IsCancelled<'_>,
    ) -> Result<Encoded, EncodeError> {
        if self.cache.is_none() {
            let (vectors, times) = self.encoder.encode_timed(texts, request, is_cancelled)?;
            return Ok(Encoded {
                work: Some(EncodeWork::of(&vectors, times)),
                vectors,
                is_cached: None,
            });
        }
        let first_of = first_occurrences(texts);
        let distinct = first_of.iter().enumerate();
        let distinct: Vec<usize> = distinct
            .filter_map(|(place, first)| (place == *first).then_some(place))
            .collect();
        let mut vectors = Vectors::zeros(texts.len(), self.encoder.width());
        let missing = self.look_up(texts, &distinct, request, &mut vectors);
        let call = (request, is_cancelled);
        let work = self.compute((texts, &missing), call, &mut vectors)?;
        for (place, first) in first_of.into_iter().enumerate() {
            vectors.copy_within(first, place);
        }
        let mut is_cached = vec![true; texts.len()];
        missing.iter().for_each(|&place| is_cached[place] = false);
        Ok(Encoded {
            vectors,
            work,
            is_cached: Some(is_cached),
        })
    }

    /// Fills in the vectors that the cache has, and returns the places of the others.
    fn look_up(
        &mut self,
        texts: &[String],
        places: &[usize],
        request: EncodeRequest<'_>,
        vectors: &mut Vectors,
    ) -> Vec<usize> {
        let is_normalized = self.is_normalized(request);
        let Some(cache) = &mut self.cache else {
            return places.to_vec();
        };
        let mut missing = Vec::new();
        for &place in places {
            let (row, tokens) = vectors.entry(place);
            let key = VectorKey::new(&texts[place], request, is_normalized);
            match cache.get(key, row) {
                Some(found) => *tokens = found,
                None => missing.push(place),
            }
        }
        missing
    }

    /// Computes the vectors of the texts at these places, and stores them.
    fn compute(
        &mut self,
        (texts, places): (&[String], &[usize]),
        (request, is_cancelled): (EncodeRequest<'_>, IsCancelled<'_>),
        vectors: &mut Vectors,
    ) -> Result<Option<EncodeWork>, EncodeError> {
        if places.is_empty() {
            return Ok(None);
        }
        let is_normalized = self.is_normalized(request);
        let missing: Vec<&str> = places.iter().map(|&place| texts[place].as_str()).collect();
        let (computed, times) = self.encoder.encode_timed(&missing, request, is_cancelled)?;
        for ((&place, row), &count) in places.iter().zip(computed.rows()).zip(computed.tokens()) {
            let (to, tokens) = vectors.entry(place);
            to.copy_from_slice(row);
            *tokens = count;
            if let Some(cache) = &mut self.cache {
                let key = VectorKey::new(&texts[place], request, is_normalized);
                cache.insert(key, count, row);
            }
        }
        Ok(Some(EncodeWork::of(&computed, times)))
    }

    fn is_normalized(&self, request: EncodeRequest<'_>) -> bool {
        request.normalize.unwrap_or(self.encoder.head().normalize)
    }
}

impl EncodeWork {
    fn of(computed: &Vectors, times: EncodeTimes) -> Self {
        Self {
            tokens: computed.tokens().iter().sum(),
            times,
        }
    }
}

/// For each text the place of the first one that is identical to it.
fn first_occurrences(texts: &[String]) -> Vec<usize> {
    let mut places = HashMap::with_capacity(texts.len());
    let texts = texts.iter().enumerate();
    texts
        .map(|(place, text)| *places.entry(text.as_str()).or_insert(place))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identical_texts_have_the_place_of_the_first() {
        let first = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|&it| it.to_owned()).collect();
            first_occurrences(&texts)
        };
        assert_eq!(first(&[]), [0; 0]);
        assert_eq!(first(&["a", "b", "A"]), [0, 1, 2]);
        assert_eq!(first(&["a", "b", "a", "b", "c"]), [0, 1, 0, 1, 4]);
    }
}
