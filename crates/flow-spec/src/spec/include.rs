//! Executors and gateways that are written as Deployments or in files of their own.
//!
//! They become mappings of options, the only form that the rest of the parser knows. Values keep their spans.

use std::sync::Arc;

use flow_core::closest;

use crate::context::Files;
use crate::diagnostics::{Diagnostics, Problem, SourceSpan};
use crate::forms;
use crate::keys::{
    DEPLOYMENT, DEPLOYMENT_MAPPING, DEPLOYMENT_OPTIONS, EXECUTOR, EntryOptions, GATEWAY,
    GATEWAY_CONFIG, GATEWAY_CONFIG_MAPPING, GatewayConfigOptions, INHERITED, MONITORING,
    Options as _, Section, TELEMETRY, TOP, is_for_gateways_only,
};
use crate::yaml::{
    self, Resolved, Scalar, Variables, YamlContent, YamlEntry, YamlNode, substitute,
};

/// Reads the files that a flow file names.
pub(super) struct Includer<'a> {
    pub(super) variables: &'a Variables,
    pub(super) files: &'a dyn Files,
}

impl Includer<'_> {
    /// The options of an entry of `executors`, whichever form it has.
    pub(super) fn options(
        &self,
        entry: &YamlNode,
        diagnostics: &mut Diagnostics,
    ) -> Option<YamlNode> {
        match &entry.content {
            YamlContent::Mapping(_) if is_deployment(entry) => {
                Some(deployment_options(entry, &entry.span, diagnostics))
            }
            YamlContent::Mapping(_) => plain_options(entry, diagnostics),
            YamlContent::Scalar(_) if !entry.is_null() => self.deployment_file(entry, diagnostics),
            YamlContent::Scalar(_) | YamlContent::List(_) => {
                let wanted = "an executor's options, or the path of a Deployment";
                forms::reject(entry, wanted, diagnostics)
            }
        }
    }

    fn deployment_file(&self, entry: &YamlNode, diagnostics: &mut Diagnostics) -> Option<YamlNode> {
        let root = self.file(entry, diagnostics)?;
        if is_deployment(&root) {
            return Some(deployment_options(&root, &entry.span, diagnostics));
        }
        let message = "an entry of `executors` in a file of its own must be a Deployment";
        let problem = Problem::new(&root.span, message);
        diagnostics.problem(problem.remedy("write `jtype: Deployment` at its top"));
        None
    }

    /// The gateway's options, and those of the config that its `uses` names where it has none of its own.
    pub(super) fn with_config(
        &self,
        gateway: &YamlNode,
        diagnostics: &mut Diagnostics,
    ) -> YamlNode {
        let uses = GATEWAY.uses.name();
        let path = gateway.get(uses).filter(|uses| is_config_path(uses));
        let Some(path) = path else {
            return gateway.clone();
        };
        let mut whole = gateway.clone();
        if let YamlContent::Mapping(entries) = &mut whole.content {
            entries.retain(|entry| entry.key != uses);
        }
        let Some(root) = self.file(path, diagnostics) else {
            return whole;
        };
        let section = Section::read(Some(&root), &GATEWAY_CONFIG_MAPPING, diagnostics);
        let config = GatewayConfigOptions::read(&section, diagnostics);
        let jtype = root.get(GATEWAY_CONFIG.jtype.name());
        if jtype.is_none_or(YamlNode::is_null) {
            let message = "the config does not say which gateway it is for";
            let problem = Problem::new(&root.span, message);
            diagnostics.problem(problem.remedy("write `jtype: GRPCGateway` at its top"));
        }
        add_missing(&mut whole, config.with.as_ref().map(|with| &with.value));
        if let (YamlContent::Mapping(entries), Some(_), Some(jtype)) =
            (&mut whole.content, &config.jtype, jtype)
        {
            // Which gateway it is, the file says.
            entries.push(entry(uses, jtype.clone()));
        }
        whole
    }

    /// A file that a value names, with its variables replaced.
    fn file(&self, name: &YamlNode, diagnostics: &mut Diagnostics) -> Option<YamlNode> {
        let path = forms::text(name, diagnostics)?;
        let parsed = self.files.read(&path).map(|text| yaml::parse(&text));
        let root = match parsed {
            Ok(Ok(root)) => root,
            Ok(Err(error)) => {
                let message = format!("`{path}` is not valid YAML: {error}");
                diagnostics.problem(Problem::new(&name.span, message));
                return None;
            }
            Err(why) => {
                diagnostics.problem(Problem::new(
                    &name.span,
                    format!("cannot read `{path}`: {why}"),
                ));
                return None;
            }
        };
        let mut inside = Diagnostics::default();
        let mut root = substitute(root, self.variables, &mut inside);
        root.report_duplicates(&mut inside);
        let file: Arc<str> = path.into();
        root.for_each_span(&mut |span| span.file = Some(Arc::clone(&file)));
        diagnostics.extend_from_file(inside, &file);
        Some(root)
    }
}

fn is_config_path(uses: &YamlNode) -> bool {
    let YamlContent::Scalar(scalar) = &uses.content else {
        return false;
    };
    [".yml", ".yaml"]
        .iter()
        .any(|end| scalar.text.ends_with(end))
}

fn is_deployment(node: &YamlNode) -> bool {
    let jtype = node
        .get(DEPLOYMENT.jtype.name())
        .map(|jtype| &jtype.content);
    let says_so = matches!(jtype, Some(YamlContent::Scalar(it)) if it.text == JTYPE);
    says_so || node.tag.as_deref() == Some(JTYPE)
}

