//! After which failures the process ends (`exit_on_exceptions`).

use std::sync::{Arc, OnceLock};

use flow_core::{Code, Failure};
use flow_net::Drain;

/// What a panic is called here; its reply says `ExecutorError`, as every failure of an executor's code.
const PANIC: &str = "panic";

/// Ends the process in order after a failure that the flow file names.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExitOn {
    names: Vec<String>,
    drain: Option<Drain>,
    happened: Arc<OnceLock<String>>,
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
    pub(crate) fn after(&self, failure: &Failure, panicked: bool) {
        let code = failure.code().exception();
        let is_meant = |name: &&String| **name == code || (panicked && **name == PANIC);
        if let Some(name) = self.names.iter().find(is_meant)
            && let Some(drain) = &self.drain
        {
            drop(self.happened.set(name.clone()));
            drain.begin();
        }
    }

    /// The name of the failure that ended the process, if one did.
    pub(crate) fn happened(&self) -> Option<&str> {
        self.happened.get().map(String::as_str)
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
            exit.after(&Failure::new(code, "x"), panicked);
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
    fn a_name_that_no_failure_has_is_told_with_those_there_are() {
        let error = exit_on(&["ValueError"]).unwrap_err().to_string();
        assert!(
            error.starts_with("no failure is called `ValueError`; there are `panic`, `BadRequest`")
        );
    }
}
