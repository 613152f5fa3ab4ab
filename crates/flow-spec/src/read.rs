//! One value of the file → one typed value, or a problem that says what was expected and what came.

mod batching;
mod container;
mod host;
mod kwargs;
mod query;
mod shards;
mod time;
mod uses;
mod values;

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::str::FromStr;

use flow_core::{Endpoint, NodeName};
use indexmap::IndexMap;
use serde_json::{Map, Value};

pub(crate) use batching::batching;
pub(crate) use container::{entrypoint, gpus, network_mode, volume};
pub(crate) use host::{Host, hosts, listen_host};
pub(crate) use kwargs::{KWARGS, Kind, PLATFORM, kwargs};
pub(crate) use query::when;
pub(crate) use shards::{polling, workers};
pub(crate) use time::{timeout_ready, timeout_send};
pub(crate) use uses::{gives_documents_back, uses};
pub(crate) use values::{env, metadata};

use crate::problem::{Findings, Problem};
use crate::settings::{Log, Protocol, Retries};
use crate::spec::{OptionPlace, OptionPlaces};
use crate::suggest::closest;
use crate::yaml::{Content, Entry, Node, Resolved, Scalar};

/// Requests of one stream under way where nothing else is said, as in Jina.
pub(crate) const PREFETCH: NonZeroUsize = NonZeroUsize::new(1000).expect("it is not zero");

/// Reports "must be …, is …".
pub(crate) fn reject<T>(node: &Node, wanted: &str, findings: &mut Findings) -> Option<T> {
    let message = format!("must be {wanted}, is {}", node.described());
    findings.problem(Problem::new(&node.place, message));
    None
}

pub(crate) fn text(node: &Node, findings: &mut Findings) -> Option<String> {
    match scalar(node).map(Scalar::resolve) {
        Some(Resolved::Text(text)) if !text.is_empty() => Some(text.to_owned()),
        _ => reject(node, "a text", findings),
    }
}

/// A text, where a number or a truth value is one too.
fn loose_text(node: &Node, findings: &mut Findings) -> Option<String> {
    match scalar(node) {
        Some(scalar) if scalar.resolve() == Resolved::Null => Some(String::new()),
        Some(scalar) => Some(scalar.text.clone()),
        None => reject(node, "a single value", findings),
    }
}

pub(crate) fn flag(node: &Node, findings: &mut Findings) -> Option<bool> {
    let text = match scalar(node).map(Scalar::resolve) {
        Some(Resolved::Bool(value)) => return Some(value),
        Some(Resolved::Text(text)) => text.to_ascii_lowercase(),
        _ => return reject(node, "`true` or `false`", findings),
    };
    let message = format!("must be `true` or `false`, is {}", node.described());
    let meant = match text.as_str() {
        "yes" | "on" | "true" => Some("true"),
        "no" | "off" | "false" => Some("false"),
        _ => None,
    };
    findings.problem(Problem::new(&node.place, message).suggest(meant));
    None
}

/// A whole number, from text of the right range.
pub(crate) fn integer(node: &Node) -> Option<i64> {
    match scalar(node)?.resolve() {
        Resolved::Integer(value) => Some(value),
        _ => None,
    }
}

pub(crate) fn name(node: &Node, findings: &mut Findings) -> Option<NodeName> {
    let text = text(node, findings)?;
    match NodeName::from_str(&text) {
        Ok(name) => Some(name),
        Err(error) => {
            findings.problem(Problem::new(&node.place, error.to_string()));
            None
        }
    }
}

/// A number of processes or threads, from 1.
pub(crate) fn count(node: &Node, findings: &mut Findings) -> Option<std::num::NonZeroU16> {
    let number = integer(node).map(u16::try_from);
    match (number, integer(node)) {
        (Some(Ok(number)), _) if number > 0 => std::num::NonZeroU16::new(number),
        (_, Some(number)) if number < 1 => {
            let message = format!("must be at least 1, is {number}");
            findings.problem(Problem::new(&node.place, message));
            None
        }
        _ => reject(node, "a whole number from 1 to 65535", findings),
    }
}

/// `Some(None)`: any port that is free, written as 0.
pub(crate) fn gateway_port(node: &Node, findings: &mut Findings) -> Option<Option<u16>> {
    port_or_any(node, findings).map(|port| Some(port).filter(|it| *it > 0))
}

/// 0 is any that is free.
pub(crate) fn port_or_any(node: &Node, findings: &mut Findings) -> Option<u16> {
    match integer(node).map(u16::try_from) {
        Some(Ok(port)) => Some(port),
        _ => reject(
            node,
            "a port from 1 to 65535, or 0 for any free one",
            findings,
        ),
    }
}

pub(crate) fn port(node: &Node, findings: &mut Findings) -> Option<u16> {
    match integer(node).map(u16::try_from) {
        Some(Ok(port)) if port > 0 => Some(port),
        _ => reject(node, "a port from 1 to 65535", findings),
    }
}

pub(crate) fn prefetch(node: &Node, findings: &mut Findings) -> Option<NonZeroUsize> {
    match integer(node) {
        Some(0) => {
            let message = format!("0 meant no limit to Jina; flow takes {PREFETCH} instead");
            findings.warn(Problem::new(&node.place, message));
            Some(PREFETCH)
        }
        Some(number) => usize::try_from(number).ok().and_then(NonZeroUsize::new),
        None => None,
    }
    .or_else(|| reject(node, REQUESTS, findings))
}

const REQUESTS: &str = "a whole number of requests, at least 1";

