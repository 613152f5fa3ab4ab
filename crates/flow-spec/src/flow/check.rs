//! [`FlowSpec`] → [`Flow`]: whether what is written makes sense, and what it means.
//!
//! All problems are found in one go, including those of reading the file. `connect.rs` checks the graph, `node.rs`
//! each node, `program.rs` the executor that it names, and `gateway.rs` the gateway.

use super::advice;
use super::connect;
use super::entry::EntryChecker;
use super::gateway::Gateway;
use super::node::FlowNode;
use super::options::{is_set, value};
use super::{Flow, ports};
use crate::context::{AnyExecutor, Context, NoFiles};
use crate::diagnostics::{Diagnostics, Problem, Problems};
use crate::keys::report_unknown;
use crate::spec::FlowSpec;
use crate::yaml::Variables;

/// The maximum number of executors in a flow: more than any machine could run. Indices of a plan have 16 bits.
const NODES_MAX: usize = 1024;

/// A flow with warnings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The flow.
    pub flow: Flow,
    /// Valid, but probably not meant.
    pub warnings: Problems,
}

impl Flow {
    /// Checks what was written. The executors that it names are not looked for.
    ///
    /// # Errors
    /// All problems of the file, in its order.
    pub fn check(spec: FlowSpec) -> Result<Checked, Problems> {
        let context = Context {
            variables: &Variables::default(),
            files: &NoFiles,
            executors: &AnyExecutor,
            lenient: false,
        };
        Self::check_with(spec, &context)
    }

    /// Checks what was written, and that the executors it names are there and take their options.
    ///
    /// # Errors
    /// All problems of the file, in its order.
    pub fn check_with(mut spec: FlowSpec, context: &Context<'_>) -> Result<Checked, Problems> {
        let mut diagnostics = std::mem::take(&mut spec.diagnostics);
        let lenient = context.lenient || is_set(&spec.options.lenient);
        connect::leave_out_inspections(&mut spec, &mut diagnostics);
        if spec.executors.len() > NODES_MAX {
            report_unknown(&mut diagnostics, lenient);
            diagnostics.problem(too_many(&spec));
            return Err(Problems::sorted(diagnostics.problems));
        }
        let flow = check(&spec, context, &mut diagnostics);
        report_unknown(&mut diagnostics, lenient);
        if diagnostics.problems.is_empty() {
            Ok(Checked {
                flow,
                warnings: Problems::sorted(diagnostics.warnings),
            })
        } else {
            Err(Problems::sorted(diagnostics.problems))
        }
    }
}

fn check(spec: &FlowSpec, context: &Context<'_>, diagnostics: &mut Diagnostics) -> Flow {
    if spec.executors.is_empty() {
        let message = "there are no executors, so every reply is its request";
        diagnostics.warn(Problem::new(&spec.span, message));
    }
    let entries: Vec<EntryChecker<'_>> = spec
        .executors
        .iter()
        .map(|entry| EntryChecker::new(entry, spec, context))
        .collect();
    let names = connect::names(&spec.executors, diagnostics);
    let graph = connect::graph(&entries, spec, &names, diagnostics);
    ports::check(spec, &entries, diagnostics);
    let nodes = names.into_iter().zip(&entries);
    let nodes: Vec<_> = nodes
        .map(|(name, entry)| FlowNode::check(name, entry, diagnostics))
        .collect();
    advice::give(spec, &nodes, &graph, diagnostics);
    Flow {
        name: value(&spec.options.name),
        workspace: value(&spec.options.workspace).map(Into::into),
        gateway: Gateway::check(spec, &nodes, diagnostics),
        reload: is_set(&spec.options.reload),
        nodes,
        graph,
    }
}

fn too_many(spec: &FlowSpec) -> Problem {
    let message = format!(
        "at most {NODES_MAX} executors are possible, there are {}",
        spec.executors.len()
    );
    Problem::new(&spec.span, message)
}

#[cfg(test)]
mod tests;
