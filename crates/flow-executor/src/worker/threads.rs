//! The threads that run the executor. Each owns an executor, takes the next batch when it is free, and runs it.
//!
//! The first thread loads the executor. The others start when it is loaded, and get forks of it. The first one may share its
//! executor with the threads that read requests.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use flow_core::{Models, Workers};
use flow_process::{Facts, KeepsState};
use tokio::sync::oneshot;

use super::exit_policy::ExitPolicy;
use super::failure_log::FailureLog;
use super::runner::{CallRunner, panic_message};
use super::shared_runner::SharedRunner;
use crate::definition::Hooks;
use crate::metrics::ExecutorMetrics;
use crate::queue::{Admission, CallQueue, ShortCallsHere, WorkerGuard};
use crate::sdk::{Endpoints, Fork, LoadError};

/// What a loaded executor reports about itself.
#[derive(Debug, Default)]
pub(crate) struct ExecutorReport {
    pub(crate) facts: Facts,
    /// Its models, by endpoint.
    pub(crate) models: Models,
    pub(crate) keeps_state: KeepsState,
}

/// The workers, as the server sees them.
pub(crate) struct StartedWorkers {
    pub(crate) admission: Admission,
    /// Receives the executor's report when it is loaded on every thread, or why it could not be loaded.
    pub(crate) loaded: oneshot::Receiver<Result<ExecutorReport, LoadError>>,
}

/// How the threads run an executor.
pub(crate) struct WorkerConfig<E> {
    /// The name of the executor and of its threads.
    pub(crate) name: String,
    pub(crate) endpoints: Arc<Endpoints<E>>,
    pub(crate) hooks: Hooks<E>,
    pub(crate) workers: Workers,
    /// Bytes of requests that may wait or run.
    pub(crate) request_memory_max: usize,
    pub(crate) exit: ExitPolicy,
    pub(crate) metrics: Option<ExecutorMetrics>,
}

/// Starts the first thread, which calls `load`. All threads end when no more calls can arrive.
pub(crate) fn start<E: 'static>(
    config: WorkerConfig<E>,
    load: impl FnOnce() -> Result<E, LoadError> + Send + 'static,
) -> std::io::Result<StartedWorkers> {
    let queue = CallQueue::new();
    let admission = Admission::new(&queue, config.request_memory_max);
    let guard = queue.register_worker();
    let short_calls = admission.short_calls();
    let (result, loaded) = oneshot::channel();
    // `top -H` shows the name of a thread; the kernel keeps 15 bytes of it.
    let thread = thread::Builder::new().name(config.name.clone());
    thread.spawn(move || {
        let started = catch_panic(load).and_then(|executor| config.start_others(&queue, executor));
        match started {
            Ok((executor, report)) => {
                if result.send(Ok(report)).is_ok() {
                    config.work_first(executor, (&queue, guard), &short_calls);
                }
            }
            // The server does not wait any more if it has ended.
            Err(error) => drop(result.send(Err(error))),
        }
    })?;
    Ok(StartedWorkers { admission, loaded })
}

fn catch_panic<E>(load: impl FnOnce() -> Result<E, LoadError>) -> Result<E, LoadError> {
    catch_unwind(AssertUnwindSafe(load)).unwrap_or_else(|panic| {
        Err(LoadError::new(format!(
            "panicked: {}",
            panic_message(&*panic)
        )))
    })
}

/// The number of workers on this machine.
fn count(workers: Workers) -> usize {
    match workers {
        Workers::Number(number) => number.get().into(),
        Workers::Auto => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    }
}

impl<E: 'static> WorkerConfig<E> {
    /// Starts the other threads and waits until each has its executor.
    fn start_others(
        &self,
        queue: &Arc<CallQueue>,
        executor: E,
    ) -> Result<(E, ExecutorReport), LoadError> {
        let forks = self.forks(&executor)?;
        let workers = forks.len() + 1;
        let (result, results) = sync_channel(workers);
        for (index, fork) in forks.into_iter().enumerate() {
            self.start_other(queue, (index + 1, fork), result.clone())?;
        }
        drop(result);
        await_all(&results, workers - 1)?;
        let mut facts = (self.hooks.facts)(&executor);
        if workers > 1 {
            facts.insert("workers".to_owned(), workers.to_string());
        }
        let report = ExecutorReport {
            facts,
            models: (self.hooks.models)(&executor),
            keeps_state: (self.hooks.keeps_state)(&executor),
        };
        Ok((executor, report))
    }

    fn forks(&self, executor: &E) -> Result<Vec<Fork<E>>, LoadError> {
        let others = count(self.workers) - 1;
        let forks: Vec<Fork<E>> = (0..others)
            .map_while(|_| (self.hooks.fork)(executor))
            .collect();
        match self.workers {
            Workers::Number(_) if forks.len() < others => Err(LoadError::new(format!(
                "it works on one thread only, so `workers` cannot be {}; use `replicas`, which are processes",
                self.workers
            ))),
            _ => Ok(forks),
        }
    }

    fn start_other(
        &self,
        queue: &Arc<CallQueue>,
        (index, fork): (usize, Fork<E>),
        result: SyncSender<Result<(), LoadError>>,
    ) -> std::io::Result<()> {
        let config = Self {
            name: format!("{}-{index}", self.name),
            endpoints: Arc::clone(&self.endpoints),
            hooks: self.hooks,
            workers: self.workers,
            request_memory_max: self.request_memory_max,
            exit: self.exit.clone(),
            metrics: self.metrics.clone(),
        };
        let (queue, guard) = (Arc::clone(queue), queue.register_worker());
        let thread = thread::Builder::new().name(config.name.clone());
        thread.spawn(move || match catch_panic(|| fork.make()) {
            Ok(executor) => {
                if result.send(Ok(())).is_ok() {
                    drop(result);
                    config.work(executor, &queue, guard);
                }
            }
            Err(error) => drop(result.send(Err(error))),
        })?;
        Ok(())
    }

    /// Works as the first thread, which may share its executor.
    fn work_first(
        self,
        executor: E,
        (queue, guard): (&CallQueue, WorkerGuard),
        short_calls: &ShortCallsHere,
    ) {
        let of_executor = (self.hooks.short_calls)(&executor);
        let Some(share) = of_executor.share() else {
            return self.work(executor, queue, guard);
        };
        let below = of_executor.below();
        let runner = Arc::new(SharedRunner::new(share(executor), self.runner(), below));
        short_calls.set(runner.clone());
        while let Some(work) = queue.next() {
            runner.run(work, queue);
        }
        drop(guard);
    }

    /// Works until no more calls can arrive. The guard is dropped however this ends.
    fn work(self, mut executor: E, queue: &CallQueue, guard: WorkerGuard) {
        let mut runner = self.runner();
        while let Some(work) = queue.next() {
            runner.work(&mut executor, work, queue);
        }
        drop(guard);
    }

    fn runner(self) -> CallRunner<E> {
        CallRunner {
            endpoints: self.endpoints,
            exit: self.exit,
            metrics: self.metrics,
            failures: FailureLog::default(),
        }
    }
}

fn await_all(results: &Receiver<Result<(), LoadError>>, workers: usize) -> Result<(), LoadError> {
    (0..workers).try_for_each(|_| {
        let result = results.recv();
        result.unwrap_or_else(|_| Err(LoadError::new("the thread of a worker ended")))
    })
}

#[cfg(test)]
mod tests;
