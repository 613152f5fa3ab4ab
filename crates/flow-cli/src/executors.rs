//! The executors that a flow file can name: built in, on `PATH`, or in files.
//!
//! ```text
//! uses: name        a built-in executor, a program on PATH, or the folder of an executor beside the flow file
//! uses: ./path      a program, a folder, a Python file or a `config.yml`, relative to the current folder or to the flow file
//! ```

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use flow_executor::BadOption;
use flow_spec::{Env, ExecutorDescription, Executors, FoundExecutor, NotFound, Uses};
use serde_json::{Map, Value};

use crate::builtin;
use crate::folder::{self, Located};
use crate::shell::Shell;

/// The executors of this machine.
pub(crate) struct LocalExecutors<'k> {
    pub(crate) shell: &'k Shell,
    /// The folder of the flow file.
    pub(crate) beside: &'k Path,
    /// Called with each file before it is read.
    pub(crate) note: &'k dyn Fn(&Path),
    /// Whether an executor may be missing here because it is elsewhere, such as in an image.
    pub(crate) may_be_elsewhere: bool,
}

impl Executors for LocalExecutors<'_> {
    fn find(&self, uses: &Uses, env: &Env) -> Result<FoundExecutor, NotFound> {
        let found = match uses {
            Uses::Image(_) => Ok(FoundExecutor::Program),
            Uses::Path(path) => self.find_at(path, &[Path::new(""), self.beside]),
            Uses::Named(name) => match folder_of(name, env, self.beside, self.shell) {
                Some(folder) => self.find_at(&folder, &[Path::new("")]),
                None => self.find_named(name, env),
            },
        };
        match found {
            Err(_) if self.may_be_elsewhere => Ok(FoundExecutor::Program),
            found => found,
        }
    }

    fn find_named(&self, name: &str, env: &Env) -> Result<FoundExecutor, NotFound> {
        if builtin::find(name).is_some() {
            Ok(FoundExecutor::BuiltIn(name.to_owned()))
        } else if is_on_path(name, env, self.shell) {
            Ok(FoundExecutor::Program)
        } else {
            Err(builtin::not_found(name, &folders(self.beside)))
        }
    }

    fn namesake(&self, name: &str) -> Option<String> {
        let has = folder::has_executor(&self.beside.join(name));
        has.then(|| format!("./{name}"))
    }

    fn check_options(&self, name: &str, options: &Map<String, Value>) -> Vec<BadOption> {
        let found = builtin::find(name);
        found.map_or_else(Vec::new, |builtin| (builtin.check_options)(options))
    }

    fn describe(&self, name: &str) -> Option<ExecutorDescription> {
        let builtin = builtin::find(name)?;
        Some(ExecutorDescription {
            endpoints: (builtin.endpoints)(),
            keeps_state: builtin.keeps_state,
        })
    }
}

impl LocalExecutors<'_> {
    fn find_at(&self, written: &Path, folders: &[&Path]) -> Result<FoundExecutor, NotFound> {
        let located = folder::locate(written, folders);
        match located.map_err(|error| not_found(format!("{error:#}"), None))? {
            Located::Package(_) | Located::Python(_) => Ok(FoundExecutor::Program),
            Located::Program(path) if !is_executable(&path) => {
                let path = path.display();
                let remedy = format!("make it executable with `chmod +x {path}`");
                Err(not_found(
                    format!("`{path}` is not a program"),
                    Some(remedy),
                ))
            }
            Located::Program(_) => Ok(FoundExecutor::Program),
            Located::Config { config, manifest } => {
                (self.note)(&config);
                let path = config.display().to_string();
                let read = fs::read_to_string(&config);
                let text = read
                    .map_err(|error| not_found(format!("cannot read `{path}`: {error}"), None))?;
                Ok(FoundExecutor::Config {
                    path,
                    text,
                    is_package: manifest.is_some(),
                })
            }
        }
    }
}

fn not_found(message: String, remedy: Option<String>) -> NotFound {
    NotFound { message, remedy }
}

/// The folder of an executor beside the flow file. `None` if the name means something else.
pub(crate) fn folder_of(name: &str, env: &Env, beside: &Path, shell: &Shell) -> Option<PathBuf> {
    let is_elsewhere = builtin::find(name).is_some() || is_on_path(name, env, shell);
    let folder = beside.join(name);
    (!is_elsewhere && folder::has_executor(&folder)).then_some(folder)
}

/// The names of folders with an executor.
fn folders(beside: &Path) -> Vec<String> {
    let folder = if beside == Path::new("") {
        Path::new(".")
    } else {
        beside
    };
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let entries = entries.flatten();
    let with_executor = entries.filter(|entry| folder::has_executor(&entry.path()));
    let mut names: Vec<String> = with_executor
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names
}

/// Whether the program is on the `PATH` of a process with these variables.
fn is_on_path(name: &str, env: &Env, shell: &Shell) -> bool {
    let own = env.reveal("PATH").map(str::to_owned);
    let path = own.or_else(|| shell.variable("PATH"));
    let path = path.unwrap_or_default();
    std::env::split_paths(&path).any(|folder| is_executable(&folder.join(name)))
}

fn is_executable(path: &Path) -> bool {
    let metadata = fs::metadata(path);
    metadata.is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests;
