//! Lets other tasks run between the reads of an HTTP/2 connection on which many streams begin.
//!
//! h2 reads until the socket is empty, and hyper starts a task for each new stream. Without a limit, a client that opens and
//! resets streams as fast as it can would queue thousands of tasks before those of other clients.
//!
//! A turn is one poll of the connection.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Streams that may begin in one turn. After more, nothing is read until the next turn, which is short. Normal clients begin a
/// few.
const STREAMS_MAX: usize = 64;

/// Bytes that are read in a short turn: those of about a hundred short requests.
const SHORT_TURN_BYTES: usize = 8 << 10;

/// Limits what one turn reads.
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
        let bytes = match self.streams.swap(0, Ordering::Relaxed) > STREAMS_MAX {
            true => SHORT_TURN_BYTES,
            false => usize::MAX,
        };
        self.bytes_left.store(bytes, Ordering::Relaxed);
    }

    /// Counts a stream that begins.
    pub(crate) fn begin_stream(&self) {
        self.streams.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts bytes that were read.
    pub(crate) fn read(&self, bytes: usize) {
        let left = self.bytes_left.load(Ordering::Relaxed);
        let left = left.saturating_sub(bytes);
        self.bytes_left.store(left, Ordering::Relaxed);
    }

    /// Whether nothing more is read before other tasks have run.
    pub(crate) fn is_over(&self) -> bool {
        let has_many = self.streams.load(Ordering::Relaxed) > STREAMS_MAX;
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
            turn.begin_stream();
        }
        turn.begin();
        turn
    }

    #[test]
    fn a_turn_ends_when_many_streams_have_begun() {
        let turn = after(0);
        for _ in 0..STREAMS_MAX {
            turn.begin_stream();
        }
        assert!(!turn.is_over());
        turn.begin_stream();
        assert!(turn.is_over());
    }

    #[test]
    fn a_turn_after_few_streams_has_no_end() {
        let turn = after(STREAMS_MAX);
        turn.read(1 << 30);
        assert!(!turn.is_over());
    }

    #[test]
    fn a_turn_after_many_streams_is_short() {
        let turn = after(STREAMS_MAX + 1);
        turn.read(SHORT_TURN_BYTES - 1);
        assert!(!turn.is_over());
        turn.read(1);
        assert!(turn.is_over());
    }

    #[test]
    fn the_turn_after_a_short_one_without_streams_has_no_end() {
        let turn = after(STREAMS_MAX + 1);
        turn.read(SHORT_TURN_BYTES);
        turn.begin();
        turn.read(1 << 30);
        assert!(!turn.is_over());
    }

    #[test]
    fn a_connection_that_was_upgraded_in_its_first_turn_is_read_without_an_end() {
        let turn = ReadTurn::default();
        turn.read(1 << 30);
        assert!(!turn.is_over());
    }
}
