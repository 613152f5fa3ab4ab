//! Build contexts for the Docker engine: tar archives of folders without the files that `.dockerignore` excludes.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use tar::{Builder, HeaderMode};

use super::ignore::Ignore;

/// The file that defines an image.
pub(super) const DOCKERFILE: &str = "Dockerfile";

const IGNORE: &str = ".dockerignore";

/// A file of the archive that is not in the folder.
pub(super) struct ExtraFile {
    pub(super) content: Content,
    /// Its path in the archive.
    pub(super) to: String,
}

/// The content of an extra file.
pub(super) enum Content {
    /// The content of this file.
    Of(PathBuf),
    /// This text.
    Text(String),
}

impl ExtraFile {
    /// A Dockerfile for a folder that has none.
    pub(super) fn dockerfile(text: String) -> Self {
        Self {
            content: Content::Text(text),
            to: DOCKERFILE.to_owned(),
        }
    }
}

/// The archive of a folder with extra files.
pub(super) fn of(folder: &Path, extra: &[ExtraFile]) -> anyhow::Result<Vec<u8>> {
    let ignore = fs::read_to_string(folder.join(IGNORE)).unwrap_or_default();
    let ignore = Ignore::parse(&ignore);
    let mut tar = Builder::new(Vec::new());
    // Owners and times of files do not change the image.
    tar.mode(HeaderMode::Deterministic);
    tar.follow_symlinks(false);
    // Docker does not support sparse files.
    tar.sparse(false);
    let mut names = Vec::new();
    let packed = add(&mut tar, folder, &mut names, &ignore)
        .and_then(|()| extra.iter().try_for_each(|it| add_extra(&mut tar, it)))
        .and_then(|()| tar.into_inner());
    packed.with_context(|| format!("cannot pack `{}`", folder.display()))
}

/// An archive with a Dockerfile only.
pub(super) fn of_dockerfile(text: &str) -> io::Result<Vec<u8>> {
    let mut tar = Builder::new(Vec::new());
    add_extra(&mut tar, &ExtraFile::dockerfile(text.to_owned()))?;
    tar.into_inner()
}

/// Adds the entries of the folder `names` below `root`, sorted by name.
fn add(
    tar: &mut Builder<Vec<u8>>,
    root: &Path,
    names: &mut Vec<String>,
    ignore: &Ignore,
) -> io::Result<()> {
    let folder: PathBuf = names
        .iter()
        .fold(root.to_owned(), |path, name| path.join(name));
    let entries = fs::read_dir(folder)?.collect::<io::Result<Vec<_>>>()?;
    let mut entries: Vec<(String, bool)> = entries
        .into_iter()
        .map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Ok((name, entry.file_type()?.is_dir()))
        })
        .collect::<io::Result<_>>()?;
    entries.sort();
    for (name, is_folder) in entries {
        names.push(name);
        add_one(tar, root, names, is_folder, ignore)?;
        names.pop();
    }
    Ok(())
}

fn add_one(
    tar: &mut Builder<Vec<u8>>,
    root: &Path,
    names: &mut Vec<String>,
    is_folder: bool,
    ignore: &Ignore,
) -> io::Result<()> {
    let parts: Vec<&str> = names.iter().map(String::as_str).collect();
    // The engine needs both files, even if they are excluded.
    let is_needed = matches!(parts[..], [DOCKERFILE | IGNORE]);
    if is_folder {
        return match ignore.excludes_folder(&parts) {
            true => Ok(()),
            false => add(tar, root, names, ignore),
        };
    }
    if ignore.excludes(&parts) && !is_needed {
        return Ok(());
    }
    let path = parts.join("/");
    tar.append_path_with_name(root.join(&path), &path)
}

fn add_extra(tar: &mut Builder<Vec<u8>>, extra: &ExtraFile) -> io::Result<()> {
    // It replaces an older file of the folder: the last entry of a path counts.
    match &extra.content {
        Content::Of(path) => tar.append_file(&extra.to, &mut fs::File::open(path)?),
        Content::Text(text) => {
            let mut header = tar::Header::new_gnu();
            header.set_size(text.len() as u64);
            header.set_mode(0o644);
            tar.append_data(&mut header, &extra.to, text.as_bytes())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(tar: &[u8]) -> Vec<String> {
        let mut archive = tar::Archive::new(tar);
        let entries = archive.entries().unwrap();
        let path = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            entry.unwrap().path().unwrap().display().to_string()
        };
        entries.map(path).collect()
    }

    #[test]
    fn an_archive_holds_what_is_not_left_out_and_what_is_extra() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("Dockerfile", "FROM x");
        write(".dockerignore", "*\n!src/*.py\n");
        write("src/a.py", "");
        write("src/a.pyc", "");
        write("target/release/deps/x", "");
        write("elsewhere", "program");
        let extra = ExtraFile {
            content: Content::Of(folder.path().join("elsewhere")),
            to: "target/release/mine".to_owned(),
        };
        let tar = of(folder.path(), &[extra]).unwrap();
        let expected = [
            ".dockerignore",
            "Dockerfile",
            "src/a.py",
            "target/release/mine",
        ];
        assert_eq!(names(&tar), expected);
        assert_eq!(names(&of_dockerfile("FROM x").unwrap()), ["Dockerfile"]);
    }
}
