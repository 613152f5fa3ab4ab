//! Says whether a caller still waits for the call on which a thread works.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

thread_local! {
    static CURRENT: RefCell<Cancellation> = const { RefCell::new(Cancellation(None)) };
}

/// Says whether all callers of a call have gone, so that the rest of its work would be in vain.
///
/// A method that takes long asks now and then, and ends with [`CallError::cancelled`](crate::CallError::cancelled). Several
/// requests may share a call; it is cancelled when the last of their callers has gone. Clones may be sent to other threads.
///
/// ```
/// use flow_executor::{CallError, Cancellation, Document, Parameters};
///
/// fn shout(docs: &mut [Document], _: &Parameters) -> Result<(), CallError> {
///     let cancellation = Cancellation::current();
///     for doc in docs {
///         if cancellation.is_cancelled() {
///             return Err(CallError::cancelled());
///         }
///         doc.set_text(doc.text().to_uppercase());
///     }
///     Ok(())
/// }
/// # shout(&mut [Document::new()], &Parameters::default()).unwrap();
/// ```
#[derive(Clone)]
pub struct Cancellation(Option<Arc<dyn Fn() -> bool + Send + Sync>>);

impl Cancellation {
    /// That of the call on which this thread works. Outside of a call it is never cancelled.
    #[must_use]
    pub fn current() -> Self {
        CURRENT.with_borrow(Clone::clone)
    }

    /// Whether all callers have gone.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.as_ref().is_some_and(|has_gone| has_gone())
    }

    /// A call whose callers have gone when this says so.
    pub(crate) fn when(have_gone: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(have_gone)))
    }

    /// Makes it that of this thread until the returned value is dropped.
    pub(crate) fn enter(self) -> EnteredCall {
        EnteredCall(CURRENT.replace(self))
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Cancellation");
        debug.field("is_cancelled", &self.is_cancelled()).finish()
    }
}

/// A thread works on a call.
#[derive(Debug)]
pub(crate) struct EnteredCall(Cancellation);

impl Drop for EnteredCall {
    fn drop(&mut self) {
        CURRENT.set(std::mem::replace(&mut self.0, Cancellation(None)));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    #[test]
    fn a_thread_knows_the_cancellation_of_its_call_and_of_no_other() {
        assert!(!Cancellation::current().is_cancelled());
        let has_gone = Arc::new(AtomicBool::new(false));
        let of_caller = Arc::clone(&has_gone);
        let call = Cancellation::when(move || of_caller.load(Ordering::Relaxed)).enter();
        let kept = Cancellation::current();
        assert!(!kept.is_cancelled());
        has_gone.store(true, Ordering::Relaxed);
        assert!(kept.is_cancelled() && Cancellation::current().is_cancelled());
        let elsewhere = std::thread::spawn(|| Cancellation::current().is_cancelled());
        assert!(!elsewhere.join().unwrap());
        drop(call);
        assert!(!Cancellation::current().is_cancelled());
    }
}
