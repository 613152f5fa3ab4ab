//! Mappings of single values: environments and gRPC metadata.

use flow_core::Secret;

use super::form::{Shape, ValueForm};
use super::scalar::{entries, flag, list, loose_text, reject, text};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::values::{Env, InheritEnv, ModelNames};
use crate::yaml::{Resolved, YamlContent, YamlEntry, YamlNode};

pub(crate) const ENV: ValueForm<Env> = ValueForm::new(Shape::Values, env);
pub(crate) const INHERIT_ENV: ValueForm<InheritEnv> = ValueForm::new(Shape::Variables, inherit_env);
pub(crate) const MODELS: ValueForm<ModelNames> = ValueForm::new(Shape::Values, models);
pub(crate) const METADATA: ValueForm<Secret<Vec<(String, String)>>> =
    ValueForm::new(Shape::Values, metadata);

fn env(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Env> {
    let entries = entries(node, diagnostics)?;
    Some(
        entries
            .iter()
            .filter_map(|entry| variable(entry, diagnostics))
            .collect(),
    )
}

fn variable(entry: &YamlEntry, diagnostics: &mut Diagnostics) -> Option<(String, String)> {
    if entry.key.is_empty() || entry.key.contains(['=', '\0']) {
        let message = format!(
            "`{}` cannot be the name of an environment variable",
            entry.key
        );
        diagnostics.problem(Problem::new(&entry.span, message));
        return None;
    }
    let value = loose_text(&entry.value, diagnostics)?;
    Some((entry.key.clone(), value))
}

/// `true`, `false`, or names of variables.
fn inherit_env(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<InheritEnv> {
    let is_flag = match &node.content {
        YamlContent::Scalar(scalar) => match scalar.resolve() {
            Resolved::Bool(_) => true,
            Resolved::Text(text) => matches!(&*text.to_ascii_lowercase(), "true" | "false"),
            _ => false,
        },
        YamlContent::List(_) | YamlContent::Mapping(_) => false,
    };
    if is_flag {
        return Some(match flag(node, diagnostics)? {
            true => InheritEnv::All,
            false => InheritEnv::Listed(Vec::new()),
        });
    }
    let names = list(node, diagnostics, inherited_name);
    Some(InheritEnv::Listed(
        names.into_iter().map(|it| it.value).collect(),
    ))
}

/// The name of a variable, or the beginning of names and a `*`.
fn inherited_name(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<String> {
    let name = text(node, diagnostics)?;
    let start = name.strip_suffix('*').unwrap_or(&name);
    let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    if start.is_empty() || !start.bytes().all(is_name) {
        let wanted = "the name of a variable, or the beginning of names such as `AWS_*`";
        return reject(node, wanted, diagnostics);
    }
    Some(name)
}

/// Names of models, each with the executor that runs the model.
fn models(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<ModelNames> {
    let entries = entries(node, diagnostics)?;
    Some(
        entries
            .iter()
            .filter_map(|entry| model(entry, diagnostics))
            .collect(),
    )
}

fn model(entry: &YamlEntry, diagnostics: &mut Diagnostics) -> Option<(String, Spanned<String>)> {
    if entry.key.is_empty() {
        diagnostics.problem(Problem::new(&entry.span, "a model's name is empty"));
        return None;
    }
    let value = text(&entry.value, diagnostics)?;
    let span = entry.value.span.clone();
    Some((entry.key.clone(), Spanned { value, span }))
}

/// gRPC metadata: lower-case names and printable ASCII, or a call would fail with it.
fn metadata(
    node: &YamlNode,
    diagnostics: &mut Diagnostics,
) -> Option<Secret<Vec<(String, String)>>> {
    let entries = entries(node, diagnostics)?;
    let read = entries
        .iter()
        .filter_map(|entry| metadata_entry(entry, diagnostics));
    Some(Secret::new(read.collect()))
}

fn metadata_entry(entry: &YamlEntry, diagnostics: &mut Diagnostics) -> Option<(String, String)> {
    let is_name = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"_-.".contains(&b);
    let reserved = entry.key.starts_with("grpc-") || entry.key.ends_with("-bin");
    if entry.key.is_empty() || !entry.key.bytes().all(is_name) || reserved {
        let message = format!(
            "`{}` cannot be the name of gRPC metadata: lower-case letters, digits, `_`, `-` and `.`, \
             not `grpc-…` or `…-bin`",
            entry.key
        );
        let lower = entry.key.to_ascii_lowercase();
        let meant = (lower != entry.key && lower.bytes().all(is_name)).then_some(lower);
        diagnostics.problem(Problem::new(&entry.span, message).suggest(meant.as_deref()));
        return None;
    }
    let value = loose_text(&entry.value, diagnostics)?;
    if !value.bytes().all(|b| (b' '..=b'~').contains(&b)) {
        return reject(&entry.value, "printable ASCII", diagnostics);
    }
    Some((entry.key.clone(), value))
}
