//! Finds the executor at a path: a program, or a folder or `config.yml`.
//!
//! ```text
//! a program                       is run directly
//! config.yml with `py_modules`    is run in Python                 python.rs
//! executor.py, module:Class       is run in Python                 python.rs
//! config.yml of a built-in        is run by this program
//! … beside a Cargo.toml           is built and run                 package.rs
//! any other config.yml            names a program on PATH
//! ```

pub(crate) mod builder;
pub(crate) mod package;
pub(crate) mod python;

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_spec::{ExecutorConfig, PythonSource, TextFile, Uses, Variables};

use crate::builtin;
use crate::shell::Shell;

/// The file by which the folder of an executor is recognized.
const CONFIG: &str = "config.yml";

/// The file by which a Rust package is recognized.
const MANIFEST: &str = "Cargo.toml";

/// The executor at a path.
#[derive(Debug)]
pub(crate) enum ExecutorFolder {
    /// A program.
    Program(PathBuf),
    /// A config of a built-in executor, or of a program on `PATH`.
    Named(ExecutorConfig),
    /// A Rust package. Its config is empty if it has none.
    Package {
        manifest: PathBuf,
        config: ExecutorConfig,
    },
    /// A config, a file or a module of a Python executor.
    Python(PathBuf),
}

/// The kind of executor at a path, before its config is read.
#[derive(Debug)]
pub(crate) enum Located {
    /// A program.
    Program(PathBuf),
    /// A `config.yml`, perhaps in a Rust package.
    Config {
        config: PathBuf,
        manifest: Option<PathBuf>,
    },
    /// A Rust package without a config.
    Package(PathBuf),
    /// A file or a module of Python.
    Python(PathBuf),
}

/// Finds the executor at `written` in the first of these folders that has it. Calls `note` with a config before reading it.
///
/// # Errors
///
/// If it does not exist, or its config is invalid.
pub(crate) fn look(
    written: &Path,
    folders: &[&Path],
    shell: &Shell,
    note: &dyn Fn(&Path),
) -> anyhow::Result<ExecutorFolder> {
    let (config, manifest) = match locate(written, folders)? {
        Located::Program(path) => return Ok(ExecutorFolder::Program(path)),
        Located::Python(path) => return Ok(ExecutorFolder::Python(path)),
        Located::Package(manifest) => {
            let config = ExecutorConfig::default();
            return Ok(ExecutorFolder::Package { manifest, config });
        }
        Located::Config { config, manifest } => (config, manifest),
    };
    note(&config);
    let read = load(&config, shell)?;
    Ok(match manifest {
        _ if read.is_python => ExecutorFolder::Python(config),
        Some(manifest) if builtin::find(&name(&read)).is_none() => ExecutorFolder::Package {
            manifest,
            config: read,
        },
        _ => ExecutorFolder::Named(read),
    })
}

/// Finds the kind of executor at `written`, in the first of these folders that has it.
///
/// # Errors
///
/// If it does not exist, or is a folder without an executor.
pub(crate) fn locate(written: &Path, folders: &[&Path]) -> anyhow::Result<Located> {
    if let Some(located) = locate_python(written, folders)? {
        return Ok(located);
    }
    let path = find(written, folders)?;
    let (folder, config) = if path.is_dir() {
        (path.as_path(), path.join(CONFIG))
    } else if is_config(&path) {
        (path.parent().unwrap_or(Path::new("")), path.clone())
    } else {
        return Ok(Located::Program(path));
    };
    let manifest = Some(folder.join(MANIFEST)).filter(|it| it.is_file());
    match (config.is_file(), manifest) {
        (true, manifest) => Ok(Located::Config { config, manifest }),
        (false, Some(manifest)) => Ok(Located::Package(manifest)),
        (false, None) => anyhow::bail!(
            "folder `{}` has neither `{CONFIG}` nor `{MANIFEST}`",
            path.display()
        ),
    }
}

/// A file of Python in the first of these folders that has it, or a module, which only the interpreter can find.
fn locate_python(written: &Path, folders: &[&Path]) -> anyhow::Result<Option<Located>> {
    Ok(match PythonSource::of(written) {
        Some(PythonSource::File { file, class }) => {
            let file = find(&file, folders)?;
            Some(Located::Python(PythonSource::in_file(
                &file,
                class.as_deref(),
            )))
        }
        Some(PythonSource::Module) if !written.exists() => {
            Some(Located::Python(written.to_owned()))
        }
        Some(PythonSource::Module) | None => None,
    })
}

/// Whether a folder has an executor.
pub(crate) fn has_executor(folder: &Path) -> bool {
    folder.join(CONFIG).is_file() || folder.join(MANIFEST).is_file()
}

