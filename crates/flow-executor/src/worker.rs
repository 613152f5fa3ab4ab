//! Threads that run the executor.

mod exit_policy;
mod failure_log;
mod runner;
mod shared_runner;
mod threads;

pub(crate) use exit_policy::{ExitPolicy, ExitReason};
pub(crate) use threads::{ExecutorReport, StartedWorkers, WorkerConfig, start};
