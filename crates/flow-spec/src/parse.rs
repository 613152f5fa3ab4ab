//! YAML text → [`FlowSpec`].
//!
//! `parse/include.rs` brings the forms of a Deployment, and other files, into the one form of a flow;
//! `parse/executor.rs` and `parse/gateway.rs` read the parts.

mod executor;
mod gateway;
mod include;

use include::Includer;

use crate::files::{Files, NoFiles};
use crate::hub::{HUB_VARIABLE, Hub};
use crate::keys;
use crate::problem::{Findings, Place, Problem, SyntaxError};
use crate::read;
use crate::section::{At, Section};
use crate::spec::{FlowSpec, HubSpec, Inspect, LogSpec};
use crate::substitute::{Variables, substitute};
use crate::suggest::closest;
use crate::yaml::{self, Content, Node};

impl FlowSpec {
    /// Reads a flow file's text that names no other files.
    ///
    /// # Errors
    /// If it is not YAML. Everything else that is wrong is kept for
    /// [`Flow::check`](crate::Flow::check), which tells it all at once.
    pub fn parse(text: &str, variables: &Variables) -> Result<Self, SyntaxError> {
        Self::parse_with(text, variables, &NoFiles)
    }

    /// Reads a flow file's text, and through `files` what it names.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_with(
        text: &str,
        variables: &Variables,
        files: &dyn Files,
    ) -> Result<Self, SyntaxError> {
        let mut findings = Findings::default();
        let root = substitute(yaml::parse(text)?, variables, &mut findings);
        root.report_duplicates(&mut findings);
        let includer = Includer { variables, files };
        let mut spec = match kind(&root, &mut findings) {
            Some(Kind::Flow) => flow(&root, &includer, &mut findings),
            Some(Kind::Deployment) => {
                let root = include::flow_of_deployment(&root, &mut findings);
                flow(&root, &includer, &mut findings)
            }
            None => flow(&Node::empty(), &includer, &mut Findings::default()),
        };
        spec.findings = findings;
        Ok(spec)
    }
}

/// What a file is.
enum Kind {
    Flow,
    /// One executor, which is a flow by itself.
    Deployment,
}

/// What it is worth reading as; a flow that only forgot to say so is one.
fn kind(root: &Node, findings: &mut Findings) -> Option<Kind> {
    if root.is_null() {
        findings.problem(Problem::new(&root.place, "the file is empty").remedy(SAY_SO));
        return None;
    }
    let (jtype, place) = match (root.get("jtype"), root.tag.as_deref()) {
        (Some(node), _) => (read::text(node, findings)?, &node.place),
        (None, Some(tag)) => (tag.to_owned(), &root.place),
        (None, None) => {
            let problem = Problem::new(&root.place, "the file does not say that it is a flow");
            findings.problem(problem.remedy(SAY_SO));
            return Some(Kind::Flow);
        }
    };
    match jtype.as_str() {
        "Flow" => Some(Kind::Flow),
        "Deployment" => Some(Kind::Deployment),
        other => {
            findings.problem(not_a_flow(other, place));
            None
        }
    }
}

const SAY_SO: &str = "write `jtype: Flow` at its top";

fn not_a_flow(jtype: &str, place: &Place) -> Problem {
    let message = format!("must be a `Flow` or a `Deployment`, is `{jtype}`");
    Problem::new(place, message).suggest(closest(jtype, ["Flow", "Deployment"]))
}

fn flow(root: &Node, includer: &Includer<'_>, findings: &mut Findings) -> FlowSpec {
    report_tags(root, findings);
    let top = Section::read(Some(root), &keys::TOP, findings);
    if let Some(version) = top.get("version") {
        read::version(version, findings);
    }
    let with = Section::read(top.get("with"), &keys::WITH, findings);
    let gateway = top.get("gateway");
    let gateway = gateway.map(|own| includer.with_config(own, findings));
    let own = Section::read(gateway.as_ref(), &keys::GATEWAY_SECTION, findings);
    FlowSpec {
        place: root.place.clone(),
        name: with.value("name", findings, read::text),
        workspace: with.value("workspace", findings, read::text),
        env: with.value("env", findings, read::env),
        reload: with.value("reload", findings, read::flag),
        inspect: with.value("inspect", findings, inspect),
        hub: HubSpec {
            written: with.value("hub", findings, hub),
            variable: includer.variables.env.get(HUB_VARIABLE).cloned(),
        },
        for_gateway: gateway::gateway(&with, findings),
        for_executors: executor::inheritable(&with, findings),
        gateway: gateway::gateway(&own, findings),
        executors: executor::executors(top.get("executors"), includer, findings),
        findings: Findings::default(),
    }
}

fn inspect(node: &Node, findings: &mut Findings) -> Option<Inspect> {
    let words = [
        ("COLLECT", Inspect::Collect),
        ("HANG", Inspect::Hang),
        ("REMOVE", Inspect::Remove),
    ];
    read::word(node, &words, findings)
}

fn hub(node: &Node, findings: &mut Findings) -> Option<Hub> {
    let text = read::text(node, findings)?;
    let hub = Hub::parse(&text);
    let told = hub.map_err(|error| findings.problem(Problem::new(&node.place, error.to_string())));
    told.ok()
}

/// Tags that say what a mapping is have a meaning in two places only.
fn report_tags(root: &Node, findings: &mut Findings) {
    root.for_each_below(&mut |node| {
        let Some(tag) = &node.tag else { return };
        let is_mapping = matches!(node.content, Content::Mapping(_));
        let key = node.place.path.rsplit('.').next().unwrap_or_default();
        let is_config = is_mapping && matches!(key, "uses" | "uses_before" | "uses_after");
        let is_deployment = is_mapping && tag == "Deployment";
        if !is_config && !is_deployment {
            findings.problem(Problem::new(
                &node.place,
                format!("tag `!{tag}` means nothing here"),
            ));
        }
    });
}

fn log(section: &Section<'_>, findings: &mut Findings) -> LogSpec {
    LogSpec {
        config: section.value("log_config", findings, read::log_config),
        quiet: section.value("quiet", findings, read::flag),
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

#[cfg(test)]
mod tests;
