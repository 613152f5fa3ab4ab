//! Single values, and mappings that are read as they are.

use std::borrow::Cow;
use std::num::{NonZeroU16, NonZeroUsize};
use std::str::FromStr;

use flow_core::{Endpoint, NodeName, Secret, closest};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::form::{Shape, ValueForm};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::values::{
    ArgumentSpan, ArgumentSpans, Arguments, ClientCertificates, Compression, ConnectMethod,
    Inspect, LogStyle, PREFETCH as PREFETCH_DEFAULT, Protocol, Retries,
};
use crate::yaml::{Resolved, Scalar, YamlContent, YamlEntry, YamlNode, embedded, entries_to_json};

/// Reports "must be …, is …".
pub(crate) fn reject<T>(node: &YamlNode, wanted: &str, diagnostics: &mut Diagnostics) -> Option<T> {
    let message = format!("must be {wanted}, is {}", node.described());
    diagnostics.problem(Problem::new(&node.span, message));
    None
}

pub(crate) const TEXT: ValueForm<String> = ValueForm::new(Shape::Text, text);
pub(crate) const TEXTS: ValueForm<Vec<Spanned<String>>> = ValueForm::new(Shape::Texts, texts);
pub(crate) const NAME: ValueForm<NodeName> = ValueForm::new(Shape::Name, name);
pub(crate) const FLAG: ValueForm<bool> = ValueForm::new(Shape::Flag, flag);
pub(crate) const COUNT: ValueForm<NonZeroU16> = ValueForm::new(Shape::Count, count);
pub(crate) const PREFETCH: ValueForm<NonZeroUsize> = ValueForm::new(Shape::Window, prefetch);
pub(crate) const IN_FLIGHT_MAX: ValueForm<NonZeroUsize> =
    ValueForm::new(Shape::Count, in_flight_max);
pub(crate) const SIZE: ValueForm<NonZeroUsize> = ValueForm::new(Shape::Count, size);
pub(crate) const NESTING_MAX: ValueForm<NonZeroUsize> = ValueForm::new(Shape::Count, nesting_max);
pub(crate) const RETRIES: ValueForm<Retries> = ValueForm::new(Shape::Retries, retries);
pub(crate) const PORT: ValueForm<u16> = ValueForm::new(Shape::Count, port);
pub(crate) const PORTS: ValueForm<Vec<Spanned<u16>>> = ValueForm::new(Shape::Ports, ports);
pub(crate) const PORTS_OR_ANY: ValueForm<Vec<Spanned<u16>>> =
    ValueForm::new(Shape::Ports, ports_or_any);
pub(crate) const PROTOCOLS: ValueForm<Vec<Spanned<Protocol>>> =
    ValueForm::new(Shape::Words(&["grpc", "http", "websocket"]), protocols);
pub(crate) const LOG_CONFIG: ValueForm<Option<LogStyle>> = ValueForm::new(
    Shape::Word(&["default", "plain", "docker", "json", "quiet"]),
    log_config,
);
pub(crate) const INSPECT: ValueForm<Inspect> =
    ValueForm::new(Shape::Word(&["COLLECT", "HANG", "REMOVE"]), inspect);
pub(crate) const CLIENT_CERTIFICATES: ValueForm<ClientCertificates> =
    ValueForm::new(Shape::Word(&["required", "optional"]), client_certificates);
pub(crate) const METHOD: ValueForm<ConnectMethod> = ValueForm::new(
    Shape::Word(&["add", "needs", "needs_all", "inspect", "gather_inspect"]),
    method,
);
pub(crate) const VERSION: ValueForm<()> = ValueForm::new(Shape::Version, version);
pub(crate) const COMPRESSION: ValueForm<Option<Compression>> = ValueForm::new(
    Shape::Word(&["Gzip", "Deflate", "NoCompression"]),
    compression,
);
pub(crate) const JTYPE_FLOW: ValueForm<String> = ValueForm::new(Shape::Word(&["Flow"]), text);
pub(crate) const JTYPE_DEPLOYMENT: ValueForm<String> =
    ValueForm::new(Shape::Word(&["Deployment"]), text);
pub(crate) const OBJECT: ValueForm<Map<String, Value>> = ValueForm::new(Shape::Mapping, object);
pub(crate) const ARGUMENTS: ValueForm<Arguments> = ValueForm::new(Shape::Mapping, arguments);
pub(crate) const REQUESTS: ValueForm<IndexMap<String, String>> =
    ValueForm::new(Shape::Requests, requests);
