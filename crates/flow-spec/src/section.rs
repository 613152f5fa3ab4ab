//! A mapping of the file held against the keys that it may have.
//!
//! Here it is decided what becomes of each key: taken, known but not built, refused, or unknown.
//! Only supported keys with a value are left for others to read.

use std::collections::HashSet;

use crate::keys::{Key, Keys, State, home_of};
use crate::problem::{Findings, Place, Problem};
use crate::suggest::closest;
use crate::yaml::{Content, Entry, Node, Resolved};

/// A value and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct At<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

/// The supported keys of one mapping, with their values.
#[derive(Debug, Default)]
pub(crate) struct Section<'n> {
    entries: Vec<(&'static str, &'n Node)>,
}

impl<'n> Section<'n> {
    /// Takes a mapping apart and reports what cannot be taken. Nothing written is an empty mapping.
    pub(crate) fn read(node: Option<&'n Node>, keys: &Keys, findings: &mut Findings) -> Self {
        let Some(node) = node.filter(|node| !node.is_null()) else {
            return Self::default();
        };
        let Content::Mapping(entries) = &node.content else {
            let message = format!("must be a mapping, is {}", node.described());
            findings.problem(Problem::new(&node.place, message));
            return Self::default();
        };
        let mut section = Self::default();
        let mut seen = HashSet::new();
        for entry in entries {
            // A key that stands twice is reported with the whole document; the first one counts.
            if seen.insert(&entry.key) {
                section.take(entry, keys, findings);
            }
        }
        section
    }

    /// The value of a key, if there is one and it is not `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&'n Node> {
        self.entries
            .iter()
            .find(|(key, _)| *key == name)
            .map(|(_, node)| *node)
    }

    /// The value of a key, as `read` understands it.
    pub(crate) fn value<T>(
        &self,
        name: &str,
        findings: &mut Findings,
        read: impl Fn(&Node, &mut Findings) -> Option<T>,
    ) -> Option<At<T>> {
        let node = self.get(name)?;
        Some(At {
            value: read(node, findings)?,
            place: node.place.clone(),
        })
    }

    /// The value of a key without its place; what is not written, or not understood, is empty.
    pub(crate) fn or_default<T: Default>(
        &self,
        name: &str,
        findings: &mut Findings,
        read: impl Fn(&Node, &mut Findings) -> Option<T>,
    ) -> T {
        self.value(name, findings, read)
            .map(|at| at.value)
            .unwrap_or_default()
    }

    /// The values of a key that holds one value or a list of them.
    pub(crate) fn values<T>(
        &self,
        name: &str,
        findings: &mut Findings,
        read: impl Fn(&Node, &mut Findings) -> Option<T>,
    ) -> Option<At<Vec<At<T>>>> {
        let node = self.get(name)?;
        let items = match &node.content {
            Content::List(items) => items.as_slice(),
            Content::Scalar(_) | Content::Mapping(_) => std::slice::from_ref(node),
        };
        let read = |item: &Node| {
            read(item, findings).map(|value| At {
                value,
                place: item.place.clone(),
            })
        };
        let value = items.iter().filter_map(read).collect();
        Some(At {
            value,
            place: node.place.clone(),
        })
    }

    fn take(&mut self, entry: &'n Entry, keys: &Keys, findings: &mut Findings) {
        let Some(key) = keys.find(&entry.key) else {
            findings.problem(unknown(entry, keys));
            return;
        };
        if entry.value.is_null() || is_harmless(key, &entry.value) {
            return;
        }
        match key.state {
            State::Supported(..) => self.add(key.name, entry, findings),
            State::AliasOf(name) => self.add(name, entry, findings),
            State::NotYet => findings.problem(not_yet(entry, key)),
            State::Refused(why) => {
                let message = format!("`{}` is not supported: {why}", key.name);
                findings.problem(Problem::new(&entry.place, message));
            }
            State::WithoutEffect(why) => {
                let message = format!("`{}` has no effect: {why}", key.name);
                findings.warn(Problem::new(&entry.place, message));
            }
        }
    }

    fn add(&mut self, name: &'static str, entry: &'n Entry, findings: &mut Findings) {
        if self.get(name).is_some() {
            let message = format!("`{}` means `{name}`, which stands here too", entry.key);
            findings.problem(Problem::new(&entry.place, message).remedy("keep one of them"));
        } else {
            self.entries.push((name, &entry.value));
        }
    }
}

fn unknown(entry: &Entry, keys: &Keys) -> Problem {
    let message = format!("`{}` is not {}", entry.key, keys.what);
    let problem = Problem::new(&entry.place, message);
    match home_of(&entry.key) {
        Some(home) => problem.remedy(format!("it belongs in {home}")),
        None => problem.suggest(closest(&entry.key, suggestions(keys))),
    }
}

/// Words that are worth suggesting: not those that would be refused.
fn suggestions(keys: &Keys) -> impl Iterator<Item = &'static str> {
    keys.all()
        .filter(|key| !matches!(key.state, State::Refused(_)))
        .map(|key| key.name)
}

fn not_yet(entry: &Entry, key: &Key) -> Problem {
    let message = format!(
        "`{}` is a key of Jina's that flow does not support yet",
        key.name
    );
    let problem = Problem::new(&entry.place, message);
    match key.harmless {
        [] => problem.remedy("leave it out"),
        [harmless, ..] => problem.remedy(format!("leave it out, or write `{harmless}`")),
    }
}

/// Whether the value asks for nothing beyond what flow does without it.
fn is_harmless(key: &Key, value: &Node) -> bool {
    let built = matches!(key.state, State::Supported(..) | State::AliasOf(_));
    match &value.content {
        _ if built => false,
        Content::List(items) => items.is_empty(),
        Content::Mapping(entries) => entries.is_empty(),
        Content::Scalar(scalar) => {
            let empty = scalar.resolve() == Resolved::Text("");
            empty
                || key
                    .harmless
                    .iter()
                    .any(|it| it.eq_ignore_ascii_case(&scalar.text))
        }
    }
}
