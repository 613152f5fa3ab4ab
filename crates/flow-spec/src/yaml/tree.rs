//! A YAML document as a tree in which every value has its span.
//!
//! The tree keeps what is written: scalars stay texts until [`Scalar::resolve`] is called, and a repeated key stays
//! in the tree twice.

use std::collections::HashMap;
use std::fmt;

use flow_core::{NodeName, has_password, is_secret_name};
use serde_json::{Map, Value};

use super::scalar::{Resolved, Scalar};
use crate::diagnostics::{Diagnostics, Position, Problem, SourceSpan};

/// Most bytes that the paths of all values of a document may have. Those of a usual flow file have a few kilobytes.
pub(crate) const PATH_BYTES_MAX: usize = 32 << 20;
/// Why a tree has no paths.
pub(crate) const PATHS_TOO_LONG: &str = "the paths of all values together have more than 32 MiB";

/// A value of the document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlNode {
    pub(crate) span: SourceSpan,
    /// A tag that is not one of YAML's own, such as `Flow` for `!Flow`.
    pub(crate) tag: Option<String>,
    pub(crate) content: YamlContent,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum YamlContent {
    Scalar(Scalar),
    List(Vec<YamlNode>),
    Mapping(Vec<YamlEntry>),
}

/// A key and its value. The key's span has the same path as the value's. `Debug` hides a value that may be a secret.
#[derive(Clone, PartialEq)]
pub(crate) struct YamlEntry {
    pub(crate) key: String,
    pub(crate) span: SourceSpan,
    pub(crate) value: YamlNode,
}

impl fmt::Debug for YamlEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut entry = f.debug_struct("YamlEntry");
        entry.field("key", &self.key);
        if is_secret_name(&self.key) || HOLD_SECRETS.contains(&self.key.as_str()) {
            return entry.finish_non_exhaustive();
        }
        entry.field("value", &self.value).finish()
    }
}

impl YamlNode {
    pub(crate) fn new(position: Position, tag: Option<String>, content: YamlContent) -> Self {
        Self {
            span: SourceSpan::new(position, ""),
            tag,
            content,
        }
    }

    /// The root of an empty document.
    pub(crate) fn empty() -> Self {
        Self::new(
            Position::START,
            None,
            YamlContent::Scalar(Scalar::plain("")),
        )
    }

    /// Changes the span of this node and of everything below it.
    pub(crate) fn for_each_span(&mut self, change: &mut impl FnMut(&mut SourceSpan)) {
        change(&mut self.span);
        match &mut self.content {
            YamlContent::Scalar(_) => {}
            YamlContent::List(items) => items.iter_mut().for_each(|it| it.for_each_span(change)),
            YamlContent::Mapping(entries) => {
                for entry in entries {
                    change(&mut entry.span);
                    entry.value.for_each_span(change);
                }
            }
        }
    }

    /// Visits every node below this one.
    pub(crate) fn for_each_below(&self, visit: &mut impl FnMut(&YamlNode)) {
        for child in self.children() {
            visit(child);
            child.for_each_below(visit);
        }
    }

    /// The values directly below this one.
    pub(crate) fn children(&self) -> impl Iterator<Item = &YamlNode> {
        let (items, entries) = match &self.content {
            YamlContent::Scalar(_) => (&[][..], &[][..]),
            YamlContent::List(items) => (items.as_slice(), &[][..]),
            YamlContent::Mapping(entries) => (&[][..], entries.as_slice()),
        };
        items.iter().chain(entries.iter().map(|entry| &entry.value))
    }

