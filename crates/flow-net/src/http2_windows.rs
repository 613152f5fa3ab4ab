//! Limits the flow-control windows of HTTP/2 connections.
//!
//! h2 buffers request bytes until the server reads them, up to the window of the connection. No budget counts these bytes, so all
//! windows together have a limit: a new connection gets a part of what the others have left.

use crate::sync::{Arc, AtomicUsize, Ordering};

/// A connection gets an eighth of what is left, so that some dozens get enough for large messages.
const SHARE: usize = 8;

/// The initial window of an HTTP/2 connection. A server cannot make it smaller.
const MIN: u32 = 65_535;

/// Bytes that all windows together may have. Clones are the same.
#[derive(Debug, Clone)]
pub(crate) struct Http2Windows(Arc<AtomicUsize>);

/// The window of a connection, until this is dropped.
#[derive(Debug)]
pub(crate) struct Http2Window {
    bytes: u32,
    /// What of it belongs to the windows of all.
    taken: usize,
    windows: Http2Windows,
}

impl Http2Windows {
    pub(crate) fn new(max: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(max)))
    }

    /// A window of at most this many bytes, and of at least [`MIN`] if that is not more.
    pub(crate) fn open(&self, max: u32) -> Http2Window {
        let share = |left: usize| u32::try_from(left / SHARE).unwrap_or(u32::MAX);
        let of = |left: usize| max.min(share(left).max(MIN));
        let take = |left: usize| left.saturating_sub(of(left) as usize);
        let before = self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| Some(take(left)));
        let left = before.unwrap_or_else(|left| left);
        Http2Window {
            bytes: of(left),
            taken: left - take(left),
            windows: self.clone(),
        }
    }
}

impl Http2Window {
    pub(crate) fn bytes(&self) -> u32 {
        self.bytes
    }
}

impl Drop for Http2Window {
    fn drop(&mut self) {
        self.windows.0.fetch_add(self.taken, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_connections_get_large_windows_and_all_of_them_the_smallest() {
        let windows = Http2Windows::new(64 << 20);
        let open: Vec<_> = (0..100).map(|_| windows.open(16 << 20)).collect();
        let bytes: Vec<_> = open.iter().map(Http2Window::bytes).collect();
        assert_eq!(bytes[..2], [8 << 20, 7 << 20]);
        assert!(bytes.is_sorted_by(|one, next| one >= next));
        assert_eq!(bytes[99], MIN);
        let all: usize = bytes.iter().map(|it| *it as usize).sum();
        assert!(all < 70 << 20, "{all}");
        drop(open);
        assert_eq!(windows.open(16 << 20).bytes(), 8 << 20);
        assert_eq!(windows.open(1 << 20).bytes(), 1 << 20);
    }

    #[test]
    fn nothing_is_given_back_that_was_not_taken() {
        let windows = Http2Windows::new(70_000);
        let open = [(); 3].map(|()| windows.open(1 << 20));
        assert_eq!(open.each_ref().map(Http2Window::bytes), [MIN; 3]);
        drop(open);
        assert_eq!(windows.0.load(Ordering::SeqCst), 70_000);
    }
}
