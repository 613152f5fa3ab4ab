//! Vectors in memory, within a limit.

use quick_cache::unsync::Cache;

use super::key::VectorKey;

/// What an entry takes besides its values: the key, the box, and the tables of the cache.
const OVERHEAD_BYTES: u64 = 128;

/// Entries for which there is room from the start; the tables grow.
const FIRST_ENTRIES: u64 = 1_024;

/// Vectors that were used lately or often (the policy S3-FIFO): texts that come once do not replace those that come again.
#[derive(Debug)]
pub(super) struct Memory {
    entries: Cache<VectorKey, CachedVector>,
}

#[derive(Debug, Clone)]
struct CachedVector {
    tokens: usize,
    values: Box<[f32]>,
}

impl Memory {
    /// A store for vectors of `width` values that takes at most about `bytes`.
    pub(super) fn new(bytes: u64, width: usize) -> Self {
        let capacity = bytes / (4 * width as u64 + OVERHEAD_BYTES);
        let first = usize::try_from(capacity.min(FIRST_ENTRIES)).unwrap_or_default();
        Self {
            entries: Cache::with(
                first,
                capacity,
                quick_cache::UnitWeighter,
                quick_cache::DefaultHashBuilder::default(),
                quick_cache::unsync::DefaultLifecycle::default(),
            ),
        }
    }

    /// Copies a vector into `row`, and returns its text's number of tokens.
    pub(super) fn get(&self, key: &VectorKey, row: &mut [f32]) -> Option<usize> {
        let entry = self.entries.get(key)?;
        row.copy_from_slice(&entry.values);
        Some(entry.tokens)
    }

    pub(super) fn insert(&mut self, key: VectorKey, tokens: usize, row: &[f32]) {
        let values = row.into();
        self.entries.insert(key, CachedVector { tokens, values });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::EncodeRequest;

    #[test]
    fn the_store_stays_within_its_size_and_keeps_what_comes_again() {
        let mut memory = Memory::new(100 * (4 * 2 + OVERHEAD_BYTES), 2);
        let key = |n: usize| VectorKey::new(&n.to_string(), EncodeRequest::default(), true);
        let mut row = [0.0; 2];
        memory.insert(key(0), 7, &[1.0, 2.0]);
        for n in 1..1_000 {
            memory.insert(key(n), n, &[0.5, 0.5]);
            assert_eq!(memory.get(&key(0), &mut row), Some(7), "after {n}");
        }
        assert_eq!(row, [1.0, 2.0]);
        let stored = (0..1_000).filter(|n| memory.get(&key(*n), &mut row).is_some());
        assert!((50..=100).contains(&stored.count()));
    }
}
