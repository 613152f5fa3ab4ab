//! The requests that a thread works on, which every line that it logs names.

use std::cell::RefCell;
use std::sync::Arc;

thread_local! {
    static CURRENT: RefCell<Vec<Arc<str>>> = const { RefCell::new(Vec::new()) };
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
    }
}
