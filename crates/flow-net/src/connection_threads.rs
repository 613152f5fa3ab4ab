//! Threads that serve the connections of clients, each with a runtime of its own.
//!
//! All that a connection needs for its requests is done on its thread, and each thread has its own connections to replicas. So no
//! request is handed from thread to thread: with one runtime on several threads, tasks that wake each other on different
//! threads took a third more of the processor for a short request.

use std::cell::Cell;
use std::io;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinSet;

use crate::runtime_thread::RuntimeThread;

thread_local! {
    static SERVES_CONNECTIONS: Cell<bool> = const { Cell::new(false) };
}

/// The threads. They end when this is dropped.
#[derive(Debug)]
pub struct ConnectionThreads(Vec<RuntimeThread>);

/// Serves connections on the threads.
#[derive(Debug, Clone, Default)]
pub struct ConnectionSpawner(Arc<[Handle]>);

/// The runtimes that serve the connections of a server: the one that accepts them is the first.
#[derive(Debug)]
pub(crate) struct ConnectionRuntimes(Vec<ConnectionRuntime>);

#[derive(Debug)]
struct ConnectionRuntime {
    handle: Handle,
    /// Connections that it serves.
    open: usize,
}

impl ConnectionThreads {
    /// Starts this number of threads.
    ///
    /// # Errors
    ///
    /// If the system has no thread.
    pub fn start(count: usize) -> io::Result<Self> {
        let begin = || SERVES_CONNECTIONS.set(true);
        let start = |number| RuntimeThread::start(&format!("connections-{number}"), begin);
        (1..=count).map(start).collect::<io::Result<_>>().map(Self)
    }

    /// What serves connections on them.
    #[must_use]
    pub fn spawner(&self) -> ConnectionSpawner {
        ConnectionSpawner(self.0.iter().map(|it| it.handle().clone()).collect())
    }
}

impl ConnectionSpawner {
    #[cfg(test)]
    pub(crate) fn threads(&self) -> &[Handle] {
        &self.0
    }
}

impl ConnectionRuntimes {
    /// The runtime of this thread, and those of the spawner.
    pub(crate) fn new(spawner: &ConnectionSpawner) -> Self {
        let all = std::iter::once(Handle::current()).chain(spawner.0.iter().cloned());
        Self(
            all.map(|handle| ConnectionRuntime { handle, open: 0 })
                .collect(),
        )
    }

    /// The place of the runtime that serves the fewest connections.
    pub(crate) fn least_used(&self) -> usize {
        let least = (0..self.0.len()).min_by_key(|place| self.0[*place].open);
        least.unwrap_or_default()
    }

    /// Moves what the runtime of this thread has to the one at this place.
    pub(crate) fn move_to<T>(
        &self,
        place: usize,
        stream: T,
        move_here: impl FnOnce(T) -> io::Result<T>,
    ) -> io::Result<T> {
        if place == 0 {
            return Ok(stream);
        }
        let _entered = self.0[place].handle.enter();
        move_here(stream)
    }

    /// Serves a connection.
    pub(crate) fn spawn(
        &mut self,
        place: usize,
        tasks: &mut JoinSet<()>,
        serving: impl Future<Output = ()> + Send + 'static,
    ) -> tokio::task::Id {
        let runtime = &mut self.0[place];
        runtime.open += 1;
        tasks.spawn_on(serving, &runtime.handle).id()
    }

    /// Counts a connection that has ended.
    pub(crate) fn ended(&mut self, place: usize) {
        self.0[place].open -= 1;
    }
}

/// Whether this thread is one of [`ConnectionThreads`].
pub(crate) fn is_connection_thread() -> bool {
    SERVES_CONNECTIONS.get()
}