    /// The value of a key; of a repeated key, the first one.
    pub(crate) fn get(&self, key: &str) -> Option<&YamlNode> {
        let YamlContent::Mapping(entries) = &self.content else {
            return None;
        };
        entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, YamlContent::Scalar(scalar) if scalar.resolve() == Resolved::Null)
    }

    /// The value as an error message describes it: a text with its content, a list without. What may be a secret is not
    /// shown.
    pub(crate) fn described(&self) -> String {
        match &self.content {
            YamlContent::Scalar(scalar) if self.may_be_secret(&scalar.text) => {
                "something else, which is not shown because it may be a secret".to_owned()
            }
            YamlContent::Scalar(scalar) => scalar.described(),
            YamlContent::List(_) => "a list".to_owned(),
            YamlContent::Mapping(_) => "a mapping".to_owned(),
        }
    }

    /// Whether this text is a URL with a password, or its key, or one above it, is the name of a secret, or it is written where
    /// a mapping belongs that may hold secrets.
    fn may_be_secret(&self, text: &str) -> bool {
        let keys = self.span.path.split('.');
        let keys = keys.map(|key| key.split('[').next().unwrap_or_default());
        let own = keys.clone().next_back().unwrap_or_default();
        // The name of an executor is no key.
        let is_executor = keys.clone().next() == Some(EXECUTORS);
        let mut keys = keys.skip(if is_executor { 2 } else { 0 });
        has_password(text) || HOLD_SECRETS.contains(&own) || keys.any(is_secret_name)
    }

    /// Bytes of the keys, texts and tags of this node and of everything below it.
    pub(crate) fn text_bytes(&self) -> usize {
        let below = match &self.content {
            YamlContent::Scalar(scalar) => scalar.text.len(),
            YamlContent::List(items) => items.iter().map(Self::text_bytes).sum(),
            YamlContent::Mapping(entries) => {
                let bytes = |entry: &YamlEntry| entry.key.len() + entry.value.text_bytes();
                entries.iter().map(bytes).sum()
            }
        };
        below + self.tag.as_ref().map_or(0, String::len)
    }

    /// Most bytes that [`locate`](Self::locate) stores, if the path of this node has `path` bytes.
    pub(crate) fn path_bytes(&self, path: usize) -> usize {
        let below = match &self.content {
            YamlContent::Scalar(_) => 0,
            YamlContent::List(items) => {
                let bytes = |item: &Self| item.path_bytes(path + item_path_len_max(item));
                items.iter().map(bytes).fold(0, usize::saturating_add)
            }
            YamlContent::Mapping(entries) => {
                let bytes = |entry: &YamlEntry| {
                    let path = path + 1 + entry.key.len();
                    path.saturating_add(entry.value.path_bytes(path))
                };
                entries.iter().map(bytes).fold(0, usize::saturating_add)
            }
        };
        path.saturating_add(below)
    }

    /// Sets the path in the span of this node and of everything below it.
    ///
    /// An item of a list that has a name is called by it instead of by its number, as in `executors.encoder`.
    pub(crate) fn locate(&mut self, path: &str) {
        path.clone_into(&mut self.span.path);
        match &mut self.content {
            YamlContent::Scalar(_) => {}
            YamlContent::List(items) => {
                for (number, item) in items.iter_mut().enumerate() {
                    let path = item_path(path, number, item);
                    item.locate(&path);
                }
            }
            YamlContent::Mapping(entries) => {
                for entry in entries {
                    let path = join(path, &entry.key);
                    entry.value.locate(&path);
                    entry.span.path = path;
                }
            }
        }
    }

    /// Reports repeated keys of this mapping and of those below it.
    pub(crate) fn report_duplicates(&self, diagnostics: &mut Diagnostics) {
        match &self.content {
            YamlContent::Scalar(_) => {}
            YamlContent::List(items) => items
                .iter()
                .for_each(|it| it.report_duplicates(diagnostics)),
            YamlContent::Mapping(entries) => {
                let mut seen: HashMap<&str, Position> = HashMap::new();
                for entry in entries {
                    let first = *seen.entry(&entry.key).or_insert(entry.span.position);
                    if first != entry.span.position {
                        diagnostics.problem(stands_twice(entry, first));
                    }
                    entry.value.report_duplicates(diagnostics);
                }
            }
        }
    }

    /// The value as JSON. The error names the first value that JSON cannot represent.
    pub(crate) fn to_json(&self) -> Result<Value, Problem> {
        match &self.content {
            YamlContent::Scalar(scalar) => scalar.to_json().ok_or_else(|| {
                let message = format!("must be a finite number, is {}", scalar.described());
                Problem::new(&self.span, message)
            }),
            YamlContent::List(items) => items
                .iter()
                .map(Self::to_json)
                .collect::<Result<_, _>>()
                .map(Value::Array),
            YamlContent::Mapping(entries) => entries_to_json(entries).map(Value::Object),
        }
    }
}

pub(crate) fn entries_to_json(entries: &[YamlEntry]) -> Result<Map<String, Value>, Problem> {
    entries
        .iter()
        .map(|entry| Ok((entry.key.clone(), entry.value.to_json()?)))
        .collect()
}

fn stands_twice(entry: &YamlEntry, first: Position) -> Problem {
    let message = format!(
        "`{}` is given twice; the first is at line {}",
        entry.key, first.line
    );
    Problem::new(&entry.span, message)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn item_path(list: &str, number: usize, item: &YamlNode) -> String {
    match item.get(NAME).map(|name| &name.content) {
        Some(YamlContent::Scalar(name)) if name.text.parse::<NodeName>().is_ok() => {
            format!("{list}.{}", name.text)
        }
        _ => format!("{list}[{number}]"),
    }
}

/// Most bytes that an item's own part of its path may have.
fn item_path_len_max(item: &YamlNode) -> usize {
    const DIGITS_MAX: usize = 20;
    match item.get(NAME).map(|name| &name.content) {
        Some(YamlContent::Scalar(name)) => 1 + name.text.len().max(DIGITS_MAX + 1),
        _ => 2 + DIGITS_MAX,
    }
}

/// The key that names an item of a list.
const NAME: &str = "name";

/// The key of the list whose items are named.
const EXECUTORS: &str = "executors";

/// Keys of mappings whose values may be secrets.
const HOLD_SECRETS: &[&str] = &["uses_with", "with", "env", "grpc_metadata"];
