//! Single values, and mappings that are read as they are.

use std::borrow::Cow;
use std::num::{NonZeroU16, NonZeroUsize};
use std::str::FromStr;

use flow_core::{Endpoint, NodeName, closest};
use indexmap::IndexMap;
use serde_json::{Map, Value};

use super::form::{Form, Shape};
use crate::diagnostics::{Diagnostics, Problem, Spanned};
use crate::values::{
    ArgumentSpan, ArgumentSpans, Arguments, ClientCertificates, Inspect, Log, Method,
    PREFETCH as PREFETCH_DEFAULT, Protocol, Retries,
};
use crate::yaml::{Content, Entry, Node, Resolved, Scalar, embedded, entries_to_json};

/// Reports "must be …, is …".
pub(crate) fn reject<T>(node: &Node, wanted: &str, diagnostics: &mut Diagnostics) -> Option<T> {
    let message = format!("must be {wanted}, is {}", node.described());
    diagnostics.problem(Problem::new(&node.span, message));
    None
}

pub(crate) const TEXT: Form<String> = Form::new(Shape::Text, text);
pub(crate) const TEXTS: Form<Vec<Spanned<String>>> = Form::new(Shape::Texts, texts);
pub(crate) const NAME: Form<NodeName> = Form::new(Shape::Name, name);
pub(crate) const FLAG: Form<bool> = Form::new(Shape::Flag, flag);
pub(crate) const COUNT: Form<NonZeroU16> = Form::new(Shape::Count, count);
pub(crate) const PREFETCH: Form<NonZeroUsize> = Form::new(Shape::Window, prefetch);
pub(crate) const IN_FLIGHT_MAX: Form<NonZeroUsize> = Form::new(Shape::Count, in_flight_max);
pub(crate) const SIZE: Form<NonZeroUsize> = Form::new(Shape::Count, size);
pub(crate) const NESTING_MAX: Form<NonZeroUsize> = Form::new(Shape::Count, nesting_max);
pub(crate) const RETRIES: Form<Retries> = Form::new(Shape::Retries, retries);
pub(crate) const PORT: Form<u16> = Form::new(Shape::Count, port);
pub(crate) const PORTS: Form<Vec<Spanned<u16>>> = Form::new(Shape::Ports, ports);
pub(crate) const PORTS_OR_ANY: Form<Vec<Spanned<u16>>> = Form::new(Shape::Ports, ports_or_any);
pub(crate) const PROTOCOLS: Form<Vec<Spanned<Protocol>>> =
    Form::new(Shape::Words(&["grpc", "http", "websocket"]), protocols);
pub(crate) const EXECUTOR_PROTOCOLS: Form<Vec<Spanned<Protocol>>> =
    Form::new(Shape::Words(&["grpc"]), executor_protocols);
pub(crate) const LOG_CONFIG: Form<Option<Log>> = Form::new(
    Shape::Word(&["default", "plain", "docker", "json", "quiet"]),
    log_config,
);
pub(crate) const INSPECT: Form<Inspect> =
    Form::new(Shape::Word(&["COLLECT", "HANG", "REMOVE"]), inspect);
pub(crate) const CLIENT_CERTIFICATES: Form<ClientCertificates> =
    Form::new(Shape::Word(&["required", "optional"]), client_certificates);
pub(crate) const METHOD: Form<Method> = Form::new(
    Shape::Word(&["add", "needs", "needs_all", "inspect", "gather_inspect"]),
    method,
);
pub(crate) const VERSION: Form<()> = Form::new(Shape::Version, version);
pub(crate) const JTYPE_FLOW: Form<String> = Form::new(Shape::Word(&["Flow"]), text);
pub(crate) const JTYPE_DEPLOYMENT: Form<String> = Form::new(Shape::Word(&["Deployment"]), text);
pub(crate) const OBJECT: Form<Map<String, Value>> = Form::new(Shape::Mapping, object);
pub(crate) const ARGUMENTS: Form<Arguments> = Form::new(Shape::Mapping, arguments);
pub(crate) const REQUESTS: Form<IndexMap<String, String>> = Form::new(Shape::Requests, requests);
pub(crate) const WITH: Form<Node> = Form::new(Shape::With, node);
pub(crate) const GATEWAY: Form<Node> = Form::new(Shape::Gateway, node);
pub(crate) const EXECUTORS: Form<Node> = Form::new(Shape::Executors, node);
pub(crate) const DEPLOYMENT_OPTIONS: Form<Node> = Form::new(Shape::DeploymentOptions, node);

/// A mapping or a list that is taken apart elsewhere.
#[expect(clippy::unnecessary_wraps, reason = "readers of other forms may fail")]
fn node(node: &Node, _: &mut Diagnostics) -> Option<Node> {
    Some(node.clone())
}

