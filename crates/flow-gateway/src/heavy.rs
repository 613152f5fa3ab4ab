//! Moves work on many bytes off the threads that serve requests.
//!
//! Merging or filtering some megabytes of documents takes as long as thousands of calls. So it runs on a thread for
//! blocking work, and only a few requests do so at a time; the others wait. Small work runs where it is.

use std::sync::Arc;

use flow_core::{Code, Failure};
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

/// Work on fewer bytes takes less than changing threads and some milliseconds at most.
const INLINE_MAX: usize = 64 << 10;

/// Requests that do heavy work at a time. Each may need several times its bytes while it does.
const AT_A_TIME: usize = 2;

/// Runs heavy work. Clones share the limit.
#[derive(Debug, Clone)]
pub(crate) struct HeavyWork(Arc<Semaphore>);

impl Default for HeavyWork {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_A_TIME)))
    }
}

impl HeavyWork {
    /// Runs `work`, which processes this many bytes.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        bytes: usize,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        if bytes < INLINE_MAX {
            return work();
        }
        let Ok(permit) = self.0.clone().acquire_owned().await else {
            unreachable!("the semaphore is never closed");
        };
        let work = spawn_blocking(move || {
            let outcome = work();
            drop(permit);
            outcome
        });
        work.await.unwrap_or_else(|error| {
            let message = format!("the work on the documents panicked: {error}");
            Err(Failure::new(Code::Internal, message))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[tokio::test]
    async fn small_work_stays_on_its_thread_and_heavy_work_moves_to_another() {
        let heavy = HeavyWork::default();
        let here = thread::current().id();
        let thread = || Ok(thread::current().id());
        assert_eq!(heavy.run(INLINE_MAX - 1, thread).await, Ok(here));
        assert_ne!(heavy.run(INLINE_MAX, thread).await, Ok(here));
    }

    #[tokio::test]
    async fn a_panic_fails_its_request_and_gives_the_permit_back() {
        let heavy = HeavyWork::default();
        for _ in 0..=AT_A_TIME {
            let panics = || -> Result<(), Failure> { panic!("no") };
            let failure = heavy.run(INLINE_MAX, panics).await.unwrap_err();
            assert_eq!(failure.code(), Code::Internal);
        }
    }
}