pub(crate) const WITH: ValueForm<YamlNode> = ValueForm::new(Shape::With, node);
pub(crate) const GATEWAY: ValueForm<YamlNode> = ValueForm::new(Shape::Gateway, node);
pub(crate) const EXECUTORS: ValueForm<YamlNode> = ValueForm::new(Shape::Executors, node);
pub(crate) const DEPLOYMENT_OPTIONS: ValueForm<YamlNode> =
    ValueForm::new(Shape::DeploymentOptions, node);

/// A mapping or a list that is taken apart elsewhere.
#[expect(clippy::unnecessary_wraps, reason = "readers of other forms may fail")]
fn node(node: &YamlNode, _: &mut Diagnostics) -> Option<YamlNode> {
    Some(node.clone())
}

/// One value or a list of them. Values that are not valid are left out and reported.
pub(super) fn list<T>(
    node: &YamlNode,
    diagnostics: &mut Diagnostics,
    read: impl Fn(&YamlNode, &mut Diagnostics) -> Option<T>,
) -> Vec<Spanned<T>> {
    let items = match &node.content {
        YamlContent::List(items) => items.as_slice(),
        YamlContent::Scalar(_) | YamlContent::Mapping(_) => std::slice::from_ref(node),
    };
    let read = |item: &YamlNode| {
        read(item, diagnostics).map(|value| Spanned {
            value,
            span: item.span.clone(),
        })
    };
    items.iter().filter_map(read).collect()
}

