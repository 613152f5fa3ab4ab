//! The requests that a thread works on, which every line that it logs names.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

thread_local! {
    static CURRENT: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
    static SPAN: Cell<Option<SpanIds>> = const { Cell::new(None) };
}

/// A span that is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanIds {
    /// Its trace.
    pub trace: [u8; 16],
    /// The span itself.
    pub span: [u8; 8],
}

/// Runs the work of these requests on this thread. Lines that are logged meanwhile name their ids, those of panics too.
///
/// This costs some nanoseconds, unlike a span of `tracing`, which writes its fields down although nothing is logged.
pub fn on_behalf_of<T>(ids: impl IntoIterator<Item = Arc<str>>, work: impl FnOnce() -> T) -> T {
    CURRENT.with_borrow_mut(|current| {
        current.clear();
        current.extend(ids);
    });
    let _clear = Clear;
    work()
}

/// Says that the work of this thread is part of a span, until the work [on behalf of](on_behalf_of) requests ends. Only
/// exported records name it.
pub fn note_span(span: SpanIds) {
    SPAN.set(Some(span));
}

/// The span that the work of this thread is part of.
pub(super) fn current_span() -> Option<SpanIds> {
    SPAN.get()
}

/// The requests that this thread works on, to be named by what it leaves to another thread.
#[must_use]
pub fn current_requests() -> Vec<Arc<str>> {
    CURRENT.with_borrow(Clone::clone)
}

/// Looks at the requests that this thread works on.
pub(super) fn look<T>(at: impl FnOnce(&[Arc<str>]) -> T) -> T {
    CURRENT.with_borrow(|current| at(current))
}

/// Ends the work, also if it panics.
struct Clear;

impl Drop for Clear {
    fn drop(&mut self) {
        CURRENT.with_borrow_mut(Vec::clear);
        SPAN.set(None);
    }
}
