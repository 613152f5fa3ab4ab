//! The options that are written in a mapping, as a struct made from the rows of a table.

use super::key::Key;
use super::section::Section;
use crate::diagnostics::{Diagnostics, SourceSpan};

/// The options of one table, as they are written. [`options!`] implements it.
pub(crate) trait Options: Sized {
    /// The keys in the order of the rows.
    const KEYS: &'static [&'static Key];

    /// Reads these options from a mapping, which may have other keys beside them.
    fn read(section: &Section<'_>, diagnostics: &mut Diagnostics) -> Self;

    /// These options, and those of `inherited` that are not written here.
    fn or(&self, inherited: &Self) -> Self;

    /// The keys that are written, with the spans of their values.
    fn written(&self) -> Vec<(&'static Key, &SourceSpan)>;
}

impl Section<'_> {
    /// The options of one table.
    pub(crate) fn options<O: Options>(&self, diagnostics: &mut Diagnostics) -> O {
        O::read(self, diagnostics)
    }
}

/// Makes two things of one list of rows: a struct of options as they are written, and the table of their keys.
/// Fields of both have the names of the keys.
macro_rules! options {
    (
        $(#[$doc:meta])*
        struct $Options:ident, $Table:ident $TABLE:ident {
            $($name:ident: $Type:ty = $row:expr;)*
        }
    ) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Default, PartialEq)]
        pub(crate) struct $Options {
            $(pub(crate) $name: Option<$crate::diagnostics::Spanned<$Type>>,)*
        }

        #[doc = concat!("The rows of [`", stringify!($Options), "`].")]
        #[derive(Debug)]
        pub(crate) struct $Table {
            $(pub(crate) $name: $crate::keys::TypedKey<$Type>,)*
        }

        pub(crate) static $TABLE: $Table = $Table {
            $($name: $row.named(stringify!($name)),)*
        };

        impl $crate::keys::Options for $Options {
            const KEYS: &'static [&'static $crate::keys::Key] = &[$(&$TABLE.$name.key),*];

            fn read(
                section: &$crate::keys::Section<'_>,
                diagnostics: &mut $crate::diagnostics::Diagnostics,
            ) -> Self {
                Self { $($name: section.value(&$TABLE.$name, diagnostics),)* }
            }

            fn or(&self, inherited: &Self) -> Self {
                Self { $($name: self.$name.clone().or_else(|| inherited.$name.clone()),)* }
            }

            fn written(
                &self,
            ) -> Vec<(&'static $crate::keys::Key, &$crate::diagnostics::SourceSpan)> {
                let all = [$((&$TABLE.$name.key, self.$name.as_ref().map(|it| &it.span)),)*];
                let written = all.into_iter().filter_map(|(key, span)| Some((key, span?)));
                written.collect()
            }
        }

        #[cfg(test)]
        impl $crate::print::PrintOptions for $Options {
            fn print(&self, into: &mut serde_json::Map<String, serde_json::Value>) {
                $(if let Some(written) = &self.$name {
                    let value = $crate::print::Print::print(&written.value);
                    into.insert(stringify!($name).to_owned(), value);
                })*
            }
        }
    };
}

pub(crate) use options;
