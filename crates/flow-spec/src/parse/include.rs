//! The other forms of an executor and of a gateway: Deployments and files of their own.
//!
//! They become mappings of the one form that the rest of the parser knows, in which each value still
//! remembers where it was written.

use std::sync::Arc;

use crate::files::Files;
use crate::keys::{self, Keys};
use crate::problem::{Findings, Place, Problem};
use crate::read;
use crate::section::Section;
use crate::substitute::{Variables, substitute};
use crate::suggest::closest;
use crate::yaml::{self, Content, Entry, Node, Resolved, Scalar};

/// Brings in what is written elsewhere.
pub(super) struct Includer<'a> {
    pub(super) variables: &'a Variables,
    pub(super) files: &'a dyn Files,
}

impl Includer<'_> {
    /// The options of an entry of `executors`, whichever form it has.
    pub(super) fn options(&self, entry: &Node, findings: &mut Findings) -> Option<Node> {
        match &entry.content {
            Content::Mapping(_) if is_deployment(entry) => {
                Some(deployment_options(entry, &entry.place, findings))
            }
            Content::Mapping(_) => plain_options(entry, findings),
            Content::Scalar(_) if !entry.is_null() => self.deployment_file(entry, findings),
            Content::Scalar(_) | Content::List(_) => {
                let wanted = "an executor's options, or the path of a Deployment";
                read::reject(entry, wanted, findings)
            }
        }
    }

    fn deployment_file(&self, entry: &Node, findings: &mut Findings) -> Option<Node> {
        let root = self.file(entry, findings)?;
        if is_deployment(&root) {
            return Some(deployment_options(&root, &entry.place, findings));
        }
        let message = "an entry of `executors` in a file of its own must be a Deployment";
        let problem = Problem::new(&root.place, message);
        findings.problem(problem.remedy("write `jtype: Deployment` at its top"));
        None
    }

    /// The gateway's options, with those of the config that its `uses` names. Its own count before.
    pub(super) fn with_config(&self, gateway: &Node, findings: &mut Findings) -> Node {
        let path = gateway.get("uses").filter(|uses| is_config_path(uses));
        let Some(path) = path else {
            return gateway.clone();
        };
        let mut whole = gateway.clone();
        if let Content::Mapping(entries) = &mut whole.content {
            entries.retain(|entry| entry.key != "uses");
        }
        let Some(root) = self.file(path, findings) else {
            return whole;
        };
        let section = Section::read(Some(&root), &keys::GATEWAY_CONFIG, findings);
        check_version(&section, findings);
        match section.get("jtype") {
            Some(jtype) => {
                super::gateway::uses(jtype, findings);
            }
            None => {
                let problem = Problem::new(
                    &root.place,
                    "the config does not say which gateway it is for",
                );
                findings.problem(problem.remedy("write `jtype: GRPCGateway` at its top"));
            }
        }
        add_missing(&mut whole, section.get("with"));
        whole
    }

    /// A file that a value names, with its variables in place.
    fn file(&self, name: &Node, findings: &mut Findings) -> Option<Node> {
        let path = read::text(name, findings)?;
        let parsed = self.files.read(&path).map(|text| yaml::parse(&text));
        let root = match parsed {
            Ok(Ok(root)) => root,
            Ok(Err(error)) => {
                let message = format!("`{path}` is not valid YAML: {error}");
                findings.problem(Problem::new(&name.place, message));
                return None;
            }
            Err(why) => {
                findings.problem(Problem::new(
                    &name.place,
                    format!("cannot read `{path}`: {why}"),
                ));
                return None;
            }
        };
        let mut inside = Findings::default();
        let mut root = substitute(root, self.variables, &mut inside);
        root.report_duplicates(&mut inside);
        let file: Arc<str> = path.into();
        root.for_each_place(&mut |place| place.file = Some(Arc::clone(&file)));
        findings.extend_from_file(inside, &file);
        Some(root)
    }
}

fn is_config_path(uses: &Node) -> bool {
    let Content::Scalar(scalar) = &uses.content else {
        return false;
    };
    [".yml", ".yaml"]
        .iter()
        .any(|end| scalar.text.ends_with(end))
}

fn is_deployment(node: &Node) -> bool {
    let jtype = node.get("jtype").map(|jtype| &jtype.content);
    let says_so = matches!(jtype, Some(Content::Scalar(it)) if it.text == DEPLOYMENT);
    says_so || node.tag.as_deref() == Some(DEPLOYMENT)
}

const DEPLOYMENT: &str = "Deployment";

