//! A node of a flow: how it is called, and what it runs.

use flow_core::NodeName;
use serde::{Deserialize, Serialize};

use super::calls::Calls;
use super::entry::EntryChecker;
use super::local_run::LocalRun;
use super::options::is_set;
use crate::diagnostics::Diagnostics;
use crate::plan::Address;

/// An executor in a flow: its name, how it is called, and what it runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FlowNode {
    pub(crate) name: NodeName,
    pub(crate) floating: bool,
    pub(crate) calls: Calls,
    pub(crate) run: Run,
}

/// Who starts a node's replicas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Run {
    /// The flow starts them.
    Local(Box<LocalRun>),
    /// They run already.
    External {
        /// One for each replica; never empty.
        addresses: Vec<Address>,
    },
}

impl FlowNode {
    pub(super) fn check(
        name: NodeName,
        checker: &EntryChecker<'_>,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut calls = checker.calls();
        checker.check_hedge(diagnostics);
        checker.check_protocol(diagnostics);
        let run = if checker.is_external() {
            let addresses = checker.external(diagnostics);
            checker.refuse_colocation(diagnostics);
            calls.tls = checker.call_tls(&addresses, diagnostics);
            Run::External { addresses }
        } else {
            checker.refuse_tls(diagnostics);
            let run = checker.local(diagnostics);
            checker.check_programs(&run, diagnostics);
            Run::Local(Box::new(run))
        };
        Self {
            name,
            floating: is_set(&checker.effective.options.floating),
            calls,
            run,
        }
    }
}
