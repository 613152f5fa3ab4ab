//! Lets other tasks run between the reads of an HTTP/2 connection on which many streams begin.
//!
//! HTTP/2's code reads until the socket is empty, and starts a task for each stream that it finds. A client that opens and
//! resets streams as fast as it can would so put thousands of tasks in front of those of all others.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Streams that may begin in one turn. After more, nothing is read until the next turn, which is short. Normal clients begin a
/// few.
const STREAMS: usize = 64;

/// Bytes that are read in the turn after one in which more streams began: those of about a hundred short requests.
const BYTES: usize = 8 << 10;

/// What one poll of a connection may read.
#[derive(Debug)]
pub(crate) struct ReadTurn {
    streams: AtomicUsize,
    bytes_left: AtomicUsize,
}

impl Default for ReadTurn {
    fn default() -> Self {
        Self {
            streams: AtomicUsize::new(0),
            bytes_left: AtomicUsize::new(usize::MAX),
        }
    }
}

impl ReadTurn {
    /// Begins a turn, which is short if many streams began in the last one.
    pub(crate) fn begin(&self) {
        let bytes = match self.streams.swap(0, Ordering::Relaxed) > STREAMS {
            true => BYTES,
            false => usize::MAX,
        };
        self.bytes_left.store(bytes, Ordering::Relaxed);
    }

    /// Notes a stream that began.
    pub(crate) fn stream(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Notes bytes that were read.
    pub(crate) fn read(&self, bytes: usize) {
        let left = self.bytes_left.load(Ordering::Relaxed);
        let left = left.saturating_sub(bytes);
        self.bytes_left.store(left, Ordering::Relaxed);
    }

    /// Whether nothing more is read before other tasks have run.
    pub(crate) fn is_over(&self) -> bool {
        let has_many = self.streams.load(Ordering::Relaxed) > STREAMS;
        has_many || self.bytes_left.load(Ordering::Relaxed) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(streams: usize) -> ReadTurn {
        let turn = ReadTurn::default();
        turn.begin();
        for _ in 0..streams {
            turn.stream();
        }
        turn.begin();
        turn
    }

    #[test]
    fn a_turn_ends_when_many_streams_have_begun() {
        let turn = after(0);
        for _ in 0..STREAMS {
            turn.stream();
        }
        assert!(!turn.is_over());
        turn.stream();
        assert!(turn.is_over());
    }

    #[test]
    fn a_turn_after_few_streams_has_no_end() {
        let turn = after(STREAMS);
        turn.read(1 << 30);
        assert!(!turn.is_over());
    }

    #[test]
    fn a_turn_after_many_streams_is_short() {
        let turn = after(STREAMS + 1);
        turn.read(BYTES - 1);
        assert!(!turn.is_over());
        turn.read(1);
        assert!(turn.is_over());
    }

    #[test]
    fn the_turn_after_a_short_one_counts_anew() {
        let turn = after(STREAMS + 1);
        turn.read(BYTES);
        turn.begin();
        assert!(!turn.is_over());
    }

    #[test]
    fn a_connection_that_was_upgraded_in_its_first_turn_is_read_without_an_end() {
        let turn = ReadTurn::default();
        turn.read(1 << 30);
        assert!(!turn.is_over());
    }
}
