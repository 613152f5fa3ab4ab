//! YAML text → [`FlowSpec`].
//!
//! `include.rs` turns Deployments and other files into the mappings of options that this module reads.

use flow_core::closest;

use super::hub::HUB_VARIABLE;
use super::include::{self, Includer};
use super::{ExecutorSpec, FlowSpec, GatewaySpec, InheritedSpec};
use crate::context::{Files, NoFiles};
use crate::diagnostics::{Diagnostics, Problem, SourceSpan};
use crate::error::SyntaxError;
use crate::forms;
use crate::keys::{
    ENTRY_MAPPING, EXECUTOR, EntryOptions, ExecutorOptions, FlowOptions, GATEWAY_MAPPING,
    INHERITED, Options as _, Section, TOP, TOP_MAPPING, TopOptions, WITH_MAPPING,
};
use crate::yaml::{self, Variables, YamlContent, YamlNode, substitute};

impl FlowSpec {
    /// Reads a flow file's text that names no other files.
    ///
    /// # Errors
    /// If it is not YAML. Everything else that is wrong is kept for
    /// [`Flow::check`](crate::Flow::check), which reports it all at once.
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
        let mut diagnostics = Diagnostics::default();
        let root = substitute(yaml::parse(text)?, variables, &mut diagnostics);
        root.report_duplicates(&mut diagnostics);
        let includer = Includer { variables, files };
        let mut spec = match kind(&root, &mut diagnostics) {
            Some(FileKind::Flow) => flow(&root, &includer, &mut diagnostics),
            Some(FileKind::Deployment) => {
                let root = include::flow_of_deployment(&root, &mut diagnostics);
                flow(&root, &includer, &mut diagnostics)
            }
            None => flow(&YamlNode::empty(), &includer, &mut Diagnostics::default()),
        };
        spec.diagnostics = diagnostics;
        Ok(spec)
    }
}

/// What a file is.
enum FileKind {
    Flow,
    /// One executor, which is a flow by itself.
    Deployment,
}

/// What to read the file as. A file that does not say what it is is read as a flow.
fn kind(root: &YamlNode, diagnostics: &mut Diagnostics) -> Option<FileKind> {
    if root.is_null() {
        diagnostics.problem(Problem::new(&root.span, "the file is empty").remedy(SAY_SO));
        return None;
    }
    let (jtype, span) = match (root.get(TOP.jtype.name()), root.tag.as_deref()) {
        (Some(node), _) => (forms::text(node, diagnostics)?, &node.span),
        (None, Some(tag)) => (tag.to_owned(), &root.span),
        (None, None) => {
            let problem = Problem::new(&root.span, "the file does not say that it is a flow");
            diagnostics.problem(problem.remedy(SAY_SO));
            return Some(FileKind::Flow);
        }
    };
    match jtype.as_str() {
        "Flow" => Some(FileKind::Flow),
        "Deployment" => Some(FileKind::Deployment),
        other => {
            diagnostics.problem(not_a_flow(other, span));
            None
        }
    }
}

const SAY_SO: &str = "write `jtype: Flow` at its top";

fn not_a_flow(jtype: &str, span: &SourceSpan) -> Problem {
    let message = format!("must be a `Flow` or a `Deployment`, is `{jtype}`");
    Problem::new(span, message).suggest(closest(jtype, ["Flow", "Deployment"]))
}

fn flow(root: &YamlNode, includer: &Includer<'_>, diagnostics: &mut Diagnostics) -> FlowSpec {
    report_tags(root, diagnostics);
    let top = Section::read(Some(root), &TOP_MAPPING, diagnostics);
    let top = TopOptions::read(&top, diagnostics);
    let with = top.with.as_ref().map(|with| &with.value);
    let with = Section::read(with, &WITH_MAPPING, diagnostics);
    let gateway = top.gateway.as_ref();
    let gateway = gateway.map(|own| includer.with_config(&own.value, diagnostics));
    let gateway = Section::read(gateway.as_ref(), &GATEWAY_MAPPING, diagnostics);
    let executors = top.executors.as_ref().map(|list| &list.value);
    FlowSpec {
        span: root.span.clone(),
        options: FlowOptions::read(&with, diagnostics),
        hub_variable: includer.variables.env.get(HUB_VARIABLE).cloned(),
        gateway_with: GatewaySpec::read(&with, diagnostics),
        executors_with: InheritedSpec::read(&with, diagnostics),
        gateway: GatewaySpec::read(&gateway, diagnostics),
        executors: self::executors(executors, includer, diagnostics),
        diagnostics: Diagnostics::default(),
    }
}

fn executors(
    list: Option<&YamlNode>,
    includer: &Includer<'_>,
    diagnostics: &mut Diagnostics,
) -> Vec<ExecutorSpec> {
    match list.map(|list| (list, &list.content)) {
        None => Vec::new(),
        Some((_, YamlContent::List(items))) => items
            .iter()
            .filter_map(|item| {
                let options = includer.options(item, diagnostics)?;
                Some(executor(&options, diagnostics))
            })
            .collect(),
        Some((list, _)) => {
            forms::reject(list, "a list of executors", diagnostics).unwrap_or_default()
        }
    }
}

fn executor(node: &YamlNode, diagnostics: &mut Diagnostics) -> ExecutorSpec {
    let section = Section::read(Some(node), &ENTRY_MAPPING, diagnostics);
    ExecutorSpec {
        span: node.span.clone(),
        entry: EntryOptions::read(&section, diagnostics),
        options: ExecutorOptions::read(&section, diagnostics),
        inherited: InheritedSpec::read(&section, diagnostics),
    }
}

/// Reports tags in places where they have no effect. A tag of a config or a Deployment is its type.
fn report_tags(root: &YamlNode, diagnostics: &mut Diagnostics) {
    let configs = [
        EXECUTOR.uses.name(),
        INHERITED.uses_before.name(),
        INHERITED.uses_after.name(),
    ];
    root.for_each_below(&mut |node| {
        let Some(tag) = &node.tag else { return };
        let is_mapping = matches!(node.content, YamlContent::Mapping(_));
        let key = node.span.path.rsplit('.').next().unwrap_or_default();
        let is_config = is_mapping && configs.contains(&key);
        let is_deployment = is_mapping && tag == "Deployment";
        if !is_config && !is_deployment {
            let message = format!("tag `!{tag}` has no effect here");
            diagnostics.warn(Problem::new(&node.span, message).remedy("leave it out"));
        }
    });
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod executors_tests;