/// The first folder that has it. A folder without an executor is the last choice.
fn find(written: &Path, folders: &[&Path]) -> anyhow::Result<PathBuf> {
    // In a folder, `./x` is `x`. Without one it stays a path, because a bare name is searched on `PATH`.
    let bare = written.strip_prefix(".").unwrap_or(written);
    let in_folder = |folder: &&Path| match folder.as_os_str().is_empty() {
        true => written.to_owned(),
        false => folder.join(bare),
    };
    let existing: Vec<PathBuf> = folders
        .iter()
        .map(in_folder)
        .filter(|path| path.exists())
        .collect();
    let has = |path: &&PathBuf| !path.is_dir() || has_executor(path);
    let best = existing.iter().find(has).or(existing.first());
    best.cloned()
        .with_context(|| format!("there is no `{}`", written.display()))
}

fn is_config(path: &Path) -> bool {
    let end = path.extension();
    end.is_some_and(|it| it == "yml" || it == "yaml")
}

/// Reads a `config.yml`.
pub(crate) fn load(path: &Path, shell: &Shell) -> anyhow::Result<ExecutorConfig> {
    let text = std::fs::read_to_string(path)
        .with_context(|| format!("cannot read `{}`", path.display()))?;
    let variables = Variables {
        env: shell.variables.clone().into_iter().collect(),
        ..Variables::default()
    };
    let (config, _warnings) = ExecutorConfig::load(TextFile { path, text: &text }, &variables)?;
    Ok(config)
}

/// The name of the program of a config: `sentence-encoder` for `SentenceEncoder`.
pub(crate) fn name(config: &ExecutorConfig) -> String {
    match config.uses() {
        Uses::Named(name) => name,
        Uses::Path(path) => path.to_string_lossy().into_owned(),
        Uses::Image(image) => image,
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn shell() -> Shell {
        Shell::of([].into())
    }

    /// Folders with these files.
    fn files(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = root.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    /// The result of a search, with paths relative to the root.
    fn found(written: &str, root: &Path, folders: &[&str]) -> String {
        let folders: Vec<PathBuf> = folders.iter().map(|folder| root.join(folder)).collect();
        let folders: Vec<&Path> = folders.iter().map(PathBuf::as_path).collect();
        let text = match look(Path::new(written), &folders, &shell(), &|_| {}) {
            Ok(ExecutorFolder::Program(path)) => format!("program {}", path.display()),
            Ok(ExecutorFolder::Named(config)) => format!("named {}", config.jtype),
            Ok(ExecutorFolder::Package { manifest, config }) => {
                format!("package {} for {:?}", manifest.display(), config.jtype)
            }
            Ok(ExecutorFolder::Python(config)) => format!("python {}", config.display()),
            Err(error) => error.to_string(),
        };
        text.replace(&format!("{}/", root.display()), "")
    }

    #[test]
    fn the_executor_of_a_folder_depends_on_its_files() {
        let root = files(&[
            ("program", ""),
            ("named/config.yml", "jtype: Mine"),
            ("python/config.yml", "jtype: Mine\npy_modules: [a.py]"),
            ("package/config.yml", "jtype: Mine"),
            ("package/Cargo.toml", ""),
            ("bare/Cargo.toml", ""),
            ("built-in/config.yml", "jtype: Echo"),
            ("built-in/Cargo.toml", ""),
            ("empty/README.md", ""),
        ]);
        let check = |written: &str, expected: &str| {
            assert_eq!(found(written, root.path(), &[""]), expected);
        };
        check("program", "program program");
        check("named", "named Mine");
        check("named/config.yml", "named Mine");
        check("python", "python python/config.yml");
        check(
            "package/config.yml",
            "package package/Cargo.toml for \"Mine\"",
        );
        check("bare", "package bare/Cargo.toml for \"\"");
        check("built-in", "named Echo");
        check(
            "empty",
            &format!(
                "folder `{}` has neither `config.yml` nor `Cargo.toml`",
                "empty"
            ),
        );
        check("nothing", "there is no `nothing`");
    }

    #[test]
    fn the_first_folder_with_an_executor_counts() {
        let root = files(&[
            ("here/both/config.yml", "jtype: Here"),
            ("here/empty/README.md", ""),
            ("beside/both/config.yml", "jtype: Beside"),
            ("beside/empty/config.yml", "jtype: Beside"),
            ("beside/only/config.yml", "jtype: Beside"),
        ]);
        let check = |written: &str, expected: &str| {
            assert_eq!(found(written, root.path(), &["here", "beside"]), expected);
        };
        check("both", "named Here");
        check("empty", "named Beside");
        check("only", "named Beside");
    }
}
