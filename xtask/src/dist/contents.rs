//! The files of a release, before they are packed.

use std::fs;
use std::path::Path;

use anyhow::{Context, ensure};

use super::archive::{File, Files};
use super::commit::Commit;
use super::target::Target;
use super::{dependencies, licences, program, sbom};
use crate::repository::root;

/// The file with the licence of flow.
pub(super) const LICENCE: &str = "LICENSE";

/// The file with the licences of the crates in a program.
pub(super) const THIRD_PARTY: &str = "THIRD-PARTY-LICENSES.txt";

/// The version of the workspace.
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The parts of a release for one target.
#[derive(Debug)]
pub(super) struct Contents {
    pub(super) program: Vec<u8>,
    /// Manual pages by their names.
    pub(super) pages: Vec<(String, Vec<u8>)>,
    /// For bash, zsh and fish.
    pub(super) completions: [String; 3],
    /// The example flow files by their names.
    pub(super) flows: Vec<(String, Vec<u8>)>,
    pub(super) readme: Vec<u8>,
    pub(super) changelog: Vec<u8>,
    pub(super) licence: Vec<u8>,
    /// The licences of the crates in the program.
    pub(super) third_party: String,
    /// The bill of materials as JSON.
    pub(super) sbom: String,
}

impl Contents {
    /// Collects the parts. The program writes its own pages and completions.
    pub(super) fn collect(path: &Path, target: &Target, commit: &Commit) -> anyhow::Result<Self> {
        check_target(path, target)?;
        let file = |name: &str| {
            fs::read(root().join(name)).with_context(|| format!("cannot read `{name}`"))
        };
        let complete = |shell: &str| program::ask(path, &["completions", shell]);
        let crates = dependencies::read(target, &[dependencies::PROGRAM])?;
        let sbom = sbom::document(&crates, target, commit);
        Ok(Self {
            program: fs::read(path).with_context(|| format!("cannot read `{}`", path.display()))?,
            pages: pages(path)?,
            completions: [complete("bash")?, complete("zsh")?, complete("fish")?],
            flows: read_folder(&root().join("flows"), "yml")?,
            readme: file("README.md")?,
            changelog: file("CHANGELOG.md")?,
            licence: file(LICENCE)?,
            third_party: licences::document(&crates)?,
            sbom: format!("{sbom:#}\n"),
        })
    }

    /// The files of the archive for all distributions, in one folder of this name.
    pub(super) fn files(&self, folder: &str) -> Files {
        let [bash, zsh, fish] = &self.completions;
        let named: [(&str, &[u8]); 8] = [
            ("README.md", &self.readme),
            ("CHANGELOG.md", &self.changelog),
            (LICENCE, &self.licence),
            (THIRD_PARTY, self.third_party.as_bytes()),
            ("flow.cdx.json", self.sbom.as_bytes()),
            ("completions/flow.bash", bash.as_bytes()),
            ("completions/_flow", zsh.as_bytes()),
            ("completions/flow.fish", fish.as_bytes()),
        ];
        let within = |name: &str| format!("{folder}/{name}");
        let mut files: Files = named
            .map(|(name, bytes)| (within(name), File::data(bytes)))
            .into();
        files.insert(within("flow"), File::program(self.program.clone()));
        for (folder, parts) in [("man/man1", &self.pages), ("flows", &self.flows)] {
            let files_of = parts.iter().map(|(name, bytes)| {
                (
                    within(&format!("{folder}/{name}")),
                    File::data(bytes.as_slice()),
                )
            });
            files.extend(files_of);
        }
        files
    }
}

/// Fails if the program was compiled for another target.
fn check_target(path: &Path, target: &Target) -> anyhow::Result<()> {
    let version = program::ask(path, &["--version"])?;
    let line = format!("target: {}", target.name());
    ensure!(
        version.lines().any(|it| it == line),
        "`{}` is not a program for {}:\n{version}",
        path.display(),
        target.name()
    );
    Ok(())
}

fn pages(path: &Path) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let folder = tempfile::tempdir()?;
    let name = folder
        .path()
        .to_str()
        .context("the folder for temporary files is not Unicode")?;
    program::ask(path, &["man", name])?;
    read_folder(folder.path(), "1")
}

/// The files of a folder whose names end like this, in the order of their names.
fn read_folder(folder: &Path, extension: &str) -> anyhow::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.extension().is_some_and(|it| it == extension) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.push((name.into_owned(), fs::read(&path)?));
        }
    }
    files.sort();
    Ok(files)
}
