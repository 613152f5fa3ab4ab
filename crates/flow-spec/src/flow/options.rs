//! Default values of options.

use crate::diagnostics::Spanned;
use crate::keys::LogOptions;
use crate::values::{Env, LogStyle};

/// The value of an option, if it is written.
pub(super) fn value<T: Clone>(written: &Option<Spanned<T>>) -> Option<T> {
    written.as_ref().map(|written| written.value.clone())
}

/// The value of an option or, if it is not written, the default of its type.
pub(super) fn or_default<T: Clone + Default>(written: &Option<Spanned<T>>) -> T {
    value(written).unwrap_or_default()
}

/// Whether an option is written and `true`.
pub(super) fn is_set(written: &Option<Spanned<bool>>) -> bool {
    value(written) == Some(true)
}

/// The values of a list without their spans.
pub(super) fn values<T: Clone>(written: &Option<Spanned<Vec<Spanned<T>>>>) -> Vec<T> {
    let items = written.iter().flat_map(|list| &list.value);
    items.map(|item| item.value.clone()).collect()
}

/// Environment variables of several mappings. Later mappings win, variable by variable.
pub(super) fn env<const N: usize>(parts: [&Option<Spanned<Env>>; N]) -> Env {
    let written = parts.into_iter().flatten();
    written.flat_map(|part| part.value.clone()).collect()
}

/// The format of a log; `None` is the format in which `flow up` logs.
pub(super) fn log(options: &LogOptions) -> Option<LogStyle> {
    if is_set(&options.quiet) {
        return Some(LogStyle::Off);
    }
    value(&options.log_config).flatten()
}
