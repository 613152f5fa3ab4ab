//! `cargo xtask dist`: the files of a release for one target.
//!
//! This file decides the order and the names. `program.rs` builds, `contents.rs` collects, `archive.rs` and `deb.rs` pack;
//! `sbom.rs` and `licences.rs` describe the crates that `dependencies.rs` finds; `install.rs` tries the package out.

mod archive;
mod commit;
mod contents;
mod deb;
mod dependencies;
mod install;
mod libraries;
mod licences;
mod program;
mod sbom;
mod target;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use self::commit::Commit;
use self::contents::{Contents, LICENCE, THIRD_PARTY, VERSION};
use self::program::Folders;
use self::target::Target;
use crate::repository::root;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Target triple, such as aarch64-unknown-linux-musl; by default that of this machine.
    #[arg(long)]
    target: Option<String>,

    /// Folder for the files; it may contain files of other targets.
    #[arg(long, default_value = "target/dist")]
    out: PathBuf,

    /// Pack this program instead of building one.
    #[arg(long)]
    program: Option<PathBuf>,

    /// Build the program twice, and fail if the two differ.
    #[arg(long, conflicts_with = "program")]
    verify: bool,

    /// Install the package in a clean Debian, and embed a text with it. Needs root and debootstrap.
    #[arg(long)]
    check_install: bool,
}

/// The list of checksums.
const SUMS: &str = "SHA256SUMS";

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let commit = match (Commit::read(), &args.program) {
        // A program that is only packed may come from elsewhere.
        (Err(error), Some(_)) => {
            eprintln!("the commit is not known: {error:#}");
            Commit::unknown()
        }
        (commit, _) => commit?,
    };
    let target = match &args.target {
        Some(name) => Target::named(name),
        None => Target::of_host()?,
    };
    if args.check_install && target.debian().is_none() {
        bail!("there is no Debian package for {}", target.name());
    }
    let program = match &args.program {
        Some(program) => program.clone(),
        None => build(&target, &commit, args.verify)?,
    };
    let contents = Contents::collect(&program, &target, &commit)?;
    fs::create_dir_all(&args.out)
        .with_context(|| format!("cannot create `{}`", args.out.display()))?;
    write_archive(&contents, &target, &commit, &args.out)?;
    let package = write_package(&contents, &program, &target, &commit, &args.out)?;
    write(&args.out.join(SUMS), sums(&args.out)?.as_bytes())?;
    let checked = package.zip(target.debian()).filter(|_| args.check_install);
    if let Some((package, architecture)) = checked {
        eprint!("{}", install::check(&package, architecture)?);
    }
    Ok(())
}

/// Writes the licence of flow, and those of the crates in the program and in another package of the workspace, into a folder.
pub(crate) fn write_licences(package: &str, folder: &Path) -> anyhow::Result<()> {
    let crates = dependencies::read(&Target::of_host()?, &[dependencies::PROGRAM, package])?;
    fs::copy(root().join(LICENCE), folder.join(LICENCE))
        .with_context(|| format!("cannot copy `{LICENCE}` to `{}`", folder.display()))?;
    write(
        &folder.join(THIRD_PARTY),
        licences::document(&crates)?.as_bytes(),
    )
}

/// Whether [`write_licences`] has written into a folder.
pub(crate) fn has_licences(folder: &Path) -> bool {
    [LICENCE, THIRD_PARTY]
        .iter()
        .all(|name| folder.join(name).is_file())
}

fn build(target: &Target, commit: &Commit, verify: bool) -> anyhow::Result<PathBuf> {
    let built = program::build(target, commit, &Folders::first())?;
    program::names_no_folder(&fs::read(&built)?, &program::folders()?)?;
    if verify {
        program::verify(&built, target, commit)?;
    }
    Ok(built)
}

/// The archive for all distributions, and the bill of materials.
fn write_archive(
    contents: &Contents,
    target: &Target,
    commit: &Commit,
    out: &Path,
) -> anyhow::Result<()> {
    let name = format!("flow-{VERSION}-{}", target.name());
    let archive = archive::tar_gz(&contents.files(&name), "", commit.time)?;
    write(&out.join(format!("{name}.tar.gz")), &archive)?;
    write(
        &out.join(format!("{name}.cdx.json")),
        contents.sbom.as_bytes(),
    )
}

/// The Debian package, for targets that have one.
fn write_package(
    contents: &Contents,
    program: &Path,
    target: &Target,
    commit: &Commit,
    out: &Path,
) -> anyhow::Result<Option<PathBuf>> {
    let Some(architecture) = target.debian() else {
        return Ok(None);
    };
    let package = deb::Package {
        contents,
        architecture,
        depends: &libraries::packages(program)?,
        time: commit.time,
    };
    let path = out.join(package.file_name());
    write(&path, &package.write()?)?;
    Ok(Some(path))
}

fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write `{}`", path.display()))?;
    eprintln!("{} ({} bytes)", path.display(), bytes.len());
    Ok(())
}

/// The checksums of all files of a folder, as `sha256sum --check` reads them.
fn sums(folder: &Path) -> anyhow::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name == SUMS || !entry.file_type()?.is_file() {
            continue;
        }
        ensure!(!name.contains('\n'), "`{name}` has a line end in its name");
        let sum = Sha256::digest(fs::read(entry.path())?);
        lines.push((name, format!("{sum:x}")));
    }
    lines.sort();
    Ok(lines
        .iter()
        .map(|(name, sum)| format!("{sum}  {name}\n"))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_cover_the_files_in_the_order_of_their_names() {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("b", "hello\n"), ("a", ""), (SUMS, "old")] {
            fs::write(folder.path().join(name), text).unwrap();
        }
        let expected = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  a\n\
                        5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03  b\n";
        assert_eq!(sums(folder.path()).unwrap(), expected);
    }
}
