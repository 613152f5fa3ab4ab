//! Writes the files of an export, and prints its warnings.

use std::fs;
use std::path::Path;

use anyhow::Context;
use flow_launch::render::{ExportError, Rendered};

use crate::exit::BadUsage;
use crate::output::{self, Colour, Painter};
use crate::shell::Shell;

/// The error of an export that the options or the flow file make impossible.
pub(super) fn bad_usage(error: &ExportError) -> anyhow::Error {
    BadUsage(error.to_string()).into()
}

/// Prints the remarks of an export on stderr.
pub(super) fn warn(rendered: &Rendered, shell: &Shell) {
    let warning = Painter::stderr(shell).paint(Colour::Yellow, "warning");
    for remark in &rendered.remarks {
        output::error_line(&format!("{warning}: {remark}"));
    }
}

/// Writes a file, and creates its folder.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let created = folder.map_or(Ok(()), fs::create_dir_all);
    created
        .and_then(|()| fs::write(path, text))
        .with_context(|| format!("cannot write `{}`", path.display()))
}
