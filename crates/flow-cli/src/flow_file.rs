//! Reads flow files for the commands that take one.

use std::path::Path;

use anyhow::Context as _;
use clap::Args;
use flow_spec::{AnyExecutor, Checked, Context, Executors, TextFile, Variables};

use crate::executors::LocalExecutors;
use crate::exit::BadUsage;
use crate::output::{self, Colour, Painter};
use crate::shell::Shell;

/// How strictly a flow file is read.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct ReadOptions {
    /// Warn about keys that flow does not know instead of refusing the file, as Jina does; `lenient: true` in
    /// the file does the same
    #[arg(long)]
    pub(crate) lenient: bool,
}

/// Reads and checks a flow file without looking for its executors.
pub(crate) fn load(path: &Path, options: ReadOptions, shell: &Shell) -> anyhow::Result<Checked> {
    load_with((path, options), shell, &|_| {}, &AnyExecutor)
}

/// Reads and checks a flow file for a start on this machine: its executors must exist and accept their options. Calls `note`
/// with each file that the flow file names before reading it.
pub(crate) fn load_to_start(
    path: &Path,
    options: ReadOptions,
    shell: &Shell,
    note: &dyn Fn(&Path),
) -> anyhow::Result<Checked> {
    let executors = LocalExecutors {
        shell,
        beside: beside(path),
        note,
        may_be_elsewhere: false,
    };
    load_with((path, options), shell, note, &executors)
}

/// Reads and checks a flow file for a start elsewhere: executors that exist here must accept their options.
pub(crate) fn load_to_export(
    path: &Path,
    options: ReadOptions,
    shell: &Shell,
) -> anyhow::Result<Checked> {
    let note = &|_: &Path| {};
    let executors = LocalExecutors {
        shell,
        beside: beside(path),
        note,
        may_be_elsewhere: true,
    };
    load_with((path, options), shell, note, &executors)
}

fn load_with(
    (path, options): (&Path, ReadOptions),
    shell: &Shell,
    note: &dyn Fn(&Path),
    executors: &dyn Executors,
) -> anyhow::Result<Checked> {
    let text = std::fs::read_to_string(path)
        .with_context(|| BadUsage(format!("cannot read flow file `{}`", path.display())))?;
    let variables = Variables {
        env: shell.variables.clone().into_iter().collect(),
        ..Variables::default()
    };
    let context = Context {
        variables: &variables,
        files: &|name: &str| read_named(Path::new(name), beside(path), note),
        executors,
        lenient: options.lenient,
    };
    let file = TextFile { path, text: &text };
    Ok(flow_spec::load_with(file, &context)?)
}

/// The folder of a flow file.
pub(crate) fn beside(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new(""))
}

/// Reads a file that a flow file names, relative to the current folder or to the flow file.
fn read_named(name: &Path, beside: &Path, note: &dyn Fn(&Path)) -> Result<String, String> {
    let places = [name.to_owned(), beside.join(name)];
    let found = places.iter().find(|path| path.is_file());
    let path = found.ok_or("there is no such file here or beside the flow file")?;
    note(path);
    std::fs::read_to_string(path).map_err(|error| error.to_string())
}

/// Prints the warnings about a file on stderr.
pub(crate) fn warn(path: &Path, checked: &Checked, shell: &Shell) {
    if checked.warnings.is_empty() {
        return;
    }
    let warning = Painter::stderr(shell).paint(Colour::Yellow, "warning");
    output::error_report(&format!(
        "{warning}: `{}`\n{}",
        path.display(),
        checked.warnings
    ));
}
