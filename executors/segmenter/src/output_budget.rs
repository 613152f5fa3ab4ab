//! Limits the bytes of what one call makes.
//!
//! A request decides how often a text, an id and tags are repeated, so that without a limit a small request becomes
//! gigabytes: each chunk copies the tags of its document, and its id twice.

use flow_executor::{CallError, Document};

/// Bytes that a call may make for each byte of its input: as often as the chunks of a text may repeat it.
const OUTPUT_PER_INPUT: usize = 16;

/// Bytes that a call may make whatever its input, so that short texts with long tags need not be sent one by one.
const OUTPUT_MIN: usize = 64 << 20;

/// Bytes that a call may make at most. A reply cannot have more.
const OUTPUT_MAX: usize = 512 << 20;

/// Bytes that a chunk takes besides what it copies: the document in memory, its place, and numbers in its ids.
const CHUNK_LEN: usize = 256;

/// The bytes that the chunks of a call may still have.
#[derive(Debug)]
pub(crate) struct OutputBudget {
    max: usize,
    left: usize,
}

impl OutputBudget {
    /// The budget of a call with these documents.
    pub(crate) fn for_input(docs: &[Document]) -> Self {
        let input: usize = docs.iter().map(|doc| doc.encode().len()).sum();
        let max = OUTPUT_MIN.saturating_add(input.saturating_mul(OUTPUT_PER_INPUT));
        let max = max.min(OUTPUT_MAX);
        Self { max, left: max }
    }

    /// How many chunks a document may have, of which each copies this number of bytes from it.
    pub(crate) fn chunks_max(&self, copied: usize) -> usize {
        self.left / CHUNK_LEN.saturating_add(copied)
    }

    /// Counts the chunks of a document: each copies `copied` bytes from it, and their texts have `bytes` together.
    pub(crate) fn take(
        &mut self,
        chunks: usize,
        copied: usize,
        bytes: usize,
    ) -> Result<(), CallError> {
        let copied = chunks.saturating_mul(CHUNK_LEN.saturating_add(copied));
        let left = self.left.checked_sub(copied.saturating_add(bytes));
        self.left = left.ok_or_else(|| self.exceeded())?;
        Ok(())
    }

    /// The error of a call that would make more.
    pub(crate) fn exceeded(&self) -> CallError {
        CallError::bad_request(format!(
            "the chunks of this call would have more than {} bytes, with the ids and tags that they copy from their \
             documents; send fewer or shorter documents, shorter ids, or set `copy_tags` to false",
            self.max
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_a_multiple_of_the_input_within_limits() {
        let max = |len: usize| {
            let mut doc = Document::new();
            doc.set_id("");
            doc.set_text("x".repeat(len));
            let len = doc.encode().len();
            (OutputBudget::for_input(&[doc]).max, len)
        };
        for len in [0, 1000, 1 << 20] {
            let (max, len) = max(len);
            assert_eq!(max, OUTPUT_MIN + 16 * len);
        }
        assert_eq!(max(64 << 20).0, OUTPUT_MAX);
    }

    #[test]
    fn a_budget_is_taken_to_its_last_byte_and_no_further() {
        let budget = |left| OutputBudget { max: 1000, left };
        let each = CHUNK_LEN + 10;
        for (left, fits) in [(2 * each + 4, false), (2 * each + 5, true)] {
            assert_eq!(budget(left).take(2, 10, 5).is_ok(), fits, "{left}");
        }
        assert_eq!(budget(2 * each - 1).chunks_max(10), 1);
        assert_eq!(budget(2 * each).chunks_max(10), 2);
        assert!(budget(1).take(usize::MAX, usize::MAX, usize::MAX).is_err());
    }
}
