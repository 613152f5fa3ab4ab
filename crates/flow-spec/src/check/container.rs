//! The container of a node: what was written about it, and where that contradicts itself.

use serde_json::{Map, Value};

use super::node::Checker;
use super::own_or;
use crate::container::Container;
use crate::flow::Node;
use crate::problem::{Findings, Place, Problem};
use crate::read::PLATFORM;
use crate::section::At;
use crate::settings::{Run, Uses};
use crate::spec::{ContainerSpec, ExecutorSpec};

impl Checker<'_> {
    pub(super) fn container(&self, findings: &mut Findings) -> Container {
        let mut engine = self.of_container(|it| it.docker_kwargs.as_ref());
        let engine = engine.get_or_insert_default();
        let platform = engine.shift_remove(PLATFORM);
        let platform = platform.and_then(|it| it.as_str().map(str::to_owned));
        let volumes = self.of_container(|it| it.volumes.as_ref());
        let volumes = volumes.unwrap_or_default().into_iter();
        Container {
            gpus: self.of_container(|it| it.gpus.as_ref()),
            volumes: volumes.map(|volume| volume.value).collect(),
            entrypoint: self.of_container(|it| it.entrypoint.as_ref()),
            on_host_network: self.on_host_network(engine, findings),
            platform: platform.or_else(|| self.of_container(|it| it.platform.as_ref())),
            is_refetched: self.of_container(|it| it.force_update.as_ref()) == Some(true),
            without_workspace: self.of_container(|it| it.disable_auto_volume.as_ref())
                == Some(true),
            engine: std::mem::take(engine),
        }
    }

    fn of_container<T: Clone>(
        &self,
        field: impl Fn(&ContainerSpec) -> Option<&At<T>>,
    ) -> Option<T> {
        own_or(&self.own.container, &self.with.container, field)
    }

    /// Two keys may ask for the machine's network, and one of them for another.
    fn on_host_network(&self, engine: &mut Map<String, Value>, findings: &mut Findings) -> bool {
        let forced = self.of_container(|it| it.on_host_network.as_ref()) == Some(true);
        let host = engine.get_mut("HostConfig").and_then(Value::as_object_mut);
        let Some(host) = host else { return forced };
        let named = host.get("NetworkMode").and_then(Value::as_str);
        match (forced, named) {
            (_, Some("host")) => {
                host.shift_remove("NetworkMode");
                true
            }
            (true, Some(named)) => {
                let message = format!("`force_network_mode: HOST` and the network `{named}`");
                let problem = Problem::new(&self.entry.place, message);
                findings.problem(problem.remedy("keep one of them"));
                true
            }
            _ => forced,
        }
    }
}

/// Options of containers say nothing of a process.
pub(super) fn warn_of_idle(entry: &ExecutorSpec, node: &Node, findings: &mut Findings) {
    let Run::Local(run) = &node.run else { return };
    let programs = [Some(&run.uses), run.before.as_ref(), run.after.as_ref()];
    let is_image = |uses: &&Uses| matches!(uses, Uses::Image(_));
    if programs.into_iter().flatten().any(|uses| is_image(&uses)) {
        return;
    }
    let it = &entry.options.container;
    let written: [(&str, Option<&Place>); 5] = [
        ("gpus", said(it.gpus.as_ref(), |_| true)),
        ("volumes", said(it.volumes.as_ref(), |it| !it.is_empty())),
        (
            "entrypoint",
            said(it.entrypoint.as_ref(), |it| !it.is_empty()),
        ),
        (
            "docker_kwargs",
            said(it.docker_kwargs.as_ref(), |it| !it.is_empty()),
        ),
        ("force_update", said(it.force_update.as_ref(), |it| *it)),
    ];
    for (key, place) in written {
        let Some(place) = place else { continue };
        let message = format!("`{key}` has no effect: `uses` names no image (`docker://…`)");
        findings.warn(Problem::new(place, message));
    }
}

/// Where something is written that asks for anything.
fn said<T>(written: Option<&At<T>>, asks: impl Fn(&T) -> bool) -> Option<&Place> {
    written.filter(|at| asks(&at.value)).map(|at| &at.place)
}

#[cfg(test)]
mod tests;
