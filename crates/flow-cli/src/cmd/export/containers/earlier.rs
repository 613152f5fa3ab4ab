//! Files of an earlier export that the current one does not write.
//!
//! `kubectl apply -R` takes all files of the folder, so a file of an executor that the flow no longer has would start it
//! again. The first line of each file says which flow file it was made from. Files of the same flow file are removed, and
//! those of the flow file whose gateway this export replaces: that may be the same one under an earlier name.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_launch::render::Rendered;

/// The file that every export has, so a folder with one is an export of its own.
const OF_EVERY_EXPORT: &str = "gateway/gateway.yml";

/// The first line of the files of the export by this command that is in the folder; `None` if there is none.
pub(super) fn marker(folder: &Path, command: &str) -> Option<String> {
    let marker = first_line(&folder.join(OF_EVERY_EXPORT))?;
    let by = format!("flow export {command}`");
    marker.contains(&by).then_some(marker)
}

/// Removes the files of earlier exports, and folders that are empty without them. Returns their paths. `replaced` is the
/// [`marker`] from before this export was written.
///
/// # Errors
///
/// If one of them cannot be removed.
pub(super) fn remove(
    folder: &Path,
    rendered: &Rendered,
    replaced: Option<&str>,
) -> anyhow::Result<Vec<PathBuf>> {
    let own = rendered.files.first().and_then(|it| it.text.lines().next());
    let markers: Vec<&str> = own.into_iter().chain(replaced).collect();
    let written: BTreeSet<PathBuf> = rendered
        .files
        .iter()
        .map(|file| folder.join(&file.path))
        .collect();
    let has_marker =
        |path: &Path| first_line(path).is_some_and(|it| markers.contains(&it.as_str()));
    let is_left = |path: &PathBuf| !written.contains(path) && has_marker(path);
    let left: Vec<PathBuf> = files(folder).into_iter().filter(is_left).collect();
    for path in &left {
        fs::remove_file(path).with_context(|| {
            format!(
                "cannot remove `{}`, which an earlier export wrote",
                path.display()
            )
        })?;
        if let Some(parent) = path.parent().filter(|it| *it != folder) {
            // It stays where it holds anything else.
            drop(fs::remove_dir(parent));
        }
    }
    Ok(left)
}

/// Files where an export puts them: in the folder, and in a folder of each executor.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for path in entries(folder) {
        if !path.is_dir() {
            files.push(path);
        } else if !path.join(OF_EVERY_EXPORT).exists() {
            files.extend(entries(&path).into_iter().filter(|it| !it.is_dir()));
        }
    }
    files
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

fn first_line(path: &Path) -> Option<String> {
    let mut line = String::new();
    let mut file = BufReader::new(fs::File::open(path).ok()?);
    file.read_line(&mut line).ok()?;
    Some(line.trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use flow_launch::render::RenderedFile;

    use super::*;

    const MARKER: &str = "# Made from a.yml by `flow export kubernetes`.";

    fn rendered(paths: &[&str]) -> Rendered {
        let file = |path: &&str| RenderedFile {
            path: path.into(),
            text: format!("{MARKER}\nkind: X\n"),
        };
        Rendered {
            files: paths.iter().map(file).collect(),
            remarks: Vec::new(),
        }
    }

    fn write(folder: &Path, path: &str, first_line: &str) {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{first_line}\nkind: X\n")).unwrap();
    }

    #[test]
    fn only_files_of_the_same_flow_file_are_removed() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        for path in [
            "gateway/gateway.yml",
            "old/old-0.yml",
            "mixed/old.yml",
            "cache.yml",
        ] {
            write(folder, path, MARKER);
        }
        let other = MARKER.replace("a.yml", "b.yml");
        write(folder, "other/other.yml", &other);
        write(folder, "mixed/own.yml", "# My own.");
        write(folder, "own.yml", "kind: Y");
        // An export of a file of the same name that was put below.
        write(folder, "below/gateway/gateway.yml", MARKER);
        write(folder, "below/cache.yml", MARKER);

        let removed = remove(folder, &rendered(&["gateway/gateway.yml"]), None).unwrap();
        let removed: Vec<_> = removed
            .iter()
            .map(|path| path.strip_prefix(folder).unwrap().display().to_string())
            .collect();
        assert_eq!(removed, ["cache.yml", "mixed/old.yml", "old/old-0.yml"]);
        assert!(!folder.join("old").exists(), "an empty folder goes too");
        for path in [
            "other/other.yml",
            "mixed/own.yml",
            "own.yml",
            "below/cache.yml",
        ] {
            assert!(folder.join(path).exists(), "{path}");
        }
        assert!(folder.join("below/gateway/gateway.yml").exists());
        let again = remove(folder, &rendered(&["gateway/gateway.yml"]), None).unwrap();
        assert_eq!(again, [""; 0].map(PathBuf::from));
    }
    #[test]
    fn an_export_of_the_renamed_flow_file_removes_the_files_of_the_earlier_name() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path();
        let earlier = MARKER.replace("a.yml", "b.yml");
        for path in ["gateway/gateway.yml", "encoder/encoder.yml"] {
            write(folder, path, &earlier);
        }
        assert_eq!(
            marker(folder, "kubernetes").as_deref(),
            Some(earlier.as_str())
        );
        let replaced = marker(folder, "kubernetes");
        write(folder, "gateway/gateway.yml", MARKER);

        let files = rendered(&["gateway/gateway.yml"]);
        let removed = remove(folder, &files, replaced.as_deref()).unwrap();
        assert_eq!(removed, [folder.join("encoder/encoder.yml")]);
    }

    #[test]
    fn a_gateway_file_that_no_export_wrote_is_not_a_marker() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(marker(root.path(), "kubernetes"), None);
        write(root.path(), "gateway/gateway.yml", "# My own.");
        assert_eq!(marker(root.path(), "kubernetes"), None);
    }
}
