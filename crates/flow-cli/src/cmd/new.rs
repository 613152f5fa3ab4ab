//! `flow new`: creates the project of an executor, or of a flow with one.
//!
//! ```text
//! options, and questions on a terminal ──► Draft ──► files ──► a folder, a table, the next steps
//! draft.rs, dialog.rs                      name.rs   files.rs
//! ```

mod dialog;
mod draft;
mod files;
mod name;
mod source;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};

use crate::exit::{BadUsage, Exit};
use crate::output::{self, Colour, Painter};
use crate::shell::Shell;
use dialog::Dialog;
use draft::{Draft, DraftOptions};
use files::File;

const EXECUTOR_EXAMPLES: &str = "\
EXAMPLES:
  flow new executor
  flow new executor Shout --description \"Upper-cases every text\" --dockerfile cpu
  flow new executor Shout --lang python

On a terminal, the command asks for what the options leave open. Elsewhere, or with --yes, it takes
the defaults.

Exit codes: 0 success, 1 the files cannot be written, 2 bad usage, such as a folder that exists.";

const FLOW_EXAMPLES: &str = "\
EXAMPLES:
  flow new flow
  flow new flow greetings --executor Greeter --lang python

Exit codes: 0 success, 1 the files cannot be written, 2 bad usage, such as a folder that exists.";

/// The default name of an executor.
const EXECUTOR_DEFAULT: &str = "MyExecutor";

/// The default folder of a flow.
const FLOW_DEFAULT: &str = "hello-flow";

/// The commands below `flow new`.
#[derive(Debug, Subcommand)]
pub(crate) enum New {
    /// Create an executor: a Rust package, or a Python module
    Executor(NewExecutor),
    /// Create a flow with an executor and a Python client
    Flow(NewFlow),
}

/// Options of `flow new executor`.
#[derive(Debug, Args)]
#[command(after_help = EXECUTOR_EXAMPLES)]
pub(crate) struct NewExecutor {
    /// Name of the executor, such as MyExecutor
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Name of the executor; for compatibility with `jina hub new`
    #[arg(
        long = "name",
        value_name = "NAME",
        hide = true,
        conflicts_with = "name"
    )]
    named: Option<String>,
    /// Folder to create [default: the executor's name in lower case, such as my-executor]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    #[command(flatten)]
    options: DraftOptions,
}

/// Options of `flow new flow`.
#[derive(Debug, Args)]
#[command(after_help = FLOW_EXAMPLES)]
pub(crate) struct NewFlow {
    /// Folder to create [default: hello-flow]
    #[arg(value_name = "NAME")]
    name: Option<PathBuf>,
    /// Name of the flow's executor [default: MyExecutor]
    #[arg(long, value_name = "NAME")]
    executor: Option<String>,
    #[command(flatten)]
    options: DraftOptions,
}

pub(crate) fn run(new: New, shell: &Shell) -> anyhow::Result<Exit> {
    let (mut input, mut screen) = (io::stdin().lock(), io::stderr());
    match new {
        New::Executor(new) => {
            let is_asked = new.options.may_ask();
            executor(new, Dialog::new(is_asked, &mut input, &mut screen), shell)
        }
        New::Flow(new) => {
            let is_asked = new.options.may_ask();
            flow(new, Dialog::new(is_asked, &mut input, &mut screen), shell)
        }
    }
}

fn executor(new: NewExecutor, mut dialog: Dialog<'_>, shell: &Shell) -> anyhow::Result<Exit> {
    let name = new.name.or(new.named);
    let name = dialog.name("Name of the executor", name.as_deref(), EXECUTOR_DEFAULT)?;
    let folder = match new.path {
        Some(path) => path,
        None => dialog.text("Folder", None, &name.kebab)?.into(),
    };
    let draft = Draft::new(name, new.options, &mut dialog)?;
    write(&folder, &files::executor(&draft))?;
    show(&draft.name.camel, &folder, &files::executor(&draft), shell)?;
    next(&folder, &files::next(&draft, ""), shell)
}

