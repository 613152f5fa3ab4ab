//! YAML text → [`FlowSpec`].

use crate::keys;
use crate::problem::{Findings, Place, Problem, SyntaxError};
use crate::read;
use crate::section::{At, Section};
use crate::spec::{ExecutorSpec, FlowSpec, GatewaySpec, Inheritable, LogSpec, Method};
use crate::substitute::{Variables, substitute};
use crate::suggest::closest;
use crate::yaml::{self, Content, Node};

impl FlowSpec {
    /// Reads a flow file's text.
    ///
    /// # Errors
    /// If it is not YAML. Everything else that is wrong is kept for
    /// [`Flow::check`](crate::Flow::check), which tells it all at once.
    pub fn parse(text: &str, variables: &Variables) -> Result<Self, SyntaxError> {
        let mut findings = Findings::default();
        let root = substitute(yaml::parse(text)?, variables, &mut findings);
        root.report_duplicates(&mut findings);
        let mut spec = if is_flow(&root, &mut findings) {
            flow(&root, &mut findings)
        } else {
            flow(&Node::empty(), &mut Findings::default())
        };
        spec.findings = findings;
        Ok(spec)
    }
}

/// Whether it is worth reading as a flow; a flow that only forgot to say so is.
fn is_flow(root: &Node, findings: &mut Findings) -> bool {
    if root.is_null() {
        findings.problem(Problem::new(&root.place, "the file is empty").remedy(SAY_SO));
        return false;
    }
    let jtype = match (root.get("jtype"), root.tag.as_deref()) {
        (Some(node), _) => read::text(node, findings).map(|text| (text, &node.place)),
        (None, Some(tag)) => Some((tag.to_owned(), &root.place)),
        (None, None) => {
            let problem = Problem::new(&root.place, "the file does not say that it is a flow");
            findings.problem(problem.remedy(SAY_SO));
            return true;
        }
    };
    match jtype {
        Some((jtype, _)) if jtype == "Flow" => true,
        Some((jtype, place)) => {
            findings.problem(not_a_flow(&jtype, place));
            false
        }
        None => false,
    }
}

const SAY_SO: &str = "write `jtype: Flow` at its top";

fn not_a_flow(jtype: &str, place: &Place) -> Problem {
    if jtype == "Deployment" {
        let message =
            "a `Deployment` on its own is something of Jina's that flow does not support yet";
        return Problem::new(place, message)
            .remedy("put it into a flow as an entry of `executors`");
    }
    let message = format!("must be a `Flow`, is `{jtype}`");
    Problem::new(place, message).suggest(closest(jtype, ["Flow"]))
}

fn flow(root: &Node, findings: &mut Findings) -> FlowSpec {
    report_tags(root, findings);
    let top = Section::read(Some(root), &keys::TOP, findings);
    if let Some(version) = top.get("version") {
        check_version(version, findings);
    }
    let with = Section::read(top.get("with"), &keys::WITH, findings);
    let own = Section::read(top.get("gateway"), &keys::GATEWAY_SECTION, findings);
    FlowSpec {
        place: root.place.clone(),
        name: with.value("name", findings, read::text),
        workspace: with.value("workspace", findings, read::text),
        env: with.value("env", findings, read::env),
        for_gateway: gateway(&with, findings),
        for_executors: inheritable(&with, findings),
        gateway: gateway(&own, findings),
        executors: executors(top.get("executors"), findings),
        findings: Findings::default(),
    }
}

fn report_tags(root: &Node, findings: &mut Findings) {
    root.for_each_below(&mut |node| {
        if let Some(tag) = &node.tag {
            findings.problem(Problem::new(
                &node.place,
                format!("tag `!{tag}` means nothing here"),
            ));
        }
    });
}

fn check_version(node: &Node, findings: &mut Findings) {
    let known =
        matches!(&node.content, Content::Scalar(it) if matches!(it.text.as_str(), "1" | "1.0"));
    if !known {
        read::reject::<()>(node, "`1`", findings);
    }
}