pub(crate) fn in_flight_max(node: &Node, findings: &mut Findings) -> Option<NonZeroUsize> {
    let number = integer(node).and_then(|number| usize::try_from(number).ok());
    number
        .and_then(NonZeroUsize::new)
        .or_else(|| reject(node, REQUESTS, findings))
}

/// One of these words, in capitals or not.
pub(crate) fn word<T: Copy>(
    node: &Node,
    words: &[(&str, T)],
    findings: &mut Findings,
) -> Option<T> {
    let text = text(node, findings)?;
    let found = words
        .iter()
        .find(|(word, _)| word.eq_ignore_ascii_case(&text));
    if let Some((_, value)) = found {
        return Some(*value);
    }
    let names: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    let message = format!("must be {}, is `{text}`", either(&names));
    let meant = closest(&text, names);
    findings.problem(Problem::new(&node.place, message).suggest(meant));
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
fn mapping<'n>(node: &'n Node, findings: &mut Findings) -> Option<Cow<'n, Node>> {
    let Some(Resolved::Text(text)) = scalar(node).map(Scalar::resolve) else {
        return Some(Cow::Borrowed(node));
    };
    if !text.trim_start().starts_with('{') {
        return Some(Cow::Borrowed(node));
    }
    match Node::embedded(text, &node.place) {
        Ok(node) => Some(Cow::Owned(node)),
        Err(error) => {
            let message = format!("is not valid JSON: {}", error.message);
            findings.problem(Problem::new(&node.place, message));
            None
        }
    }
}

pub(crate) fn retries(node: &Node, findings: &mut Findings) -> Option<Retries> {
    match integer(node) {
        Some(-1) => Some(Retries::Default),
        Some(number) if let Ok(number) = u32::try_from(number) => Some(Retries::Times(number)),
        _ => reject(
            node,
            "how often to try again, or -1 for flow's own choice",
            findings,
        ),
    }
}

pub(crate) fn protocol(node: &Node, findings: &mut Findings) -> Option<Protocol> {
    let text = text(node, findings)?;
    match text.to_ascii_lowercase().as_str() {
        "grpc" => return Some(Protocol::Grpc),
        "http" | "websocket" => {
            let message =
                format!("protocol `{text}` is one of Jina's that flow does not speak yet");
            findings.problem(Problem::new(&node.place, message).remedy("write `grpc`"));
        }
        other => {
            let known = closest(other, ["grpc"]);
            let message = format!("must be a protocol (`grpc`), is `{text}`");
            findings.problem(Problem::new(&node.place, message).suggest(known));
        }
    }
    None
}

/// There is one version of the dialect.
pub(crate) fn version(node: &Node, findings: &mut Findings) {
    if !matches!(scalar(node), Some(it) if matches!(it.text.as_str(), "1" | "1.0")) {
        reject::<()>(node, "`1`", findings);
    }
}

/// `Some(None)`: as the program was told.
pub(crate) fn log_config(node: &Node, findings: &mut Findings) -> Option<Option<Log>> {
    match text(node, findings)?.to_ascii_lowercase().as_str() {
        "default" => Some(None),
        "plain" | "docker" => Some(Some(Log::Text)),
        "json" => Some(Some(Log::Json)),
        "quiet" => Some(Some(Log::Off)),
        _ => {
            let message = format!(
                "must be `default`, `plain`, `json` or `quiet`, is {}",
                node.described()
            );
            let problem = Problem::new(&node.place, message);
            findings.problem(problem.remedy("flow reads no log configuration of Python"));
            None
        }
    }
}

/// Any mapping, for the executor to understand.
pub(crate) fn object(node: &Node, findings: &mut Findings) -> Option<Map<String, Value>> {
    let node = mapping(node, findings)?;
    match entries(&node, findings).map(crate::yaml::entries_to_json)? {
        Ok(object) => Some(object),
        Err(problem) => {
            findings.problem(problem);
            None
        }
    }
}

/// Where the options stand that [`object`] reads.
pub(crate) fn option_places(node: Option<&Node>) -> OptionPlaces {
    // What is wrong with the mapping is for `object` to tell.
    let node = node.and_then(|node| mapping(node, &mut Findings::default()));
    let entries = match node.as_deref().map(|node| &node.content) {
        Some(Content::Mapping(entries)) => entries.as_slice(),
        _ => &[],
    };
    let placed = entries.iter().map(|entry| {
        let (key, value) = (entry.place.clone(), entry.value.place.clone());
        (entry.key.clone(), OptionPlace { key, value })
    });
    placed.collect()
}

/// Endpoint → name of a method.
pub(crate) fn requests(node: &Node, findings: &mut Findings) -> Option<IndexMap<String, String>> {
    let entries = entries(node, findings)?;
    Some(
        entries
            .iter()
            .filter_map(|entry| request(entry, findings))
            .collect(),
    )
}

fn request(entry: &Entry, findings: &mut Findings) -> Option<(String, String)> {
    if let Err(error) = Endpoint::from_str(&entry.key) {
        let problem = Problem::new(&entry.place, error.to_string());
        findings.problem(problem.suggest(Some(&format!("/{}", entry.key))));
        return None;
    }
    Some((entry.key.clone(), text(&entry.value, findings)?))
}

fn entries<'n>(node: &'n Node, findings: &mut Findings) -> Option<&'n [Entry]> {
    match &node.content {
        Content::Mapping(entries) => Some(entries),
        _ => reject(node, "a mapping", findings),
    }
}

fn scalar(node: &Node) -> Option<&Scalar> {
    match &node.content {
        Content::Scalar(scalar) => Some(scalar),
        Content::List(_) | Content::Mapping(_) => None,
    }
}