fn flow(new: NewFlow, mut dialog: Dialog<'_>, shell: &Shell) -> anyhow::Result<Exit> {
    let folder: PathBuf = match new.name {
        Some(folder) => folder,
        None => dialog.text("Folder", None, FLOW_DEFAULT)?.into(),
    };
    let name = dialog.name(
        "Name of its executor",
        new.executor.as_deref(),
        EXECUTOR_DEFAULT,
    )?;
    let draft = Draft::new(name, new.options, &mut dialog)?;
    let title = folder.file_name().unwrap_or_default().to_string_lossy();
    let files = files::flow(&draft, &title);
    write(&folder, &files)?;
    show("the flow", &folder, &files, shell)?;
    next(&folder, &files::next(&draft, &draft.name.kebab), shell)
}

/// Writes all files into a new or empty folder.
fn write(folder: &Path, files: &[File]) -> anyhow::Result<()> {
    let shown = folder.display();
    let is_taken = match fs::read_dir(folder) {
        Ok(mut entries) => entries.next().is_some(),
        Err(error) => error.kind() != io::ErrorKind::NotFound,
    };
    if is_taken {
        return Err(BadUsage(format!("`{shown}` already exists")).into());
    }
    for file in files {
        let path = folder.join(&file.path);
        let write = || {
            fs::create_dir_all(path.parent().unwrap_or(folder))?;
            fs::write(&path, &file.text)
        };
        write().with_context(|| format!("cannot write `{}`", path.display()))?;
    }
    Ok(())
}

/// Prints the table of files.
fn show(what: &str, folder: &Path, files: &[File], shell: &Shell) -> io::Result<()> {
    let painter = Painter::stdout(shell);
    let width = files.iter().map(|file| file.path.len()).max().unwrap_or(0);
    let place = painter.paint(Colour::Bold, &folder.display().to_string());
    output::line(&format!("{what} is in {place}\n"))?;
    for File { path, about, .. } in files {
        let path = painter.paint(Colour::Cyan, &format!("{path:width$}"));
        output::line(&format!("  {path}   {about}"))?;
    }
    Ok(())
}

/// Prints the commands to run next.
fn next(folder: &Path, steps: &[(String, &str)], shell: &Shell) -> anyhow::Result<Exit> {
    let painter = Painter::stdout(shell);
    let enter = (format!("cd {}", folder.display()), "");
    let steps: Vec<&(String, &str)> = std::iter::once(&enter).chain(steps).collect();
    let noted = steps.iter().filter(|(_, note)| !note.is_empty());
    let width = noted.map(|(step, _)| step.len()).max().unwrap_or(0);
    output::line("\nNext:")?;
    for (step, note) in steps {
        let note = match *note {
            "" => String::new(),
            note => painter.paint(Colour::Dim, &format!("   # {note}")),
        };
        let line = format!("  {step:width$}{note}");
        output::line(line.trim_end())?;
    }
    Ok(Exit::Fine)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str) -> File {
        File {
            path: path.to_owned(),
            text: "text".to_owned(),
            about: "",
        }
    }

    #[test]
    fn files_are_written_into_a_new_or_empty_folder_only() {
        let root = tempfile::tempdir().unwrap();
        let files = [file("a"), file("src/b")];
        let check = |name: &str, expected: Result<(), &str>| {
            let written = write(&root.path().join(name), &files);
            let error = written.map_err(|it| it.to_string());
            assert_eq!(error.is_err(), expected.is_err(), "{error:?}");
            if let (Err(error), Err(part)) = (error, expected) {
                assert!(error.contains(part), "{error}");
            }
        };
        check("new", Ok(()));
        assert_eq!(
            fs::read_to_string(root.path().join("new/src/b")).unwrap(),
            "text"
        );
        check("new", Err("already exists"));
        fs::create_dir(root.path().join("empty")).unwrap();
        check("empty", Ok(()));
        fs::write(root.path().join("file"), "").unwrap();
        check("file", Err("already exists"));
    }
}