fn gateway(section: &Section<'_>, findings: &mut Findings) -> GatewaySpec {
    let hosts = section.values("host", findings, read::listen_host);
    let ports = section.values("port", findings, read::gateway_port);
    let protocols = section.values("protocol", findings, read::protocol);
    GatewaySpec {
        host: only(hosts, "a gateway with several hosts", findings),
        port: only(ports, "a gateway with several ports", findings),
        protocol: only(protocols, "a gateway with several protocols", findings),
        prefetch: section.value("prefetch", findings, read::prefetch),
        env: section.value("env", findings, read::env),
        timeout_ready: section.value("timeout_ready", findings, read::timeout_ready),
        timeout_send: section.value("timeout_send", findings, read::timeout_send),
        retries: section.value("retries", findings, read::retries),
        log: log(section, findings),
    }
}

/// The value of a list that may hold only one for now.
fn only<T>(list: Option<At<Vec<At<T>>>>, what: &str, findings: &mut Findings) -> Option<At<T>> {
    let mut list = list?;
    if list.value.len() > 1 {
        let message = format!("{what} is something of Jina's that flow does not support yet");
        findings.problem(Problem::new(&list.place, message).remedy("keep one"));
    }
    list.value.pop()
}

fn log(section: &Section<'_>, findings: &mut Findings) -> LogSpec {
    LogSpec {
        config: section.value("log_config", findings, read::log_config),
        quiet: section.value("quiet", findings, read::flag),
    }
}

fn inheritable(section: &Section<'_>, findings: &mut Findings) -> Inheritable {
    Inheritable {
        metas: section.value("uses_metas", findings, read::object),
        requests: section.value("uses_requests", findings, read::requests),
        replicas: section.value("replicas", findings, read::replicas),
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
    }
}

fn executors(list: Option<&Node>, findings: &mut Findings) -> Vec<ExecutorSpec> {
    match list.map(|list| (list, &list.content)) {
        None => Vec::new(),
        Some((_, Content::List(items))) => items
            .iter()
            .filter_map(|item| executor(item, findings))
            .collect(),
        Some((list, _)) => read::reject(list, "a list of executors", findings).unwrap_or_default(),
    }
}

fn executor(node: &Node, findings: &mut Findings) -> Option<ExecutorSpec> {
    match &node.content {
        Content::Mapping(_) if node.get("jtype").is_none() => {
            return Some(executor_options(node, findings));
        }
        Content::List(_) => return read::reject(node, "an executor's options", findings),
        Content::Scalar(_) if node.is_null() => {
            return read::reject(node, "an executor's options", findings);
        }
        Content::Scalar(_) | Content::Mapping(_) => {}
    }
    let message = "a Deployment as an entry is something of Jina's that flow does not support yet";
    let remedy = "write its options here, without `jtype` and `with`";
    findings.problem(Problem::new(&node.place, message).remedy(remedy));
    None
}

fn executor_options(node: &Node, findings: &mut Findings) -> ExecutorSpec {
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
        ports: section.values("port", findings, read::port),
        options: inheritable(&section, findings),
    }
}

fn method(node: &Node, findings: &mut Findings) -> Option<Method> {
    let text = read::text(node, findings)?;
    match text.as_str() {
        "add" | "needs" => Some(Method::Add),
        "needs_all" => Some(Method::NeedsAll),
        "inspect" | "gather_inspect" => {
            let message =
                format!("method `{text}` is one of Jina's that flow does not support yet");
            findings.problem(Problem::new(&node.place, message));
            None
        }
        other => {
            let message = format!("must be `add`, `needs` or `needs_all`, is `{other}`");
            let meant = closest(other, ["add", "needs", "needs_all"]);
            findings.problem(Problem::new(&node.place, message).suggest(meant));
            None
        }
    }
}

#[cfg(test)]
mod tests;
