//! One key of the flow file: its name, the form of its value, and what flow does with it.

use crate::forms::{Shape, ValueForm};

/// What is known of one key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    /// Other names of a supported key.
    pub(crate) aliases: &'static [&'static str],
    /// Names that a supported key had in Jina 2. They are accepted with a warning.
    pub(crate) old_names: &'static [&'static str],
    pub(crate) state: KeySupport,
    /// Values of an unsupported key that ask for what flow does anyway. They are accepted.
    pub(crate) harmless: &'static [&'static str],
    /// The value of a supported key that is not written, in Markdown.
    pub(crate) default: &'static str,
    /// A value of a supported key, in YAML.
    pub(crate) example: &'static str,
    /// What differs in Jina, in Markdown; empty if nothing does.
    pub(crate) jina: &'static str,
    /// The key concerns processes that the flow starts, so it has no effect on an external executor.
    pub(crate) is_for_processes: bool,
}

/// What flow does with a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeySupport {
    /// Read, with the shape of its value and what it is for.
    Supported(Shape, &'static str),
    /// Known, and to come.
    NotYet,
    /// Known, and not to come; the reason.
    Refused(&'static str),
    /// Accepted with a warning, because no reply depends on it; the reason.
    WithoutEffect(&'static str),
}

impl Key {
    const fn new(name: &'static str, state: KeySupport, harmless: &'static [&'static str]) -> Self {
        Self {
            name,
            aliases: &[],
            old_names: &[],
            state,
            harmless,
            default: "none",
            example: "",
            jina: "",
            is_for_processes: false,
        }
    }

    pub(crate) fn is_supported(&self) -> bool {
        matches!(self.state, KeySupport::Supported(..))
    }

    /// Whether a file may call the key by this name.
    pub(crate) fn is_called(&self, name: &str) -> bool {
        self.name == name || self.aliases.contains(&name) || self.old_names.contains(&name)
    }

    /// All names of the key.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        let others = self.aliases.iter().chain(self.old_names);
        std::iter::once(self.name).chain(others.copied())
    }
}

pub(crate) const fn not_yet(name: &'static str, harmless: &'static [&'static str]) -> Key {
    Key::new(name, KeySupport::NotYet, harmless)
}

pub(crate) const fn refused(
    name: &'static str,
    harmless: &'static [&'static str],
    why: &'static str,
) -> Key {
    Key::new(name, KeySupport::Refused(why), harmless)
}

pub(crate) const fn without_effect(name: &'static str, why: &'static str) -> Key {
    ignored(name, &[], why)
}

/// A key without effect that is accepted without a warning if it has one of the harmless values.
pub(crate) const fn ignored(
    name: &'static str,
    harmless: &'static [&'static str],
    why: &'static str,
) -> Key {
    Key::new(name, KeySupport::WithoutEffect(why), harmless)
}

/// A supported key with the type of its value.
#[derive(Debug)]
pub(crate) struct TypedKey<T: 'static> {
    pub(crate) key: Key,
    pub(crate) form: ValueForm<T>,
}

/// Begins the row of a supported key; [`options!`](super::options) adds its name.
pub(crate) const fn row<T>(form: ValueForm<T>, about: &'static str) -> TypedKey<T> {
    let key = Key::new("", KeySupport::Supported(form.shape, about), &[]);
    TypedKey { key, form }
}

impl<T> TypedKey<T> {
    pub(crate) const fn name(&self) -> &'static str {
        self.key.name
    }

    pub(crate) const fn named(mut self, name: &'static str) -> Self {
        self.key.name = name;
        self
    }

    /// Other names of the key.
    pub(crate) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.key.aliases = aliases;
        self
    }

    /// Names of the key in Jina 2.
    pub(crate) const fn old_names(mut self, names: &'static [&'static str]) -> Self {
        self.key.old_names = names;
        self
    }

    /// The value of the key if it is not written, in Markdown.
    pub(crate) const fn default(mut self, default: &'static str) -> Self {
        self.key.default = default;
        self
    }

    /// A value, in YAML.
    pub(crate) const fn example(mut self, example: &'static str) -> Self {
        self.key.example = example;
        self
    }

    /// What differs in Jina, in Markdown.
    pub(crate) const fn jina(mut self, jina: &'static str) -> Self {
        self.key.jina = jina;
        self
    }

    /// The key has no effect on an external executor.
    pub(crate) const fn for_processes(mut self) -> Self {
        self.key.is_for_processes = true;
        self
    }
}
