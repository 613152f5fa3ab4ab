//! Builds the program of a release so that two builds of one commit are equal.
//!
//! Neither the folders of the machine nor the time of the build get into the program. `--verify` builds it again, from a copy of the
//! sources in another folder, and compares.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use super::commit::Commit;
use super::target::Target;
use crate::{repository, shell};

/// Cargo's profile of releases.
const PROFILE: &str = "dist";

/// A folder of this machine, and the name that it has in the program.
type Renamed = (PathBuf, &'static str);

/// Where a program is built.
pub(super) struct Folders {
    /// The sources.
    pub(super) sources: PathBuf,
    /// What cargo makes.
    pub(super) target: PathBuf,
}

impl Folders {
    /// Those of the program that is packed.
    pub(super) fn first() -> Self {
        Self {
            sources: repository::root().to_owned(),
            target: repository::target("dist-build"),
        }
    }
}

/// Builds the program, and returns its path.
pub(super) fn build(
    target: &Target,
    commit: &Commit,
    folders: &Folders,
) -> anyhow::Result<PathBuf> {
    target.check()?;
    let renamed = renamed(folders)?;
    let mut cargo = shell::cargo();
    cargo.current_dir(&folders.sources).args([
        "build",
        "--locked",
        "--package",
        "flow-cli",
        "--bin",
        "flow",
    ]);
    cargo.args(["--profile", PROFILE, "--target", target.name()]);
    cargo.arg("--target-dir").arg(&folders.target);
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust_flags(&renamed));
    cargo.env("CFLAGS", c_flags(&renamed));
    cargo.env("FLOW_COMMIT", &commit.name);
    cargo.env("SOURCE_DATE_EPOCH", commit.time.to_string());
    shell::run(&mut cargo)?;
    let folder = folders.target.join(target.name()).join(PROFILE);
    Ok(folder.join("flow"))
}

/// Builds the program a second time, from a copy of the sources, and fails if it differs from `first`.
pub(super) fn verify(first: &Path, target: &Target, commit: &Commit) -> anyhow::Result<()> {
    let folder = repository::target("dist-verify");
    let folders = Folders {
        sources: folder.join("copied-sources"),
        target: folder.join("built"),
    };
    copy_sources(&folders.sources)?;
    let second = build(target, commit, &folders)?;
    let read =
        |path: &Path| fs::read(path).with_context(|| format!("cannot read `{}`", path.display()));
    let (one, two) = (read(first)?, read(&second)?);
    let difference = first_difference(&one, &two);
    ensure!(
        difference.is_none(),
        "two builds of commit {} differ from byte {} on: compare `{}` and `{}`",
        commit.name,
        difference.unwrap_or_default(),
        first.display(),
        second.display()
    );
    eprintln!("two builds of commit {} are equal", commit.name);
    fs::remove_dir_all(&folder).with_context(|| format!("cannot delete `{}`", folder.display()))
}

/// The compiled kernels for GPUs, which are no part of the repository.
const KERNELS: &str = "target/cuda/embed";

/// Copies the files of the repository, and the compiled kernels.
fn copy_sources(into: &Path) -> anyhow::Result<()> {
    let mut git = Command::new("git");
    git.args(["ls-files", "-z"]).current_dir(repository::root());
    let files = shell::output(&mut git).context("cannot list the files of the repository")?;
    let mut files: Vec<PathBuf> = files
        .split('\0')
        .filter(|it| !it.is_empty())
        .map(PathBuf::from)
        .collect();
    if let Ok(kernels) = fs::read_dir(repository::root().join(KERNELS)) {
        for kernel in kernels {
            files.push(Path::new(KERNELS).join(kernel?.file_name()));
        }
    }
    if into.exists() {
        fs::remove_dir_all(into).with_context(|| format!("cannot delete `{}`", into.display()))?;
    }
    for file in files {
        let (from, to) = (repository::root().join(&file), into.join(&file));
        let parent = to.parent().unwrap_or(into);
        let copied = fs::create_dir_all(parent).and_then(|()| fs::copy(&from, &to));
        copied
            .with_context(|| format!("cannot copy `{}` to `{}`", from.display(), to.display()))?;
    }
    Ok(())
}