/// An entry with its options in place. What says that it is something else is no executor.
fn plain_options(entry: &Node, findings: &mut Findings) -> Option<Node> {
    let Some(jtype) = entry.get("jtype") else {
        return Some(entry.clone());
    };
    let message = format!("must be `{DEPLOYMENT}`, is {}", jtype.described());
    let meant = match &jtype.content {
        Content::Scalar(scalar) => closest(&scalar.text, [DEPLOYMENT]),
        Content::List(_) | Content::Mapping(_) => None,
    };
    let problem = Problem::new(&jtype.place, message);
    findings.problem(match meant {
        Some(meant) => problem.suggest(Some(meant)),
        None => problem.remedy("an executor is named with `uses`"),
    });
    None
}

/// `with` of a Deployment in a flow, and beside it the executor's place in the flow.
fn deployment_options(root: &Node, at: &Place, findings: &mut Findings) -> Node {
    let section = read_deployment(root, &keys::DEPLOYMENT, findings);
    let mut options = Node::new(at.position, None, Content::Mapping(Vec::new()));
    options.place.clone_from(at);
    let own = [
        ("name", section.get("name")),
        ("needs", section.get("needs")),
        ("method", section.get("method")),
    ];
    if let Content::Mapping(entries) = &mut options.content {
        let written = own.into_iter().filter_map(|(key, node)| Some((key, node?)));
        entries.extend(written.map(|(key, node)| entry(key, node.clone())));
    }
    add_missing(&mut options, section.get("with"));
    options
}

/// A flow of one executor: a Deployment that stands alone brings its gateway.
pub(super) fn flow_of_deployment(root: &Node, findings: &mut Findings) -> Node {
    let section = read_deployment(root, &keys::DEPLOYMENT, findings);
    let with = section
        .get("with")
        .cloned()
        .unwrap_or_else(|| mapping(&root.place, Vec::new()));
    // Whatever it is, it is told once, with all keys that it might have held.
    Section::read(Some(&with), &keys::DEPLOYMENT_WITH, findings);
    let entries = match with.content {
        Content::Mapping(entries) => entries,
        Content::Scalar(_) | Content::List(_) => Vec::new(),
    };
    let known = entries
        .into_iter()
        .filter(|it| keys::DEPLOYMENT_WITH.find(&it.key).is_some());
    // Where somebody else's executor is, is not where the gateway listens.
    let external = known
        .clone()
        .any(|it| it.key == "external" && says_true(&it.value));
    let is_gateway_s = |it: &Entry| match it.key.as_str() {
        "host" | "port" | "ports" | "protocol" | "protocols" => !external,
        key => keys::is_for_gateways_only(key),
    };
    let both = known.clone().filter(|it| it.key == "monitoring");
    let (mut gateway, executor): (Vec<_>, Vec<_>) = known.clone().partition(is_gateway_s);
    gateway.extend(both);
    let jtype = Node::new(
        root.place.position,
        None,
        Content::Scalar(Scalar::plain("Flow")),
    );
    let executors = Content::List(vec![mapping(&with.place, executor)]);
    let executors = Node::new(with.place.position, None, executors);
    let flow = vec![
        entry("jtype", jtype),
        entry("gateway", mapping(&with.place, gateway)),
        entry("executors", executors),
    ];
    mapping(&root.place, flow)
}

fn says_true(node: &Node) -> bool {
    matches!(&node.content, Content::Scalar(it) if it.resolve() == Resolved::Bool(true))
}

fn read_deployment<'n>(root: &'n Node, keys: &Keys, findings: &mut Findings) -> Section<'n> {
    let section = Section::read(Some(root), keys, findings);
    check_version(&section, findings);
    section
}

fn check_version(section: &Section<'_>, findings: &mut Findings) {
    if let Some(version) = section.get("version") {
        read::version(version, findings);
    }
}

fn mapping(at: &Place, entries: Vec<Entry>) -> Node {
    let mut node = Node::new(at.position, None, Content::Mapping(entries));
    node.place.clone_from(at);
    node
}

fn entry(key: &str, value: Node) -> Entry {
    Entry {
        key: key.to_owned(),
        place: value.place.clone(),
        value,
    }
}

/// Adds the keys of `more` that `to` does not have.
fn add_missing(to: &mut Node, more: Option<&Node>) {
    let Some(Content::Mapping(more)) = more.map(|it| &it.content) else {
        return;
    };
    let Content::Mapping(entries) = &mut to.content else {
        return;
    };
    for entry in more {
        if !entries.iter().any(|it| it.key == entry.key) {
            entries.push(entry.clone());
        }
    }
}

#[cfg(test)]
mod tests;