/// One value or a list of them. Values that are not valid are left out and reported.
pub(super) fn list<T>(
    node: &Node,
    diagnostics: &mut Diagnostics,
    read: impl Fn(&Node, &mut Diagnostics) -> Option<T>,
) -> Vec<Spanned<T>> {
    let items = match &node.content {
        Content::List(items) => items.as_slice(),
        Content::Scalar(_) | Content::Mapping(_) => std::slice::from_ref(node),
    };
    let read = |item: &Node| {
        read(item, diagnostics).map(|value| Spanned {
            value,
            span: item.span.clone(),
        })
    };
    items.iter().filter_map(read).collect()
}

fn texts(node: &Node, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<String>>> {
    Some(list(node, diagnostics, text))
}

fn ports(node: &Node, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<u16>>> {
    Some(list(node, diagnostics, port))
}

fn ports_or_any(node: &Node, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<u16>>> {
    Some(list(node, diagnostics, port_or_any))
}

fn protocols(node: &Node, diagnostics: &mut Diagnostics) -> Option<Vec<Spanned<Protocol>>> {
    Some(list(node, diagnostics, protocol))
}

fn executor_protocols(
    node: &Node,
    diagnostics: &mut Diagnostics,
) -> Option<Vec<Spanned<Protocol>>> {
    Some(list(node, diagnostics, executor_protocol))
}

fn inspect(node: &Node, diagnostics: &mut Diagnostics) -> Option<Inspect> {
    let words = [
        ("COLLECT", Inspect::Collect),
        ("HANG", Inspect::Hang),
        ("REMOVE", Inspect::Remove),
    ];
    word(node, &words, diagnostics)
}

fn client_certificates(node: &Node, diagnostics: &mut Diagnostics) -> Option<ClientCertificates> {
    let words = [
        ("required", ClientCertificates::Required),
        ("optional", ClientCertificates::Optional),
    ];
    word(node, &words, diagnostics)
}

fn method(node: &Node, diagnostics: &mut Diagnostics) -> Option<Method> {
    let words = [
        ("add", Method::Add),
        ("needs", Method::Add),
        ("needs_all", Method::NeedsAll),
        ("inspect", Method::Inspect),
        ("gather_inspect", Method::GatherInspect),
    ];
    word(node, &words, diagnostics)
}

pub(crate) fn text(node: &Node, diagnostics: &mut Diagnostics) -> Option<String> {
    match scalar(node).map(Scalar::resolve) {
        Some(Resolved::Text(text)) if !text.is_empty() => Some(text.to_owned()),
        _ => reject(node, "a text", diagnostics),
    }
}

/// A text, where a number or a truth value is one too.
pub(super) fn loose_text(node: &Node, diagnostics: &mut Diagnostics) -> Option<String> {
    match scalar(node) {
        Some(scalar) if scalar.resolve() == Resolved::Null => Some(String::new()),
        Some(scalar) => Some(scalar.text.clone()),
        None => reject(node, "a single value", diagnostics),
    }
}

/// `true` or `false`, also as a text, as in Jina.
pub(super) fn flag(node: &Node, diagnostics: &mut Diagnostics) -> Option<bool> {
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
pub(super) fn integer(node: &Node) -> Option<i64> {
    match scalar(node)?.resolve() {
        Resolved::Integer(value) => Some(value),
        Resolved::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

fn name(node: &Node, diagnostics: &mut Diagnostics) -> Option<NodeName> {
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
pub(super) fn count(node: &Node, diagnostics: &mut Diagnostics) -> Option<NonZeroU16> {
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
fn port_or_any(node: &Node, diagnostics: &mut Diagnostics) -> Option<u16> {
    match integer(node).map(u16::try_from) {
        Some(Ok(port)) => Some(port),
        _ => reject(
            node,
            "a port from 1 to 65535, or 0 for any free one",
            diagnostics,
        ),
    }
}

fn port(node: &Node, diagnostics: &mut Diagnostics) -> Option<u16> {
    match integer(node).map(u16::try_from) {
        Some(Ok(port)) if port > 0 => Some(port),
        _ => reject(node, "a port from 1 to 65535", diagnostics),
    }
}

fn prefetch(node: &Node, diagnostics: &mut Diagnostics) -> Option<NonZeroUsize> {
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

fn in_flight_max(node: &Node, diagnostics: &mut Diagnostics) -> Option<NonZeroUsize> {
    let number = integer(node).and_then(|number| usize::try_from(number).ok());
    number
        .and_then(NonZeroUsize::new)
        .or_else(|| reject(node, REQUESTS_WANTED, diagnostics))
}

fn size(node: &Node, diagnostics: &mut Diagnostics) -> Option<NonZeroUsize> {
    let number = integer(node).and_then(|number| usize::try_from(number).ok());
    number
        .and_then(NonZeroUsize::new)
        .or_else(|| reject(node, "a whole number, at least 1", diagnostics))
}

/// Most levels of nested documents that executors decode.
const LEVELS_MAX: usize = 128;

fn nesting_max(node: &Node, diagnostics: &mut Diagnostics) -> Option<NonZeroUsize> {
    let number = integer(node).and_then(|number| usize::try_from(number).ok());
    number
        .filter(|number| *number <= LEVELS_MAX)
        .and_then(NonZeroUsize::new)
        .or_else(|| reject(node, "a whole number from 1 to 128", diagnostics))
}

/// One of these words, in capitals or not.
pub(super) fn word<T: Copy>(
    node: &Node,
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
pub(super) fn mapping<'n>(node: &'n Node, diagnostics: &mut Diagnostics) -> Option<Cow<'n, Node>> {
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

fn retries(node: &Node, diagnostics: &mut Diagnostics) -> Option<Retries> {
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

fn protocol(node: &Node, diagnostics: &mut Diagnostics) -> Option<Protocol> {
    let words = [
        ("grpc", Protocol::Grpc),
        ("http", Protocol::Http),
        ("websocket", Protocol::Websocket),
    ];
    word(node, &words, diagnostics)
}

/// Executors speak gRPC only.
fn executor_protocol(node: &Node, diagnostics: &mut Diagnostics) -> Option<Protocol> {
    let text = text(node, diagnostics)?;
    match text.to_ascii_lowercase().as_str() {
        "grpc" => return Some(Protocol::Grpc),
        "http" | "websocket" => {
            let message = format!("executors speak gRPC, not `{text}`");
            let remedy = "write `grpc`; the gateway's `protocol` is for clients";
            diagnostics.problem(Problem::new(&node.span, message).remedy(remedy));
        }
        other => {
            let known = closest(other, ["grpc"]);
            let message = format!("must be a protocol (`grpc`), is `{text}`");
            diagnostics.problem(Problem::new(&node.span, message).suggest(known));
        }
    }
    None
}

/// There is one version of the format.
fn version(node: &Node, diagnostics: &mut Diagnostics) -> Option<()> {
    match scalar(node) {
        Some(it) if matches!(it.text.as_str(), "1" | "1.0") => Some(()),
        _ => reject(node, "`1`", diagnostics),
    }
}

/// `Some(None)`: the format in which `flow up` logs.
fn log_config(node: &Node, diagnostics: &mut Diagnostics) -> Option<Option<Log>> {
    match text(node, diagnostics)?.to_ascii_lowercase().as_str() {
        "default" => Some(None),
        "plain" | "docker" => Some(Some(Log::Text)),
        "json" => Some(Some(Log::Json)),
        "quiet" => Some(Some(Log::Off)),
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
pub(crate) fn object(node: &Node, diagnostics: &mut Diagnostics) -> Option<Map<String, Value>> {
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
fn arguments(node: &Node, diagnostics: &mut Diagnostics) -> Option<Arguments> {
    let values = object(node, diagnostics)?;
    let node = mapping(node, diagnostics)?;
    let spans = match &node.content {
        Content::Mapping(entries) => entries.iter().map(argument_span).collect(),
        Content::Scalar(_) | Content::List(_) => ArgumentSpans::new(),
    };
    Some(Arguments { values, spans })
}

fn argument_span(entry: &Entry) -> (String, ArgumentSpan) {
    let (key, value) = (entry.span.clone(), entry.value.span.clone());
    (entry.key.clone(), ArgumentSpan { key, value })
}

/// Endpoint → name of a method.
fn requests(node: &Node, diagnostics: &mut Diagnostics) -> Option<IndexMap<String, String>> {
    let entries = entries(node, diagnostics)?;
    Some(
        entries
            .iter()
            .filter_map(|entry| request(entry, diagnostics))
            .collect(),
    )
}

fn request(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<(String, String)> {
    if let Err(error) = Endpoint::from_str(&entry.key) {
        let problem = Problem::new(&entry.span, error.to_string());
        diagnostics.problem(problem.suggest(Some(&format!("/{}", entry.key))));
        return None;
    }
    Some((entry.key.clone(), text(&entry.value, diagnostics)?))
}

pub(super) fn entries<'n>(node: &'n Node, diagnostics: &mut Diagnostics) -> Option<&'n [Entry]> {
    match &node.content {
        Content::Mapping(entries) => Some(entries),
        _ => reject(node, "a mapping", diagnostics),
    }
}

pub(super) fn scalar(node: &Node) -> Option<&Scalar> {
    match &node.content {
        Content::Scalar(scalar) => Some(scalar),
        Content::List(_) | Content::Mapping(_) => None,
    }
}