/// Fails if a folder of this machine is named in the program.
pub(super) fn names_no_folder(program: &[u8], folders: &[PathBuf]) -> anyhow::Result<()> {
    for folder in folders {
        let name = folder.as_os_str().as_encoded_bytes();
        let found = program.windows(name.len()).any(|it| it == name);
        ensure!(
            !found,
            "the program names the folder `{}` of this machine",
            folder.display()
        );
    }
    Ok(())
}

/// The folders of this machine that a build without [`rust_flags`] would name.
pub(super) fn folders() -> anyhow::Result<Vec<PathBuf>> {
    let renamed = renamed(&Folders::first())?;
    Ok(renamed.into_iter().map(|(folder, _)| folder).collect())
}

/// The position of the first byte in which two programs differ.
fn first_difference(one: &[u8], two: &[u8]) -> Option<usize> {
    let different = one.iter().zip(two).position(|(a, b)| a != b);
    different.or_else(|| (one.len() != two.len()).then(|| one.len().min(two.len())))
}

/// The folders that compilers would write into the program. The last that fits counts, so the inner ones come last.
fn renamed(at: &Folders) -> anyhow::Result<Vec<Renamed>> {
    let mut folders = vec![
        (at.sources.clone(), "/flow"),
        (at.target.clone(), "/target"),
        (cargo_home()?, "/cargo"),
    ];
    // One folder for each registry, named after its host.
    let sources = cargo_home()?.join("registry/src");
    let registries =
        fs::read_dir(&sources).with_context(|| format!("cannot read `{}`", sources.display()))?;
    for registry in registries {
        folders.push((registry?.path(), "/cargo/registry"));
    }
    Ok(folders)
}

fn cargo_home() -> anyhow::Result<PathBuf> {
    let given = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo"));
    given
        .or_else(home)
        .context("neither CARGO_HOME nor HOME is set")
}

/// rustc's flags, separated as in `CARGO_ENCODED_RUSTFLAGS`.
fn rust_flags(renamed: &[Renamed]) -> OsString {
    let flags = renamed
        .iter()
        .map(|(from, to)| flag("--remap-path-prefix", from, to));
    flags.collect::<Vec<_>>().join("\x1f".as_ref())
}

/// The C compiler's flags, after those of the user.
fn c_flags(renamed: &[Renamed]) -> OsString {
    let flags = renamed
        .iter()
        .map(|(from, to)| flag("-ffile-prefix-map", from, to));
    let given = std::env::var_os("CFLAGS");
    let flags = given.into_iter().chain(flags);
    flags.collect::<Vec<_>>().join(" ".as_ref())
}

fn flag(name: &str, from: &Path, to: &str) -> OsString {
    let mut flag = OsString::from(name);
    for part in ["=".as_ref(), from.as_os_str(), "=".as_ref(), to.as_ref()] {
        flag.push(part);
    }
    flag
}

/// What a program says when it runs with these arguments.
pub(super) fn ask(program: &Path, arguments: &[&str]) -> anyhow::Result<String> {
    shell::output(Command::new(program).args(arguments)).with_context(|| {
        format!(
            "`{}` writes its own pages and completions, so this machine has to be able to run it",
            program.display()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn compilers_are_asked_to_rename_folders() {
        let folders = [
            (PathBuf::from("/home/me/src"), "/flow"),
            (PathBuf::from("/t"), "/target"),
        ];
        assert_eq!(
            rust_flags(&folders),
            "--remap-path-prefix=/home/me/src=/flow\x1f--remap-path-prefix=/t=/target"
        );
        let flags = c_flags(&folders).into_string().unwrap();
        assert!(
            flags.ends_with("-ffile-prefix-map=/home/me/src=/flow -ffile-prefix-map=/t=/target"),
            "{flags}"
        );
    }

    #[test]
    fn the_first_difference_is_found_also_at_the_end() {
        let check = |one: &str, two: &str, expected: Option<usize>| {
            assert_eq!(first_difference(one.as_bytes(), two.as_bytes()), expected);
        };
        check("flow", "flow", None);
        check("flow", "flaw", Some(2));
        check("flow", "flows", Some(4));
        check("", "f", Some(0));
    }

    #[test]
    fn a_program_that_names_a_folder_is_refused() {
        let folders = [PathBuf::from("/home/me")];
        names_no_folder(b"\0/flow/src/main.rs\0", &folders).unwrap();
        let error = names_no_folder(b"\0/home/me/src/main.rs\0", &folders).unwrap_err();
        assert!(error.to_string().contains("`/home/me`"), "{error}");
    }
}
