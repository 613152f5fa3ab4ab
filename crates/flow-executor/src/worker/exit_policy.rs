//! The failures after which the process ends: those in `exit_on_exceptions` of the flow file, and the final failure of
//! an executor that cannot continue.

use std::sync::{Arc, OnceLock};

use flow_core::{Code, Failure};
use flow_net::Drain;

/// The name of any panic in `exit_on_exceptions`. The reply says `ExecutorError`, as for every failure of an
/// executor's code.
const PANIC: &str = "panic";

/// Begins the end of the process after certain failures.
#[derive(Debug, Clone, Default)]
pub(crate) struct ExitPolicy {
    names: Vec<String>,
    drain: Option<Drain>,
    reason: Arc<OnceLock<ExitReason>>,
}

/// How a method failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// It returned an error.
    Error,
    /// It returned an error that says that the executor cannot continue.
    Final,
    /// It ended because its callers have gone.
    Cancelled,
    /// It panicked.
    Panic,
}

/// Why the process ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ExitReason {
    /// A failure of this name, which the flow file lists.
    Listed(String),
    /// The executor cannot continue; its message.
    Final(String),
}

/// No failure has this name.
#[derive(Debug, thiserror::Error)]
#[error("unknown failure `{name}`; expected one of {known}")]
pub(crate) struct UnknownFailureName {
    name: String,
    known: String,
}

impl ExitPolicy {
    /// The policy of an executor that raises exceptions of its own.
    pub(crate) fn of_any_exception(names: &[String], drain: &Drain) -> Self {
        Self {
            names: names.to_vec(),
            drain: Some(drain.clone()),
            reason: Arc::default(),
        }
    }

    pub(crate) fn new(names: &[String], drain: &Drain) -> Result<Self, UnknownFailureName> {
        let known = || std::iter::once(PANIC).chain(Code::ALL.iter().map(|code| code.exception()));
        if let Some(name) = names.iter().find(|name| !known().any(|it| it == **name)) {
            let mut known: Vec<String> = known().map(|name| format!("`{name}`")).collect();
            known.dedup();
            return Err(UnknownFailureName {
                name: name.clone(),
                known: known.join(", "),
            });
        }
        Ok(Self::of_any_exception(names, drain))
    }

    /// Begins the drain if the failure ends the process. Call this after the reply was sent: replies in progress when
    /// the drain begins are still delivered.
    pub(crate) fn observe(&self, failure: &Failure, kind: FailureKind) {
        if let Some(reason) = self.exit_reason(failure, kind)
            && let Some(drain) = &self.drain
        {
            // The first reason counts.
            drop(self.reason.set(reason));
            drain.begin();
        }
    }

    fn exit_reason(&self, failure: &Failure, kind: FailureKind) -> Option<ExitReason> {
        match kind {
            FailureKind::Final => return Some(ExitReason::Final(failure.message().to_owned())),
            // Nothing is wrong with the executor.
            FailureKind::Cancelled => return None,
            FailureKind::Error | FailureKind::Panic => {}
        }
        let (raised, code) = (failure.exception_name(), failure.code().exception());
        let panicked = kind == FailureKind::Panic;
        let is_listed =
            |name: &&String| **name == raised || **name == code || (panicked && **name == PANIC);
        let name = self.names.iter().find(is_listed)?;
        Some(ExitReason::Listed(name.clone()))
    }

    /// Why the process ends, if a failure ended it.
    pub(crate) fn reason(&self) -> Option<&ExitReason> {
        self.reason.get()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn policy(names: &[&str]) -> Result<(ExitPolicy, Drain), UnknownFailureName> {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let drain = Drain::new(Duration::from_secs(1));
        Ok((ExitPolicy::new(&names, &drain)?, drain))
    }

    #[test]
    fn only_a_listed_failure_begins_the_drain() {
        let check = |names: &[&str], code: Code, kind: FailureKind, ends: bool| {
            let (policy, drain) = policy(names).unwrap();
            policy.observe(&Failure::new(code, "x"), kind);
            assert_eq!(drain.watch().has_begun(), ends);
            assert_eq!(policy.reason().is_some(), ends);
        };
        use FailureKind::{Cancelled, Error, Panic};
        check(&[], Code::ExecutorFailed, Panic, false);
        check(&["panic"], Code::ExecutorFailed, Panic, true);
        check(&["panic"], Code::ExecutorFailed, Error, false);
        check(&["ExecutorError"], Code::ExecutorFailed, Error, true);
        check(&["ExecutorError"], Code::ExecutorFailed, Panic, true);
        check(&["ExecutorError"], Code::BadRequest, Error, false);
        let cancelled = Code::Cancelled.exception();
        check(&[cancelled], Code::Cancelled, Cancelled, false);
    }

    #[test]
    fn an_executor_that_cannot_continue_ends_the_process_without_a_list() {
        let (policy, drain) = policy(&[]).unwrap();
        let failure = Failure::new(Code::ExecutorFailed, "lost");
        policy.observe(&failure, FailureKind::Final);
        assert!(drain.watch().has_begun());
        assert_eq!(policy.reason(), Some(&ExitReason::Final("lost".to_owned())));
    }

    #[test]
    fn a_name_that_no_failure_has_is_an_error_with_the_known_names() {
        let error = policy(&["ValueError"]).unwrap_err().to_string();
        let expected = "unknown failure `ValueError`; expected one of `panic`, `BadRequest`";
        assert!(error.starts_with(expected), "{error}");
    }
}
