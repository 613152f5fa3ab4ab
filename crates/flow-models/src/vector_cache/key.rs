//! The key of a cached vector.

use sha2::{Digest, Sha256};

/// A hash of a text, and of what a request says about its vector. Two texts with the same key cannot be constructed, so no client
/// can put a vector in the place of another text's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct VectorKey(pub(super) [u8; Self::LEN]);

impl VectorKey {
    pub(super) const LEN: usize = 32;

    pub(super) fn new(text: &str, is_normalized: bool) -> Self {
        let mut hash = Sha256::new();
        hash.update([u8::from(is_normalized)]);
        hash.update(text);
        Self(hash.finalize().into())
    }

    /// The first bytes, by which an index finds a record. The record has the whole key.
    pub(super) fn prefix(&self) -> u64 {
        let [a, b, c, d, e, f, g, h, ..] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, g, h])
    }
}
