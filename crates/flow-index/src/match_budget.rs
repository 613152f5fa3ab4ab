//! Limits the bytes of the matches of one call.

use flow_executor::CallError;

use crate::found_entry::FoundEntry;

/// Bytes of all matches of a call together. Each match is a copy of a document, so that without a limit a few small queries
/// for a large document become gigabytes. A reply has at most 512 MiB, and is in memory twice while it is encoded.
pub(crate) const MATCH_BYTES_MAX: usize = 256 << 20;

/// Bytes that a match takes besides the document: its score and its place in memory.
const MATCH_LEN: usize = 128;

/// The bytes that the matches of a call may still have.
#[derive(Debug, Clone)]
pub struct MatchBudget {
    left: usize,
}

impl MatchBudget {
    pub(crate) fn new() -> Self {
        Self {
            left: MATCH_BYTES_MAX,
        }
    }

    /// Counts an entry that was found for a query.
    ///
    /// # Errors
    ///
    /// Returns an error if the matches of the call have too many bytes with it.
    pub fn take(&mut self, found: &FoundEntry) -> Result<(), MatchesTooLarge> {
        self.take_bytes(found.document.len().saturating_add(MATCH_LEN))
    }

    pub(crate) fn take_bytes(&mut self, bytes: usize) -> Result<(), MatchesTooLarge> {
        self.left = self.left.checked_sub(bytes).ok_or(MatchesTooLarge)?;
        Ok(())
    }
}

/// The matches of a call have too many bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchesTooLarge;

impl From<MatchesTooLarge> for CallError {
    fn from(MatchesTooLarge: MatchesTooLarge) -> Self {
        Self::bad_request(format!(
            "the matches of this call have more than {MATCH_BYTES_MAX} bytes; send fewer queries, or a smaller `top_k`"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_taken_to_its_last_byte_and_no_further() {
        let mut budget = MatchBudget::new();
        assert_eq!(budget.take_bytes(MATCH_BYTES_MAX - 1), Ok(()));
        assert_eq!(budget.take_bytes(2), Err(MatchesTooLarge));
        assert_eq!(budget.take_bytes(1), Ok(()));
        assert_eq!(budget.take_bytes(1), Err(MatchesTooLarge));
    }
}
