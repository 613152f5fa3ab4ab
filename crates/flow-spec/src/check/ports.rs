//! Two processes of a flow cannot listen at one port.

use std::collections::HashMap;

use super::monitoring;
use crate::problem::{Findings, Place, Problem};
use crate::spec::FlowSpec;

pub(super) fn check(spec: &FlowSpec, findings: &mut Findings) {
    let mut taken: HashMap<u16, &Place> = HashMap::new();
    for (port, place) in written(spec) {
        if let Some(first) = taken.insert(port, place) {
            let message = format!(
                "port {port} is taken already, at line {}",
                first.position.line
            );
            findings.problem(Problem::new(place, message));
        }
    }
}

/// The fixed ports that the flow itself will listen at.
fn written(spec: &FlowSpec) -> impl Iterator<Item = (u16, &Place)> {
    let gateway = spec
        .gateway
        .port
        .as_ref()
        .or(spec.for_gateway.port.as_ref());
    let gateway = gateway.and_then(|port| Some((port.value?, &port.place)));
    let is_local = |external: Option<bool>| external != Some(true);
    let local = spec.executors.iter().filter(move |entry| {
        is_local(super::own_or(&entry.options, &spec.for_executors, |it| {
            it.external.as_ref()
        }))
    });
    let ports = local.clone().flat_map(|entry| entry.ports.iter());
    let shown = local.flat_map(|entry| monitoring::written(entry, spec));
    let ports = ports.chain(shown).flat_map(|ports| &ports.value);
    let of_gateway = monitoring::written_for_gateway(spec).into_iter();
    let fixed = of_gateway.chain(ports).filter(|port| port.value > 0);
    gateway
        .into_iter()
        .chain(fixed.map(|port| (port.value, &port.place)))
}
