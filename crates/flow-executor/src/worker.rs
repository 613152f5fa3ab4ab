//! The threads that run the executor: each owns one, pulls the next batch when it is free, and runs it.
//!
//! The first loads the executor. The others get forks of it, and start when it is loaded.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use tokio::sync::oneshot;

use crate::admission::Admission;
use crate::calls::{Runner, text_of};
use crate::exit::ExitOn;
use crate::meter::Meter;
use crate::queue::{Queue, Seat, Work};
use crate::workers::count;
use crate::{Endpoints, Executor, Facts, Fork, LoadError, Workers};

/// What is known of the workers from outside.
pub(crate) struct Worker {
    pub(crate) admission: Admission,
    /// Comes when the executor is loaded on every thread, or could not be.
    pub(crate) loaded: oneshot::Receiver<Result<Facts, LoadError>>,
}

/// How an executor's threads are to be.
pub(crate) struct Plan<E> {
    /// The executor's name, and its threads'.
    pub(crate) name: String,
    pub(crate) endpoints: Arc<Endpoints<E>>,
    pub(crate) workers: Workers,
    pub(crate) exit: ExitOn,
    pub(crate) meter: Option<Meter>,
}

/// Starts the first thread; `load` runs on it. All end when nobody can call them any more.
pub(crate) fn start<E: Executor>(
    plan: Plan<E>,
    load: impl FnOnce() -> Result<E, LoadError> + Send + 'static,
) -> std::io::Result<Worker> {
    let queue = Queue::new();
    let admission = Admission::new(&queue);
    let seat = queue.seat();
    let (tell, loaded) = oneshot::channel();
    // The kernel keeps 15 bytes of a thread's name; `top -H` then shows whose time it is.
    let thread = thread::Builder::new().name(plan.name.clone());
    thread.spawn(move || {
        let started = guarded(load).and_then(|executor| plan.start_others(&queue, executor));
        match started {
            Ok((executor, facts)) => {
                if tell.send(Ok(facts)).is_ok() {
                    plan.work(executor, &queue, seat);
                }
            }
            // Whoever asked to load has gone: nobody is left to be told.
            Err(error) => drop(tell.send(Err(error))),
        }
    })?;
    Ok(Worker { admission, loaded })
}

fn guarded<E>(load: impl FnOnce() -> Result<E, LoadError>) -> Result<E, LoadError> {
    catch_unwind(AssertUnwindSafe(load))
        .unwrap_or_else(|panic| Err(LoadError::new(format!("panicked: {}", text_of(&*panic)))))
}

impl<E: Executor> Plan<E> {
    /// Starts the other threads and waits until each has its executor.
    fn start_others(&self, queue: &Arc<Queue>, executor: E) -> Result<(E, Facts), LoadError> {
        let forks = self.forks(&executor)?;
        let workers = forks.len() + 1;
        let (tell, told) = sync_channel(workers);
        for (place, fork) in forks.into_iter().enumerate() {
            self.start_other(queue, (place + 1, fork), tell.clone())?;
        }
        drop(tell);
        await_all(&told, workers - 1)?;
        let mut facts = executor.facts();
        if workers > 1 {
            facts.insert("workers".to_owned(), workers.to_string());
        }
        Ok((executor, facts))
    }

    fn forks(&self, executor: &E) -> Result<Vec<Fork<E>>, LoadError> {
        let others = count(self.workers) - 1;
        let forks: Vec<Fork<E>> = (0..others).map_while(|_| executor.fork()).collect();
        match self.workers {
            Workers::Number(_) if forks.len() < others => Err(LoadError::new(format!(
                "it works on one thread only, so `workers` cannot be {}; ask for `replicas`, which are processes",
                self.workers
            ))),
            _ => Ok(forks),
        }
    }

    fn start_other(
        &self,
        queue: &Arc<Queue>,
        (place, fork): (usize, Fork<E>),
        tell: SyncSender<Result<(), LoadError>>,
    ) -> std::io::Result<()> {
        let plan = Self {
            name: format!("{}-{place}", self.name),
            endpoints: Arc::clone(&self.endpoints),
            workers: self.workers,
            exit: self.exit.clone(),
            meter: self.meter.clone(),
        };
        let (queue, seat) = (Arc::clone(queue), queue.seat());
        let thread = thread::Builder::new().name(plan.name.clone());
        thread.spawn(move || match guarded(|| fork.make()) {
            Ok(executor) => {
                if tell.send(Ok(())).is_ok() {
                    drop(tell);
                    plan.work(executor, &queue, seat);
                }
            }
            Err(error) => drop(tell.send(Err(error))),
        })?;
        Ok(())
    }

    /// Works until nobody brings work any more. The seat is left when this ends, whatever ends it.
    fn work(self, executor: E, queue: &Queue, seat: Seat) {
        let mut runner = Runner {
            executor,
            endpoints: self.endpoints,
            exit: self.exit,
            meter: self.meter,
        };
        while let Some(work) = queue.next() {
            match work {
                Work::Run(batch) => runner.run(batch),
                Work::Weigh(calls) => {
                    for mut call in calls {
                        runner.weigh(&mut call);
                        queue.push(call);
                    }
                }
            }
        }
        drop(seat);
    }
}

fn await_all(told: &Receiver<Result<(), LoadError>>, others: usize) -> Result<(), LoadError> {
    (0..others).try_for_each(|_| {
        told.recv()
            .unwrap_or_else(|_| Err(LoadError::new("the thread of a worker ended")))
    })
}

#[cfg(test)]
mod tests;
