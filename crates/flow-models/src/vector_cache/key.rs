//! The key of a cached vector.

use sha2::{Digest, Sha256};

use crate::encoder::EncodeRequest;
use crate::truncation::TruncationDirection;

/// A hash of a text, and of what a request says about its vector. Two texts with the same key cannot be constructed, so no client
/// can put a vector in the place of another text's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct VectorKey(pub(super) [u8; Self::LEN]);

impl VectorKey {
    pub(super) const LEN: usize = 32;

    /// The key of a text that is encoded as `request` says.
    pub(crate) fn new(text: &str, request: EncodeRequest<'_>, is_normalized: bool) -> Self {
        let EncodeRequest {
            prompt, direction, ..
        } = request;
        let is_cut_left = direction == TruncationDirection::Left;
        let mut hash = Sha256::new();
        hash.update([u8::from(is_normalized)
            + 2 * u8::from(prompt.is_some())
            + 4 * u8::from(is_cut_left)]);
        if let Some(prompt) = prompt {
            // Its length tells where the text begins.
            hash.update((prompt.len() as u64).to_le_bytes());
            hash.update(prompt);
        }
        hash.update(text);
        Self(hash.finalize().into())
    }

    /// The first bytes, by which an index finds a record. The record has the whole key.
    pub(super) fn prefix(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}
