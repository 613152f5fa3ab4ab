//! YAML text → a tree whose every value knows where it stands.
//!
//! The tree keeps what was written: scalars stay texts until somebody asks what they are
//! ([`Scalar::resolve`]), and a key that stands twice is still there twice. Aliases and merge keys
//! (`<<`) are resolved here; what a tree may hold is bounded, since eight lines of aliases can ask
//! for more memory than there is.

mod build;
mod scalar;

use std::collections::HashMap;

use serde_json::{Map, Value};

pub(crate) use build::parse;
pub(crate) use scalar::{Resolved, Scalar};

use crate::problem::{Findings, Place, Position, Problem, SyntaxError};

/// A value of the document.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Node {
    pub(crate) place: Place,
    /// A tag of the file's own, such as `Flow` for `!Flow`.
    pub(crate) tag: Option<String>,
    pub(crate) content: Content,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Content {
    Scalar(Scalar),
    List(Vec<Node>),
    Mapping(Vec<Entry>),
}

/// A key and its value. The key's place has the same path as the value's.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) place: Place,
    pub(crate) value: Node,
}

impl Node {
    pub(crate) fn new(position: Position, tag: Option<String>, content: Content) -> Self {
        Self {
            place: Place::new(position, ""),
            tag,
            content,
        }
    }

    /// The root of an empty document.
    pub(crate) fn empty() -> Self {
        Self::new(Position::START, None, Content::Scalar(Scalar::plain("")))
    }

    /// A text in a value of the document, read as YAML of its own. Everything in it stands where the
    /// value stands.
    pub(crate) fn embedded(text: &str, at: &Place) -> Result<Self, SyntaxError> {
        let mut node = parse(text)?;
        node.locate(&at.path);
        node.for_each_place(&mut |place| {
            place.file.clone_from(&at.file);
            place.position = at.position;
        });
        Ok(node)
    }

    /// Changes where this node, and everything below it, stands.
    pub(crate) fn for_each_place(&mut self, change: &mut impl FnMut(&mut Place)) {
        change(&mut self.place);
        match &mut self.content {
            Content::Scalar(_) => {}
            Content::List(items) => items.iter_mut().for_each(|it| it.for_each_place(change)),
            Content::Mapping(entries) => {
                for entry in entries {
                    change(&mut entry.place);
                    entry.value.for_each_place(change);
                }
            }
        }
    }

    /// Visits everything below this node.
    pub(crate) fn for_each_below(&self, visit: &mut impl FnMut(&Node)) {
        for child in self.children() {
            visit(child);
            child.for_each_below(visit);
        }
    }

    /// The values directly below this one.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Node> {
        let (items, entries) = match &self.content {
            Content::Scalar(_) => (&[][..], &[][..]),
            Content::List(items) => (items.as_slice(), &[][..]),
            Content::Mapping(entries) => (&[][..], entries.as_slice()),
        };
        items.iter().chain(entries.iter().map(|entry| &entry.value))
    }

    /// What stands under a key, the first time if it stands twice.
    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let Content::Mapping(entries) = &self.content else {
            return None;
        };
        entries
            .iter()
            .find(|entry| entry.key == key)
            .map(|entry| &entry.value)
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar(scalar) if scalar.resolve() == Resolved::Null)
    }

    /// What it is, as an error message says it: a text with its value, a list without.
    pub(crate) fn described(&self) -> String {
        match &self.content {
            Content::Scalar(scalar) => scalar.described(),
            Content::List(_) => "a list".to_owned(),
            Content::Mapping(_) => "a mapping".to_owned(),
        }
    }

    /// Writes into every value where it stands, from here downwards.
    ///
    /// An entry of `executors` goes by its name, not by its number, for that is how people think of it.
    pub(crate) fn locate(&mut self, path: &str) {
        path.clone_into(&mut self.place.path);
        match &mut self.content {
            Content::Scalar(_) => {}
            Content::List(items) => {
                for (number, item) in items.iter_mut().enumerate() {
                    let path = item_path(path, number, item);
                    item.locate(&path);
                }
            }
            Content::Mapping(entries) => {
                for entry in entries {
                    let path = join(path, &entry.key);
                    entry.value.locate(&path);
                    entry.place.path = path;
                }
            }
        }
    }

    /// Reports keys that stand twice in one mapping, here and below.
    pub(crate) fn report_duplicates(&self, findings: &mut Findings) {
        match &self.content {
            Content::Scalar(_) => {}
            Content::List(items) => items.iter().for_each(|it| it.report_duplicates(findings)),
            Content::Mapping(entries) => {
                let mut seen: HashMap<&str, Position> = HashMap::new();
                for entry in entries {
                    let first = *seen.entry(&entry.key).or_insert(entry.place.position);
                    if first != entry.place.position {
                        findings.problem(stands_twice(entry, first));
                    }
                    entry.value.report_duplicates(findings);
                }
            }
        }
    }

    /// The value as JSON; `Err` names the first value that JSON has no word for.
    pub(crate) fn to_json(&self) -> Result<Value, Problem> {
        match &self.content {
            Content::Scalar(scalar) => scalar.to_json().ok_or_else(|| {
                let message = format!("must be a finite number, is {}", scalar.described());
                Problem::new(&self.place, message)
            }),
            Content::List(items) => items
                .iter()
                .map(Self::to_json)
                .collect::<Result<_, _>>()
                .map(Value::Array),
            Content::Mapping(entries) => entries_to_json(entries).map(Value::Object),
        }
    }
}

pub(crate) fn entries_to_json(entries: &[Entry]) -> Result<Map<String, Value>, Problem> {
    entries
        .iter()
        .map(|entry| Ok((entry.key.clone(), entry.value.to_json()?)))
        .collect()
}

fn stands_twice(entry: &Entry, first: Position) -> Problem {
    let message = format!(
        "`{}` stands twice; the first is at line {}",
        entry.key, first.line
    );
    Problem::new(&entry.place, message)
}

fn join(path: &str, key: &str) -> String {
    if path.is_empty() {
        key.to_owned()
    } else {
        format!("{path}.{key}")
    }
}

fn item_path(list: &str, number: usize, item: &Node) -> String {
    let is_executors = matches!(list, "executors" | "deployments" | "pods");
    let name = is_executors.then(|| item.get("name")).flatten();
    match name.map(|name| &name.content) {
        Some(Content::Scalar(name)) if name.text.parse::<flow_core::NodeName>().is_ok() => {
            format!("{list}.{}", name.text)
        }
        _ => format!("{list}[{number}]"),
    }
}

#[cfg(test)]
mod tests;
