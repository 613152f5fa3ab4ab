//! `executors`, and what they inherit from `with`.

use super::include::Includer;
use super::log;
use crate::keys;
use crate::problem::Findings;
use crate::read;
use crate::section::Section;
use crate::spec::{ContainerSpec, ExecutorSpec, Inheritable, Method};
use crate::yaml::{Content, Node};

pub(super) fn executors(
    list: Option<&Node>,
    includer: &Includer<'_>,
    findings: &mut Findings,
) -> Vec<ExecutorSpec> {
    match list.map(|list| (list, &list.content)) {
        None => Vec::new(),
        Some((_, Content::List(items))) => items
            .iter()
            .filter_map(|item| {
                let options = includer.options(item, findings)?;
                Some(executor(&options, findings))
            })
            .collect(),
        Some((list, _)) => read::reject(list, "a list of executors", findings).unwrap_or_default(),
    }
}

fn executor(node: &Node, findings: &mut Findings) -> ExecutorSpec {
    let section = Section::read(Some(node), &keys::ENTRY, findings);
    // Only gRPC is spoken to executors, so there is nothing to keep of it.
    section.values("protocol", findings, read::protocol);
    let method = section
        .value("method", findings, method)
        .map(|method| method.value);
    ExecutorSpec {
        place: node.place.clone(),
        name: section.value("name", findings, read::name),
        method: method.unwrap_or(Method::Add),
        needs: section.values("needs", findings, read::text),
        uses: section.value("uses", findings, read::uses),
        uses_with: section.value("uses_with", findings, read::object),
        uses_with_places: read::option_places(section.get("uses_with")),
        ports: section.values("port", findings, read::port),
        ports_monitoring: section.values("port_monitoring", findings, read::port_or_any),
        options: inheritable(&section, findings),
    }
}

pub(super) fn inheritable(section: &Section<'_>, findings: &mut Findings) -> Inheritable {
    Inheritable {
        metas: section.value("uses_metas", findings, read::object),
        requests: section.value("uses_requests", findings, read::requests),
        batching: section.value("uses_dynamic_batching", findings, read::batching),
        replicas: section.value("replicas", findings, read::count),
        shards: section.value("shards", findings, read::count),
        polling: section.value("polling", findings, read::polling),
        before: section.value("uses_before", findings, read::uses),
        after: section.value("uses_after", findings, read::uses),
        no_reduce: section.value("no_reduce", findings, read::flag),
        when: section.value("when", findings, read::when),
        workers: section.value("workers", findings, read::workers),
        allow_concurrent: section.value("allow_concurrent", findings, read::flag),
        exit_on_exceptions: section.values("exit_on_exceptions", findings, read::text),
        external: section.value("external", findings, read::flag),
        hosts: section.values("host", findings, read::hosts),
        env: section.value("env", findings, read::env),
        workspace: section.value("workspace", findings, read::text),
        timeout_ready: section.value("timeout_ready", findings, read::timeout_ready),
        timeout_send: section.value("timeout_send", findings, read::timeout_send),
        retries: section.value("retries", findings, read::retries),
        floating: section.value("floating", findings, read::flag),
        idempotent: section.value("idempotent", findings, read::flag),
        metadata: section.value("grpc_metadata", findings, read::metadata),
        log: log(section, findings),
        monitoring: section.value("monitoring", findings, read::flag),
        container: container(section, findings),
    }
}

fn container(section: &Section<'_>, findings: &mut Findings) -> ContainerSpec {
    ContainerSpec {
        gpus: section.value("gpus", findings, read::gpus),
        volumes: section.values("volumes", findings, read::volume),
        entrypoint: section.value("entrypoint", findings, read::entrypoint),
        docker_kwargs: section.value("docker_kwargs", findings, read::kwargs),
        on_host_network: section.value("force_network_mode", findings, read::network_mode),
        platform: section.value("prefer_platform", findings, read::text),
        force_update: section.value("force_update", findings, read::flag),
        disable_auto_volume: section.value("disable_auto_volume", findings, read::flag),
    }
}

fn method(node: &Node, findings: &mut Findings) -> Option<Method> {
    let words = [
        ("add", Method::Add),
        ("needs", Method::Add),
        ("needs_all", Method::NeedsAll),
        ("inspect", Method::Inspect),
        ("gather_inspect", Method::GatherInspect),
    ];
    read::word(node, &words, findings)
}

#[cfg(test)]
mod tests;
