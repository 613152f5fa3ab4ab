//! After which failures the process ends: those that the flow file names (`exit_on_exceptions`), and those of an
//! executor that can do no more.

use std::sync::{Arc, OnceLock};

use flow_core::{Code, Failure};
use flow_net::Drain;

/// What a panic is called here; its reply says `ExecutorError`, as every failure of an executor's code.
const PANIC: &str = "panic";

/// Ends the process in order after a failure that is to be its last.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExitOn {
    names: Vec<String>,
    drain: Option<Drain>,
    happened: Arc<OnceLock<Ending>>,
}

/// How a method failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It said so.
    Failed,
    /// It said so, and that it can do no more.
    Last,
    /// It panicked.
    Panicked,
}

/// Why the process ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// The flow file names the failure.
    Named(String),
    /// The executor can do no more, and why.
    Last(String),
}

/// A name that no failure has.
#[derive(Debug, thiserror::Error)]
#[error("no failure is called `{name}`; there are {known}")]
pub(crate) struct UnknownName {
    name: String,
    known: String,
}

impl ExitOn {
    pub(crate) fn new(names: &[String], drain: &Drain) -> Result<Self, UnknownName> {
        let known = || std::iter::once(PANIC).chain(Code::ALL.iter().map(|code| code.exception()));
        if let Some(name) = names.iter().find(|name| !known().any(|it| it == **name)) {
            let mut known: Vec<String> = known().map(|name| format!("`{name}`")).collect();
            known.dedup();
            return Err(UnknownName {
                name: name.clone(),
                known: known.join(", "),
            });
        }
        Ok(Self {
            names: names.to_vec(),
            drain: Some(drain.clone()),
            happened: Arc::default(),
        })
    }

    /// To be told of each failure, once its reply is on its way: what is under way when the drain begins
    /// still goes out.
    pub(crate) fn after(&self, failure: &Failure, manner: Manner) {
        if let Some(ending) = self.ending(failure, manner)
            && let Some(drain) = &self.drain
        {
            drop(self.happened.set(ending));
            drain.begin();
        }
    }

    fn ending(&self, failure: &Failure, manner: Manner) -> Option<Ending> {
        if manner == Manner::Last {
            return Some(Ending::Last(failure.message().to_owned()));
        }
        let code = failure.code().exception();
        let panicked = manner == Manner::Panicked;
        let is_meant = |name: &&String| **name == code || (panicked && **name == PANIC);
        let name = self.names.iter().find(is_meant)?;
        Some(Ending::Named(name.clone()))
    }

    /// What ended the process, if a failure did.
    pub(crate) fn happened(&self) -> Option<&Ending> {
        self.happened.get()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn exit_on(names: &[&str]) -> Result<(ExitOn, Drain), UnknownName> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let drain = Drain::new(Duration::from_secs(1));
        Ok((ExitOn::new(&names, &drain)?, drain))
    }

    #[test]
    fn only_a_failure_of_that_name_begins_the_drain() {
        let check = |names: &[&str], code: Code, panicked: bool, ends: bool| {
            let (exit, drain) = exit_on(names).unwrap();
            let manner = if panicked {
                Manner::Panicked
            } else {
                Manner::Failed
            };
            exit.after(&Failure::new(code, "x"), manner);
            assert_eq!(drain.watch().has_begun(), ends);
            assert_eq!(exit.happened().is_some(), ends);
        };
        check(&[], Code::ExecutorFailed, true, false);
        check(&["panic"], Code::ExecutorFailed, true, true);
        check(&["panic"], Code::ExecutorFailed, false, false);
        check(&["ExecutorError"], Code::ExecutorFailed, false, true);
        check(&["ExecutorError"], Code::ExecutorFailed, true, true);
        check(&["ExecutorError"], Code::BadRequest, false, false);
    }

    #[test]
    fn an_executor_that_can_do_no_more_ends_the_process_whatever_the_flow_file_says() {
        let (exit, drain) = exit_on(&[]).unwrap();
        exit.after(&Failure::new(Code::ExecutorFailed, "lost"), Manner::Last);
        assert!(drain.watch().has_begun());
        assert_eq!(exit.happened(), Some(&Ending::Last("lost".to_owned())));
    }

    #[test]
    fn a_name_that_no_failure_has_is_told_with_those_there_are() {
        let error = exit_on(&["ValueError"]).unwrap_err().to_string();
        assert!(
            error.starts_with("no failure is called `ValueError`; there are `panic`, `BadRequest`")
        );
    }
}