const JTYPE: &str = "Deployment";

/// An entry that consists of options. With another `jtype` it is no executor.
fn plain_options(entry: &YamlNode, diagnostics: &mut Diagnostics) -> Option<YamlNode> {
    let Some(jtype) = entry.get(DEPLOYMENT.jtype.name()) else {
        return Some(entry.clone());
    };
    let message = format!("must be `{JTYPE}`, is {}", jtype.described());
    let meant = match &jtype.content {
        YamlContent::Scalar(scalar) => closest(&scalar.text, [JTYPE]),
        YamlContent::List(_) | YamlContent::Mapping(_) => None,
    };
    let problem = Problem::new(&jtype.span, message);
    diagnostics.problem(match meant {
        Some(meant) => problem.suggest(Some(meant)),
        None => problem.remedy("an executor is named with `uses`"),
    });
    None
}

/// A Deployment file as an entry of a flow: the options under its `with`, and the entry's own keys beside `with`.
fn deployment_options(root: &YamlNode, at: &SourceSpan, diagnostics: &mut Diagnostics) -> YamlNode {
    let with = read_deployment(root, diagnostics);
    let own = EntryOptions::KEYS.iter().filter_map(|key| {
        let value = root.get(key.name).filter(|value| !value.is_null())?;
        Some(entry(key.name, value.clone()))
    });
    let mut options = mapping(at, own.collect());
    add_missing(&mut options, with.as_ref());
    options
}

/// A flow of one executor: a Deployment that is a file by itself has a gateway.
pub(super) fn flow_of_deployment(root: &YamlNode, diagnostics: &mut Diagnostics) -> YamlNode {
    let with = read_deployment(root, diagnostics);
    let with = with.unwrap_or_else(|| mapping(&root.span, Vec::new()));
    // Reports unknown keys here, where the keys of the gateway and of the executor are known together.
    Section::read(Some(&with), &DEPLOYMENT_OPTIONS, diagnostics);
    let entries = match with.content {
        YamlContent::Mapping(entries) => entries,
        YamlContent::Scalar(_) | YamlContent::List(_) => Vec::new(),
    };
    let known = entries.into_iter();
    let known = known.filter(|it| DEPLOYMENT_OPTIONS.find(&it.key).is_some());
    let (gateway, executor) = split(known.collect());
    let jtype = YamlContent::Scalar(Scalar::plain("Flow"));
    let jtype = YamlNode::new(root.span.position, None, jtype);
    let executors = YamlContent::List(vec![mapping(&with.span, executor)]);
    let executors = YamlNode::new(with.span.position, None, executors);
    let flow = vec![
        entry(TOP.jtype.name(), jtype),
        entry(TOP.gateway.name(), mapping(&with.span, gateway)),
        entry(TOP.executors.name(), executors),
    ];
    mapping(&root.span, flow)
}

/// The options of the gateway, and those of the executor.
fn split(entries: Vec<YamlEntry>) -> (Vec<YamlEntry>, Vec<YamlEntry>) {
    // The address of an external executor is not that of the gateway.
    let external = INHERITED.external.name();
    let is_external = entries
        .iter()
        .any(|it| it.key == external && says_true(&it.value));
    let address = [
        &INHERITED.host.key,
        &EXECUTOR.port.key,
        &EXECUTOR.protocol.key,
    ];
    let is_gateway_s = |it: &YamlEntry| match address.iter().any(|key| key.is_called(&it.key)) {
        true => !is_external,
        false => is_for_gateways_only(&it.key),
    };
    let both = entries.iter();
    let shared = [
        &MONITORING.monitoring.key,
        &TELEMETRY.tracing.key,
        &TELEMETRY.traces_exporter_host.key,
        &TELEMETRY.traces_exporter_port.key,
        &TELEMETRY.metrics.key,
        &TELEMETRY.metrics_exporter_host.key,
        &TELEMETRY.metrics_exporter_port.key,
    ];
    let both = both.filter(|it| shared.iter().any(|key| key.is_called(&it.key)));
    let both: Vec<YamlEntry> = both.cloned().collect();
    let (mut gateway, executor): (Vec<_>, Vec<_>) = entries.into_iter().partition(is_gateway_s);
    gateway.extend(both);
    (gateway, executor)
}

fn says_true(node: &YamlNode) -> bool {
    matches!(&node.content, YamlContent::Scalar(it) if it.resolve() == Resolved::Bool(true))
}

/// Reports what is wrong with a Deployment, and returns its options.
fn read_deployment(root: &YamlNode, diagnostics: &mut Diagnostics) -> Option<YamlNode> {
    let section = Section::read(Some(root), &DEPLOYMENT_MAPPING, diagnostics);
    section.value(&DEPLOYMENT.version, diagnostics);
    section
        .value(&DEPLOYMENT.with, diagnostics)
        .map(|with| with.value)
}

fn mapping(at: &SourceSpan, entries: Vec<YamlEntry>) -> YamlNode {
    let mut node = YamlNode::new(at.position, None, YamlContent::Mapping(entries));
    node.span.clone_from(at);
    node
}

fn entry(key: &str, value: YamlNode) -> YamlEntry {
    YamlEntry {
        key: key.to_owned(),
        span: value.span.clone(),
        value,
    }
}

/// Adds the keys of `more` that `to` does not have.
fn add_missing(to: &mut YamlNode, more: Option<&YamlNode>) {
    let Some(YamlContent::Mapping(more)) = more.map(|it| &it.content) else {
        return;
    };
    let YamlContent::Mapping(entries) = &mut to.content else {
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
