//! What lies where an executor's path points: a program, or a folder or `config.yml` that names one.
//!
//! ```text
//! a program                       is run as it is
//! config.yml with `py_modules`    is run by the user's own Jina            python.rs
//! config.yml of a built-in        is run by this program
//! … beside a Cargo.toml           is built, and then run                   package.rs
//! any other config.yml            names a program on PATH
//! ```

pub(crate) mod package;
pub(crate) mod python;

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_spec::{ExecutorConfig, TextFile, Uses, Variables};

use crate::builtin;
use crate::shell::Shell;

/// The file that a folder of an executor is known by.
const CONFIG: &str = "config.yml";

/// The file that a package of Rust is known by.
const MANIFEST: &str = "Cargo.toml";

/// What a path is.
#[derive(Debug)]
pub(crate) enum Found {
    /// A program.
    Program(PathBuf),
    /// A config of an executor that is built in, or a program on `PATH`.
    Named(ExecutorConfig),
    /// A package of Rust; its config is empty where it has none.
    Package {
        manifest: PathBuf,
        config: ExecutorConfig,
    },
    /// A config of an executor in Python.
    Python(PathBuf),
}

/// What lies at a path, before anything of it is read.
#[derive(Debug)]
pub(crate) enum Located {
    /// A program.
    Program(PathBuf),
    /// A `config.yml`, which may lie in a package of Rust.
    Config {
        config: PathBuf,
        manifest: Option<PathBuf>,
    },
    /// A package of Rust without a config.
    Package(PathBuf),
}

/// Looks for `written` in each of these folders until it is there; `note` is told of a config before it is
/// read.
///
/// # Errors
///
/// If it is nowhere, or its config is wrong.
pub(crate) fn look(
    written: &Path,
    places: &[&Path],
    shell: &Shell,
    note: &dyn Fn(&Path),
) -> anyhow::Result<Found> {
    let (config, manifest) = match locate(written, places)? {
        Located::Program(path) => return Ok(Found::Program(path)),
        Located::Package(manifest) => {
            let config = ExecutorConfig::default();
            return Ok(Found::Package { manifest, config });
        }
        Located::Config { config, manifest } => (config, manifest),
    };
    note(&config);
    let read = load(&config, shell)?;
    Ok(match manifest {
        _ if read.is_python => Found::Python(config),
        Some(manifest) if builtin::find(&name(&read)).is_none() => Found::Package {
            manifest,
            config: read,
        },
        _ => Found::Named(read),
    })
}

/// Finds what lies at `written`, in the first of these folders that has it.
///
/// # Errors
///
/// If it is nowhere, or a folder without an executor.
pub(crate) fn locate(written: &Path, places: &[&Path]) -> anyhow::Result<Located> {
    let path = find(written, places)?;
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
            "folder `{}` holds no `{CONFIG}` and no `{MANIFEST}`",
            path.display()
        ),
    }
}

/// Whether a folder holds an executor.
pub(crate) fn holds_executor(folder: &Path) -> bool {
    folder.join(CONFIG).is_file() || folder.join(MANIFEST).is_file()
}

/// The first place that has it; a folder without any executor is taken only if nothing better follows.
fn find(written: &Path, places: &[&Path]) -> anyhow::Result<PathBuf> {
    // In a folder, `./x` is `x`. Without one it must stay a path: a bare name is looked for on `PATH`.
    let bare = written.strip_prefix(".").unwrap_or(written);
    let in_place = |place: &&Path| match place.as_os_str().is_empty() {
        true => written.to_owned(),
        false => place.join(bare),
    };
    let there: Vec<PathBuf> = places
        .iter()
        .map(in_place)
        .filter(|path| path.exists())
        .collect();
    let holds = |path: &&PathBuf| !path.is_dir() || holds_executor(path);
    let best = there.iter().find(holds).or(there.first());
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

/// The name of a config's program: `SentenceEncoder` is `sentence-encoder`.
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
    use crate::log::Log;

    fn shell() -> Shell {
        Shell {
            variables: [].into_iter().collect(),
            log: Log {
                format: flow_executor::Log::Text,
                filter: String::new(),
                to: flow_executor::LogTo::Stderr,
            },
            wants_colour: false,
        }
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

    /// What was found, with paths as they are in the root.
    fn found(written: &str, root: &Path, places: &[&str]) -> String {
        let places: Vec<PathBuf> = places.iter().map(|place| root.join(place)).collect();
        let places: Vec<&Path> = places.iter().map(PathBuf::as_path).collect();
        let text = match look(Path::new(written), &places, &shell(), &|_| {}) {
            Ok(Found::Program(path)) => format!("program {}", path.display()),
            Ok(Found::Named(config)) => format!("named {}", config.jtype),
            Ok(Found::Package { manifest, config }) => {
                format!("package {} for {:?}", manifest.display(), config.jtype)
            }
            Ok(Found::Python(config)) => format!("python {}", config.display()),
            Err(error) => error.to_string(),
        };
        text.replace(&format!("{}/", root.display()), "")
    }

    #[test]
    fn a_folder_is_what_its_files_say() {
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
                "folder `{}` holds no `config.yml` and no `Cargo.toml`",
                "empty"
            ),
        );
        check("nothing", "there is no `nothing`");
    }

    #[test]
    fn the_first_place_that_holds_an_executor_counts() {
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
