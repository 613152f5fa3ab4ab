//! [`FlowSpec`] → [`Flow`]: is what was written true, and what does it mean?
//!
//! Every problem is found in one go, those of reading the file included. This file settles
//! inheritance and the gateway; `check/node.rs` does each node, `check/program.rs` the executor that it names,
//! `check/connect.rs` the graph.

mod advice;
mod connect;
mod container;
mod external;
mod monitoring;
mod node;
mod ports;
mod program;

use std::num::NonZeroUsize;

use self::node::Checker;
use crate::Context;
use crate::executors::AnyExecutor;
use crate::files::NoFiles;
use crate::flow::Flow;
use crate::problem::{Findings, Problem, Problems};
use crate::read::PREFETCH;
use crate::section::At;
use crate::settings::{Env, Gateway, Log, Protocol};
use crate::spec::{FlowSpec, LogSpec};
use crate::substitute::Variables;

/// Most executors in one flow: more than any machine could run, and places of a plan are 16 bits.
const NODES_MAX: usize = 1024;
/// Where a gateway listens if nothing else is said, as in Jina: clients come from other machines.
const EVERYWHERE: &str = "0.0.0.0";
/// Requests under way in a whole gateway if nothing else is said: what many busy streams together may
/// have, and with messages of some kilobytes no more than a few hundred megabytes.
const IN_FLIGHT_MAX: NonZeroUsize = NonZeroUsize::new(16_384).expect("is not zero");
/// How long a process may take to be ready if nothing else is said, as in Jina: a model may have
/// to be fetched first.
const TIMEOUT_READY: std::time::Duration = std::time::Duration::from_secs(600);

/// A flow and what is probably wrong with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// The flow.
    pub flow: Flow,
    /// Legal, and worth a look.
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
        };
        Self::check_with(spec, &context)
    }

    /// Checks what was written, and that the executors it names are there and take their options.
    ///
    /// # Errors
    /// All problems of the file, in its order.
    pub fn check_with(mut spec: FlowSpec, context: &Context<'_>) -> Result<Checked, Problems> {
        let mut findings = std::mem::take(&mut spec.findings);
        connect::leave_out_inspections(&mut spec, &mut findings);
        if spec.executors.len() > NODES_MAX {
            findings.problem(too_many(&spec));
            return Err(Problems::sorted(findings.problems));
        }
        let flow = check(&spec, context, &mut findings);
        if findings.problems.is_empty() {
            Ok(Checked {
                flow,
                warnings: Problems::sorted(findings.warnings),
            })
        } else {
            Err(Problems::sorted(findings.problems))
        }
    }
}

fn check(spec: &FlowSpec, context: &Context<'_>, findings: &mut Findings) -> Flow {
    if spec.executors.is_empty() {
        let message = "there are no executors, so every reply is its request";
        findings.warn(Problem::new(&spec.place, message));
    }
    let names = connect::names(&spec.executors, findings);
    let graph = connect::graph(spec, &names, findings);
    ports::check(spec, findings);
    let nodes = names.into_iter().zip(&spec.executors);
    let nodes: Vec<_> = nodes
        .map(|(name, entry)| node::node(name, Checker::new(entry, spec, context), findings))
        .collect();
    advice::give(spec, &nodes, &graph, findings);
    Flow {
        name: spec.name.as_ref().map(|name| name.value.clone()),
        workspace: spec
            .workspace
            .as_ref()
            .map(|folder| folder.value.clone().into()),
        gateway: gateway(spec, findings),
        reload: spec.reload.as_ref().is_some_and(|reload| reload.value),
        nodes,
        graph,
    }
}

fn too_many(spec: &FlowSpec) -> Problem {
    let message = format!(
        "at most {NODES_MAX} executors are possible, there are {}",
        spec.executors.len()
    );
    Problem::new(&spec.place, message)
}

fn gateway(spec: &FlowSpec, findings: &mut Findings) -> Gateway {
    let (own, with) = (&spec.gateway, &spec.for_gateway);
    Gateway {
        host: own_or(own, with, |it| it.host.as_ref()).unwrap_or_else(|| EVERYWHERE.to_owned()),
        port: own_or(own, with, |it| it.port.as_ref()).flatten(),
        protocol: own_or(own, with, |it| it.protocol.as_ref()).unwrap_or(Protocol::Grpc),
        prefetch: own_or(own, with, |it| it.prefetch.as_ref()).unwrap_or(PREFETCH),
        in_flight_max: own_or(own, with, |it| it.in_flight_max.as_ref()).unwrap_or(IN_FLIGHT_MAX),
        env: env([spec.env.as_ref(), spec.gateway.env.as_ref()]),
        log: log(&own.log, &with.log),
        timeout_ready: own_or(own, with, |it| it.timeout_ready.as_ref())
            .unwrap_or(Some(TIMEOUT_READY)),
        monitoring: monitoring::of_gateway(spec, findings),
    }
}

/// What the part itself says, or else what it inherits.
fn own_or<S, T: Clone>(own: &S, with: &S, field: impl Fn(&S) -> Option<&At<T>>) -> Option<T> {
    field(own)
        .or_else(|| field(with))
        .map(|at| at.value.clone())
}

/// Later ones win, variable by variable.
fn env<const N: usize>(parts: [Option<&At<Env>>; N]) -> Env {
    parts
        .into_iter()
        .flatten()
        .flat_map(|part| part.value.clone())
        .collect()
}

fn log(own: &LogSpec, with: &LogSpec) -> Option<Log> {
    if own_or(own, with, |it| it.quiet.as_ref()) == Some(true) {
        return Some(Log::Off);
    }
    own_or(own, with, |it| it.config.as_ref()).flatten()
}

#[cfg(test)]
mod tests;
