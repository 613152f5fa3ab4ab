//! Lets a connection write the replies to several requests at once.
//!
//! Each reply that a task finishes wakes the task of the connection. A runtime with several threads runs a task that was just woken
//! before all others, so the connection would write each reply alone, with a system call for each, although the next reply
//! is a microsecond away. So a connection that has further requests in progress lets the tasks run that are ready, and then writes
//! what they finished.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use tokio::task::yield_now;

/// When a connection is polled.
#[derive(Debug)]
pub(crate) struct JointWrites {
    is_waiting: bool,
    others: Arc<OtherTasks>,
    /// Wakes `others`.
    waker: Waker,
}

/// The tasks that were ready when the connection began to wait.
#[derive(Debug, Default)]
struct OtherTasks {
    have_run: AtomicBool,
    connection: AtomicWaker,
}

impl Default for JointWrites {
    fn default() -> Self {
        let others = Arc::<OtherTasks>::default();
        Self {
            is_waiting: false,
            waker: Waker::from(Arc::clone(&others)),
            others,
        }
    }
}

impl JointWrites {
    /// Waits until the tasks that are ready have run, if there are requests in progress. However often the connection is woken
    /// meanwhile, it waits once.
    pub(crate) fn poll_ready(&mut self, context: &mut Context<'_>, requests: usize) -> Poll<()> {
        if !self.is_waiting && requests == 0 {
            return Poll::Ready(());
        }
        self.others.connection.register(context.waker());
        if !self.is_waiting {
            self.is_waiting = true;
            self.others.have_run.store(false, Ordering::Relaxed);
            // The runtime wakes it when nothing else is ready. Outside of a runtime, it is woken at once.
            let mut of_others = Context::from_waker(&self.waker);
            let is_woken = pin!(yield_now()).poll(&mut of_others).is_ready();
            debug_assert!(!is_woken, "it yields once");
        }
        if !self.others.have_run.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        self.is_waiting = false;
        Poll::Ready(())
    }
}

impl Wake for OtherTasks {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.have_run.store(true, Ordering::Release);
        self.connection.wake();
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;
    use std::task::ready;

    use tokio::runtime::{Builder, Runtime};
    use tokio::task::JoinSet;

    use super::*;

    /// The numbers of replies that a connection finds each time that it may write, until it has written all. Each reply wakes
    /// it.
    fn writes(runtime: &Runtime, replies: usize) -> Vec<usize> {
        let written = Arc::new(Mutex::new(Vec::new()));
        let in_progress = Arc::new(AtomicUsize::new(0));
        let finished = Arc::new(AtomicUsize::new(0));
        let connection = Arc::new(AtomicWaker::new());
        let task = {
            let (written, finished) = (Arc::clone(&written), Arc::clone(&finished));
            let (in_progress, connection) = (Arc::clone(&in_progress), Arc::clone(&connection));
            let mut joint = JointWrites::default();
            poll_fn(move |context| {
                connection.register(context.waker());
                let before = written.lock().unwrap().iter().sum::<usize>();
                ready!(joint.poll_ready(context, in_progress.load(Ordering::Relaxed)));
                let new = finished.load(Ordering::Relaxed) - before;
                if new > 0 {
                    written.lock().unwrap().push(new);
                }
                match before + new == replies {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                }
            })
        };
        let all = async move {
            let mut tasks = JoinSet::new();
            tasks.spawn(task);
            // The connection waits for replies.
            yield_now().await;
            in_progress.store(replies, Ordering::Relaxed);
            for _ in 0..replies {
                let (finished, connection) = (Arc::clone(&finished), Arc::clone(&connection));
                let in_progress = Arc::clone(&in_progress);
                tasks.spawn(async move {
                    in_progress.fetch_sub(1, Ordering::Relaxed);
                    finished.fetch_add(1, Ordering::Relaxed);
                    connection.wake();
                });
            }
            tasks.join_all().await;
        };
        let mut tasks = JoinSet::new();
        tasks.spawn_on(all, runtime.handle());
        runtime.block_on(tasks.join_all());
        let written = written.lock().unwrap();
        written.clone()
    }

    #[test]
    fn replies_that_are_finished_one_after_another_are_written_at_once() {
        let one_thread = Builder::new_multi_thread()
            .worker_threads(1)
            .build()
            .unwrap();
        assert_eq!(writes(&one_thread, 16), [16]);
        let current = Builder::new_current_thread().build().unwrap();
        assert_eq!(writes(&current, 16), [16]);
    }

    #[test]
    fn the_last_reply_waits_for_nothing() {
        let mut joint = JointWrites::default();
        let mut context = Context::from_waker(Waker::noop());
        assert!(joint.poll_ready(&mut context, 0).is_ready());
    }

    #[test]
    fn outside_of_a_runtime_nothing_waits() {
        let mut joint = JointWrites::default();
        let mut context = Context::from_waker(Waker::noop());
        assert!(joint.poll_ready(&mut context, 2).is_ready());
    }
}
