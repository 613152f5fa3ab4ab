//! Changes which events the processes of a running flow log.
//!
//! A process says by which filter it logs, so that those which cannot be changed are known: stock Jina executors, other
//! programs, and containers, which do not see the file of their filter.

use std::io;
use std::time::Duration;

use flow_core::closest;
use flow_process::{BadLogFilter, LogFilter};
use tokio::time::timeout;

use crate::change::ChangeProgress;
use crate::spec::role::Role;
use crate::state::log_filters::LogFilters;
use crate::supervisor::Supervisor;
use crate::supervisor::handle::ProcessHandle;
use crate::supervisor::status::ProcessState;

/// Time for a process to say that it has changed. It looks four times a second.
const CONFIRM_WITHIN: Duration = Duration::from_secs(5);

/// Time for a process that has just become ready to say by which filter it logs.
const SAYS_WITHIN: Duration = Duration::from_millis(500);

/// The levels of processes were not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum LogLevelError {
    #[error(transparent)]
    Filter(#[from] BadLogFilter),
    #[error("there is no process and no executor `{name}`{}", suggestion(.similar.as_ref()))]
    Unknown {
        name: String,
        similar: Option<String>,
    },
    #[error("this flow has no state directory, from which its processes read their filters")]
    NoDirectory,
    #[error("cannot write the filter of `{name}`")]
    Write { name: String, source: io::Error },
    #[error("{}", .0.join("; "))]
    NotChanged(Vec<String>),
}

fn suggestion(name: Option<&String>) -> String {
    name.map_or_else(String::new, |name| format!("; did you mean `{name}`?"))
}

/// Changes the filters of these processes. Those that can be changed are, even if others cannot.
pub(super) async fn change(
    supervisor: &Supervisor,
    name: Option<&str>,
    filter: Option<&str>,
    progress: &ChangeProgress,
) -> Result<(), LogLevelError> {
    let filter: Option<LogFilter> = filter.map(str::parse).transpose()?;
    let processes = named(supervisor, name)?;
    let files = supervisor.log_filters.as_ref();
    let files = files.ok_or(LogLevelError::NoDirectory)?;
    let mut not_changed = Vec::new();
    for process in &processes {
        match change_one(process, filter.as_ref(), files).await? {
            Ok(now) => {
                let name = &process.spec.name;
                progress.report_to_caller(format!("{name} logs at `{now}`"));
            }
            Err(why) => not_changed.push(why),
        }
    }
    match not_changed.is_empty() {
        true => Ok(()),
        false => Err(LogLevelError::NotChanged(not_changed)),
    }
}

/// The processes of a node, or the one of this name.
fn named(supervisor: &Supervisor, name: Option<&str>) -> Result<Vec<ProcessHandle>, LogLevelError> {
    let all = supervisor.executors().into_iter();
    let mut all: Vec<ProcessHandle> = all.chain(supervisor.gateway()).collect();
    let Some(name) = name else {
        return Ok(all);
    };
    let node = |process: &ProcessHandle| match &process.spec.role {
        Role::Executor { node, .. } => Some(node.to_string()),
        Role::Gateway => None,
    };
    let known: Vec<String> = all
        .iter()
        .flat_map(|it| std::iter::once(it.spec.name.to_string()).chain(node(it)))
        .collect();
    all.retain(|it| *it.spec.name == *name || node(it).as_deref() == Some(name));
    match all.is_empty() {
        false => Ok(all),
        true => Err(LogLevelError::Unknown {
            name: name.to_owned(),
            similar: closest(name, known.iter().map(String::as_str)).map(str::to_owned),
        }),
    }
}

/// Changes the filter of one process; returns the filter that it has now, or why it cannot be changed.
async fn change_one(
    process: &ProcessHandle,
    filter: Option<&LogFilter>,
    files: &LogFilters,
) -> Result<Result<String, String>, LogLevelError> {
    let name = &process.spec.name;
    if process.status().state != ProcessState::Ready {
        return Ok(Err(format!("`{name}` is not ready")));
    }
    let mut reported = process.log_filter.clone();
    let first = timeout(SAYS_WITHIN, reported.wait_for(Option::is_some));
    let says = first.await.is_ok();
    if !says {
        return Ok(Err(unable(process)));
    }
    let text = filter.map(LogFilter::as_str);
    let is_wanted = |now: &Option<String>| now.as_deref() == text;
    let written = files.write(name, text);
    written.map_err(|source| LogLevelError::Write {
        name: name.to_string(),
        source,
    })?;
    let changed = async {
        match text {
            Some(_) => drop(reported.wait_for(is_wanted).await),
            // The filter that it started with is not known here: accept any report, or none if nothing changes.
            None => drop(timeout(CONFIRM_WITHIN / 5, reported.changed()).await),
        }
    };
    match timeout(CONFIRM_WITHIN, changed).await {
        Ok(()) => Ok(Ok(process.log_filter.borrow().clone().unwrap_or_default())),
        Err(_elapsed) => Ok(Err(format!(
            "`{name}` did not confirm within {CONFIRM_WITHIN:?}; `flow logs {name}` may say why"
        ))),
    }
}

fn unable(process: &ProcessHandle) -> String {
    let name = &process.spec.name;
    match process.spec.invocation.container {
        Some(_) => format!(
            "`{name}` runs in a container, whose level is set by the variable FLOW_LOG when it starts"
        ),
        None => format!(
            "`{name}` does not report its log level: executors of Jina and other programs keep the level that they start with"
        ),
    }
}
