//! Two processes of a flow cannot listen on one port.

use std::collections::HashMap;

use super::entry::EntryChecker;
use super::options::is_set;
use crate::diagnostics::{Diagnostics, Problem, SourceSpan, Spanned};
use crate::keys::MonitoringOptions;
use crate::spec::FlowSpec;

pub(super) fn check(spec: &FlowSpec, entries: &[EntryChecker<'_>], diagnostics: &mut Diagnostics) {
    let mut taken: HashMap<u16, SourceSpan> = HashMap::new();
    for Spanned { value: port, span } in written(spec, entries) {
        if let Some(first) = taken.insert(port, span.clone()) {
            let message = format!(
                "port {port} is taken already, at line {}",
                first.position.line
            );
            diagnostics.problem(Problem::new(&span, message));
        }
    }
}

/// The fixed ports on which processes of the flow listen.
fn written(spec: &FlowSpec, entries: &[EntryChecker<'_>]) -> Vec<Spanned<u16>> {
    let gateway = spec.gateway.or(&spec.gateway_with);
    let mut ports: Vec<Spanned<u16>> = gateway
        .options
        .port
        .iter()
        .chain(of_metrics(&gateway.monitoring, &gateway.monitoring))
        .flat_map(|list| list.value.clone())
        .collect();
    for checker in entries.iter().filter(|checker| !checker.is_external()) {
        let own = &checker.entry.inherited.monitoring;
        let metrics = of_metrics(own, &checker.effective.monitoring);
        let lists = checker.entry.options.port.iter().chain(metrics);
        ports.extend(lists.flat_map(|list| list.value.clone()));
    }
    ports.retain(|port| port.value > 0);
    ports
}

/// The ports of `own`, if the effective options ask for metrics.
fn of_metrics<'o>(
    own: &'o MonitoringOptions,
    effective: &MonitoringOptions,
) -> Option<&'o Spanned<Vec<Spanned<u16>>>> {
    let ports = own.port_monitoring.as_ref();
    ports.filter(|_| is_set(&effective.monitoring))
}
