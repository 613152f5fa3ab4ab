//! A mapping of the file, compared with the keys that it may have.
//!
//! This module decides what happens with each key: it is read, known but not supported, refused, or unknown.
//! Only supported keys with a value are left for others to read.

use std::collections::HashSet;

use super::key::{Key, KeySupport, TypedKey};
use crate::diagnostics::{Diagnostics, Problem, Spanned, UnknownKey};
use crate::yaml::{Resolved, YamlContent, YamlEntry, YamlNode};
use flow_core::closest;

/// The keys that one mapping of the file may have. The first table that knows a key decides.
#[derive(Debug)]
pub(crate) struct Mapping {
    /// What such a key is, as messages say it.
    pub(crate) what: &'static str,
    pub(crate) tables: &'static [&'static [&'static Key]],
}

impl Mapping {
    /// The key of this name or alias.
    pub(crate) fn find(&self, name: &str) -> Option<&'static Key> {
        self.keys().find(|key| key.is_called(name))
    }

    pub(crate) fn keys(&self) -> impl Iterator<Item = &'static Key> {
        self.tables.iter().copied().flatten().copied()
    }

    /// Names worth suggesting: those that would not be refused.
    fn suggestions(&self) -> impl Iterator<Item = &'static str> {
        let keys = self
            .keys()
            .filter(|key| !matches!(key.state, KeySupport::Refused(_)));
        keys.flat_map(Key::names)
    }
}

/// The supported keys of one mapping, with their values.
#[derive(Debug, Default)]
pub(crate) struct Section<'n> {
    entries: Vec<(&'static str, &'n YamlNode)>,
}

impl<'n> Section<'n> {
    /// Sorts the keys of a mapping and reports those that cannot be read. `None` is an empty mapping.
    pub(crate) fn read(
        node: Option<&'n YamlNode>,
        mapping: &Mapping,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let Some(node) = node.filter(|node| !node.is_null()) else {
            return Self::default();
        };
        let YamlContent::Mapping(entries) = &node.content else {
            let message = format!("must be a mapping, is {}", node.described());
            diagnostics.problem(Problem::new(&node.span, message));
            return Self::default();
        };
        let mut section = Self::default();
        let mut seen = HashSet::new();
        for entry in entries {
            // A repeated key is reported with the whole document; the first one counts.
            if seen.insert(&entry.key) {
                section.sort(entry, mapping, diagnostics);
            }
        }
        section
    }

    /// The value of a key, if it is written, is not `null` and can be read.
    pub(crate) fn value<T>(
        &self,
        row: &TypedKey<T>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Spanned<T>> {
        let mut entries = self.entries.iter();
        let (_, node) = entries.find(|(name, _)| *name == row.key.name)?;
        Some(Spanned {
            value: (row.form.read)(node, diagnostics)?,
            span: node.span.clone(),
        })
    }

    fn sort(&mut self, entry: &'n YamlEntry, mapping: &Mapping, diagnostics: &mut Diagnostics) {
        let Some(key) = mapping.find(&entry.key) else {
            diagnostics.unknown_keys.push(UnknownKey {
                span: entry.span.clone(),
                key: entry.key.clone(),
                expected: mapping.what,
                closest: closest(&entry.key, mapping.suggestions()),
            });
            return;
        };
        if entry.value.is_null() || is_harmless(key, &entry.value) {
            return;
        }
        if key.old_names.contains(&entry.key.as_str()) {
            let message = format!("`{}` is what Jina 2 called `{}`", entry.key, key.name);
            let warning = Problem::new(&entry.span, message);
            diagnostics.warn(warning.remedy(format!("write `{}`", key.name)));
        }
        match key.state {
            KeySupport::Supported(..) => self.add(key.name, entry, diagnostics),
            KeySupport::NotYet => diagnostics.problem(not_yet(entry, key)),
            KeySupport::Refused(why) => {
                let message = format!("`{}` is not supported: {why}", key.name);
                diagnostics.problem(Problem::new(&entry.span, message));
            }
            KeySupport::WithoutEffect(why) => {
                let message = format!("`{}` has no effect: {why}", key.name);
                diagnostics.warn(Problem::new(&entry.span, message));
            }
        }
    }

    fn add(&mut self, name: &'static str, entry: &'n YamlEntry, diagnostics: &mut Diagnostics) {
        if self.entries.iter().any(|(other, _)| *other == name) {
            let message = format!("`{}` means `{name}`, which is given here too", entry.key);
            diagnostics.problem(Problem::new(&entry.span, message).remedy("keep one of them"));
        } else {
            self.entries.push((name, &entry.value));
        }
    }
}

fn not_yet(entry: &YamlEntry, key: &Key) -> Problem {
    let message = format!(
        "`{}` is a key of Jina's that flow does not support yet",
        key.name
    );
    let problem = Problem::new(&entry.span, message);
    match key.harmless {
        [] => problem.remedy("leave it out"),
        [harmless, ..] => problem.remedy(format!("leave it out, or write `{harmless}`")),
    }
}

/// Whether an unsupported key has a value that asks for nothing beyond what flow does anyway.
fn is_harmless(key: &Key, value: &YamlNode) -> bool {
    match &value.content {
        _ if key.is_supported() => false,
        YamlContent::List(items) => items.is_empty(),
        YamlContent::Mapping(entries) => entries.is_empty(),
        YamlContent::Scalar(scalar) => {
            let empty = scalar.resolve() == Resolved::Text("");
            let mut harmless = key.harmless.iter();
            empty || harmless.any(|it| it.eq_ignore_ascii_case(&scalar.text))
        }
    }
}