fn texts(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<String>>> {
    Some(list(node, diagnostics, text))
}

fn ports(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<u16>>> {
    Some(list(node, diagnostics, port))
}

fn ports_or_any(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<u16>>> {
    Some(list(node, diagnostics, port_or_any))
}

fn protocols(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<Protocol>>> {
    Some(list(node, diagnostics, protocol))
}

fn inspect(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Inspect> {
    let words = [
        ("COLLECT", Inspect::Collect),
        ("HANG", Inspect::Hang),
        ("REMOVE", Inspect::Remove),
    ];
    word(node, &words, diagnostics)
}

fn client_certificates(
    node: &YamlNode,
    diagnostics: &mut Diagnostics,
) -> Option<ClientCertificates> {
    let words = [
        ("required", ClientCertificates::Required),
        ("optional", ClientCertificates::Optional),
    ];
    word(node, &words, diagnostics)
}

/// Jina's names, and that of Python for nothing.
fn compression(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Option<Compression>> {
    let words = [
        ("Gzip", Some(Compression::Gzip)),
        ("Deflate", Some(Compression::Deflate)),
        ("NoCompression", None),
        ("None", None),
    ];
    word(node, &words, diagnostics)
}

fn method(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<ConnectMethod> {
    let words = [
        ("add", ConnectMethod::Add),
        ("needs", ConnectMethod::Add),
        ("needs_all", ConnectMethod::NeedsAll),
        ("inspect", ConnectMethod::Inspect),
        ("gather_inspect", ConnectMethod::GatherInspect),
    ];
    word(node, &words, diagnostics)
}

pub(crate) fn text(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<String> {
    match scalar(node).map(Scalar::resolve) {
        Some(Resolved::Text(text)) if !text.is_empty() => Some(text.to_owned()),
        _ => reject(node, "a text", diagnostics),
    }
}

/// A text, where a number or a truth value is one too.
pub(super) fn loose_text(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<String> {
    match scalar(node) {
        Some(scalar) if scalar.resolve() == Resolved::Null => Some(String::new()),
        Some(scalar) => Some(scalar.text.clone()),
        None => reject(node, "a single value", diagnostics),
    }
}

/// `true` or `false`, also as a text, as in Jina.
pub(super) fn flag(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<bool> {
    let text = match scalar(node).map(Scalar::resolve) {
        Some(Resolved::Bool(value)) => return Some(value),
        Some(Resolved::Text(text)) => text.trim().to_ascii_lowercase(),
        _ => return reject(node, "`true` or `false`", diagnostics),
    };
    let meant = match text.as_str() {
        "true" => return Some(true),
        "false" => return Some(false),
        "yes" | "on" => Some("true"),
        "no" | "off" => Some("false"),
        _ => None,
    };
    let message = format!("must be `true` or `false`, is {}", node.described());
    diagnostics.problem(Problem::new(&node.span, message).suggest(meant));
    None
}

/// A whole number, also as a text, as in Jina.
pub(super) fn integer(node: &YamlNode) -> Option<i64> {
    match scalar(node)?.resolve() {
        Resolved::Integer(value) => Some(value),
        Resolved::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn name(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<NodeName> {
    let text = text(node, diagnostics)?;
    match NodeName::from_str(&text) {
        Ok(name) => Some(name),
        Err(error) => {
            diagnostics.problem(Problem::new(&node.span, error.to_string()));
            None
        }
    }
}

/// A number of processes or threads, from 1.
pub(super) fn count(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<NonZeroU16> {
    let number = integer(node).map(u16::try_from);
    match (number, integer(node)) {
        (Some(Ok(number)), _) if number > 0 => NonZeroU16::new(number),
        (_, Some(number)) if number < 1 => {
            let message = format!("must be at least 1, is {number}");
            diagnostics.problem(Problem::new(&node.span, message));
            None
        }
        _ => reject(node, "a whole number from 1 to 65535", diagnostics),
    }
}

/// 0 is any that is free.
fn port_or_any(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<u16> {
    match integer(node).map(u16::try_from) {
        Some(Ok(port)) => Some(port),
        _ => reject(
            node,
            "a port from 1 to 65535, or 0 for any free one",
            diagnostics,
        ),
    }
}

fn port(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<u16> {
    match integer(node).map(u16::try_from) {
        Some(Ok(port)) if port > 0 => Some(port),
        _ => reject(node, "a port from 1 to 65535", diagnostics),
    }
}

fn prefetch(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<NonZeroUsize> {
    match integer(node) {
        Some(0) => {
            let message = format!("0 means no limit in Jina; flow uses {PREFETCH_DEFAULT} instead");
            diagnostics.warn(Problem::new(&node.span, message));
            Some(PREFETCH_DEFAULT)
        }
        Some(number) => usize::try_from(number).ok().and_then(NonZeroUsize::new),
        None => None,
    }
    .or_else(|| reject(node, REQUESTS_WANTED, diagnostics))
}

const REQUESTS_WANTED: &str = "a whole number of requests, at least 1";

fn in_flight_max(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<NonZeroUsize> {
    let number = integer(node).and_then(|number| usize::try_from(number).ok());
    number
        .and_then(NonZeroUsize::new)
        .or_else(|| reject(node, REQUESTS_WANTED, diagnostics))
}

fn size(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<NonZeroUsize> {
    let number = integer(node).and_then(|number| usize::try_from(number).ok());
    number
        .and_then(NonZeroUsize::new)
        .or_else(|| reject(node, "a whole number, at least 1", diagnostics))
}

/// Maximum number of levels of nested documents that executors decode.
const LEVELS_MAX: usize = 128;

fn nesting_max(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<NonZeroUsize> {
    let number = integer(node).and_then(|number| usize::try_from(number).ok());
    number
        .filter(|number| *number <= LEVELS_MAX)
        .and_then(NonZeroUsize::new)
        .or_else(|| reject(node, "a whole number from 1 to 128", diagnostics))
}

/// One of these words, in capitals or not.
pub(super) fn word<T: Copy>(
    node: &YamlNode,
    words: &[(&str, T)],
    diagnostics: &mut Diagnostics,
) -> Option<T> {
    let text = text(node, diagnostics)?;
    let found = words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(&text));
    if let Some((_, value)) = found {
        return Some(*value);
    }
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let message = format!("must be {}, is `{text}`", either(&names));
    let meant = closest(&text, names);
    diagnostics.problem(Problem::new(&node.span, message).suggest(meant));
    None
}

/// "`a`, `b` or `c`".
fn either(words: &[&str]) -> String {
    let quoted: Vec<String> = words.iter().map(|word| format!("`{word}`")).collect();
    match quoted.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} or {last}", others.join(", ")),
        None => String::new(),
    }
}

/// A mapping, or a text that holds one as JSON.
pub(super) fn mapping<'n>(
    node: &'n YamlNode,
    diagnostics: &mut Diagnostics,
) -> Option<Cow<'n, YamlNode>> {
    let Some(Resolved::Text(text)) = scalar(node).map(Scalar::resolve) else {
        return Some(Cow::Borrowed(node));
    };
    if !text.trim_start().starts_with('{') {
        return Some(Cow::Borrowed(node));
    }
    match embedded(text, &node.span) {
        Ok(node) => Some(Cow::Owned(node)),
        Err(error) => {
            let message = format!("is not valid JSON: {}", error.message);
            diagnostics.problem(Problem::new(&node.span, message));
            None
        }
    }
}

fn retries(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Retries> {
    match integer(node) {
        Some(-1) => Some(Retries::Default),
        Some(number) if let Ok(number) = u32::try_from(number) => Some(Retries::Times(number)),
        _ => reject(
            node,
            "a number of retries, or -1 for flow's own choice",
            diagnostics,
        ),
    }
}

fn protocol(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Protocol> {
    let words = [
        ("grpc", Protocol::Grpc),
        ("http", Protocol::Http),
        ("websocket", Protocol::Websocket),
    ];
    word(node, &words, diagnostics)
}

/// There is one version of the format.
fn version(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<()> {
    match scalar(node) {
        Some(it) if matches!(it.text.as_str(), "1" | "1.0") => Some(()),
        _ => reject(node, "`1`", diagnostics),
    }
}

/// `Some(None)`: the format in which `flow up` logs.
fn log_config(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Option<LogStyle>> {
    match text(node, diagnostics)?.to_ascii_lowercase().as_str() {
        "default" => Some(None),
        "plain" | "docker" => Some(Some(LogStyle::Text)),
        "json" => Some(Some(LogStyle::Json)),
        "quiet" => Some(Some(LogStyle::Off)),
        _ => {
            let message = format!(
                "must be `default`, `plain`, `json` or `quiet`, is {}",
                node.described()
            );
            let problem = Problem::new(&node.span, message);
            diagnostics.problem(problem.remedy("flow does not read Python's log configurations"));
            None
        }
    }
}

/// Any mapping, for the executor to understand.
pub(crate) fn object(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Map<String, Value>> {
    let node = mapping(node, diagnostics)?;
    match entries(&node, diagnostics).map(entries_to_json)? {
        Ok(object) => Some(object),
        Err(problem) => {
            diagnostics.problem(problem);
            None
        }
    }
}

/// Any mapping, and where each of its keys is written.
fn arguments(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<Arguments> {
    let values = Secret::new(object(node, diagnostics)?);
    let node = mapping(node, diagnostics)?;
    let spans = match &node.content {
        YamlContent::Mapping(entries) => entries.iter().map(argument_span).collect(),
        YamlContent::Scalar(_) | YamlContent::List(_) => ArgumentSpans::new(),
    };
    Some(Arguments { values, spans })
}

fn argument_span(entry: &YamlEntry) -> (String, ArgumentSpan) {
    let (key, value) = (entry.span.clone(), entry.value.span.clone());
    (entry.key.clone(), ArgumentSpan { key, value })
}

/// Endpoint → name of a method.
fn requests(node: &YamlNode, diagnostics: &mut Diagnostics) -> Option<IndexMap<String, String>> {
    let entries = entries(node, diagnostics)?;
    Some(
        entries
            .iter()
            .filter_map(|entry| request(entry, diagnostics))
            .collect(),
    )
}

fn request(entry: &YamlEntry, diagnostics: &mut Diagnostics) -> Option<(String, String)> {
    if let Err(error) = Endpoint::from_str(&entry.key) {
        let problem = Problem::new(&entry.span, error.to_string());
        diagnostics.problem(problem.suggest(Some(&format!("/{}", entry.key))));
        return None;
    }
    Some((entry.key.clone(), text(&entry.value, diagnostics)?))
}

pub(super) fn entries<'n>(
    node: &'n YamlNode,
    diagnostics: &mut Diagnostics,
) -> Option<&'n [YamlEntry]> {
    match &node.content {
        YamlContent::Mapping(entries) => Some(entries),
        _ => reject(node, "a mapping", diagnostics),
    }
}

pub(super) fn scalar(node: &YamlNode) -> Option<&Scalar> {
    match &node.content {
        YamlContent::Scalar(scalar) => Some(scalar),
        YamlContent::List(_) | YamlContent::Mapping(_) => None,
    }
}
