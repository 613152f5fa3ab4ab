//! Where flow keeps what belongs to running flows, their folders and the list of them, and what can be made again.

use std::io;
use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_launch::registry::{self, Entry};

use crate::exit::BadUsage;
use crate::shell::Shell;

/// The folder of flow in the user's state, as the XDG base directories have it; none: he has no home.
fn state(shell: &Shell) -> Option<PathBuf> {
    let given = shell.variable("XDG_STATE_HOME").map(PathBuf::from);
    // A relative one is to be ignored, says the specification.
    let given = given.filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(shell.variable("HOME")?).join(".local/state"));
    given.or_else(home).map(|state| state.join("flow"))
}

/// The folder of flow in the user's cache; none: the user has no home. `FLOW_CACHE` names another.
pub(crate) fn cache(shell: &Shell) -> Option<PathBuf> {
    let path = |name: &str| shell.variable(name).map(PathBuf::from);
    let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
    let home = || Some(path("HOME")?.join(".cache"));
    let of_user = || absolute("XDG_CACHE_HOME").or_else(home);
    absolute("FLOW_CACHE").or_else(|| Some(of_user()?.join("flow")))
}

/// Where running flows put themselves down.
pub(crate) fn registry(shell: &Shell) -> Option<PathBuf> {
    state(shell).map(|state| state.join("running"))
}

/// The absolute path of a folder that a flow file names. A relative path begins at the folder of the file,
/// wherever the command is typed; `~` is the user's home.
pub(crate) fn named_in(file: &Path, written: &Path, shell: &Shell) -> anyhow::Result<PathBuf> {
    let path = match written.strip_prefix("~") {
        Ok(rest) => {
            let home = shell.variable("HOME");
            let home = home.with_context(|| {
                let written = written.display();
                format!("`~` in `{written}` means nothing: HOME is not set")
            })?;
            Path::new(&home).join(rest)
        }
        Err(_) => file.parent().unwrap_or(Path::new("")).join(written),
    };
    Ok(std::path::absolute(path)?)
}

/// The state folder of a flow: `.flow` in the workspace that its file names, or else in the user's state,
/// under the file's name and a hash of its path.
pub(crate) fn folder(file: &Path, workspace: Option<&Path>, shell: &Shell) -> Option<PathBuf> {
    if let Some(workspace) = workspace {
        let workspace = named_in(file, workspace, shell).ok()?;
        return Some(workspace.join(".flow"));
    }
    let file = full(file).ok()?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let hash = hash(file.as_os_str().as_encoded_bytes());
    state(shell).map(|state| state.join(format!("{stem}-{hash:016x}")))
}

/// A file's path from the root, without links.
pub(crate) fn full(file: &Path) -> io::Result<PathBuf> {
    file.canonicalize()
}

/// FNV-1a: names of folders must be the same for every version of this program.
pub(crate) fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// The running flows, or only those of one file.
pub(crate) fn running(file: Option<&Path>, shell: &Shell) -> anyhow::Result<Vec<Entry>> {
    let wanted = file.map(|file| {
        full(file).with_context(|| BadUsage(format!("cannot find flow file `{}`", file.display())))
    });
    let wanted = wanted.transpose()?;
    let all = registry(shell).map(|folder| registry::running(&folder));
    let mut all = all.unwrap_or_default();
    all.retain(|entry| wanted.as_ref().is_none_or(|wanted| entry.file == *wanted));
    Ok(all)
}

/// The one running flow that is meant.
pub(crate) fn the_running(file: Option<&Path>, shell: &Shell) -> anyhow::Result<Entry> {
    let mut found = running(file, shell)?;
    match (found.len(), file) {
        (1, _) => Ok(found.remove(0)),
        (0, None) => anyhow::bail!("no flow is running"),
        (0, Some(file)) => anyhow::bail!("`{}` is not running", file.display()),
        _ => {
            let files: Vec<String> = found.iter().map(shown).collect();
            let files = files.join(", ");
            anyhow::bail!(BadUsage(format!(
                "several flows are running; say which one: {files}"
            )))
        }
    }
}

/// A running flow, as it is told from others.
pub(crate) fn shown(entry: &Entry) -> String {
    format!("`{}` (process {})", entry.file.display(), entry.pid)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Option<&str>) {
        let owned = variables
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let shell = Shell::of(owned.collect());
        let found = state(&shell);
        assert_eq!(found, expected.map(PathBuf::from), "{variables:?}");
    }

    #[test]
    fn state_is_where_the_user_wants_it_or_in_his_home() {
        check(&[], None);
        check(&[("HOME", "/h")], Some("/h/.local/state/flow"));
        check(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")], Some("/s/flow"));
        check(
            &[("HOME", "/h"), ("XDG_STATE_HOME", "s")],
            Some("/h/.local/state/flow"),
        );
    }

    #[test]
    fn the_cache_is_where_the_user_wants_it_or_in_the_users_home() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let shell = Shell::of(variables.iter().map(owned).collect());
            assert_eq!(cache(&shell), expected.map(PathBuf::from), "{variables:?}");
        };
        check(&[], None);
        check(&[("HOME", "/h")], Some("/h/.cache/flow"));
        check(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/c")], Some("/c/flow"));
        check(&[("HOME", "/h"), ("FLOW_CACHE", "/f")], Some("/f"));
        check(
            &[("HOME", "/h"), ("FLOW_CACHE", "")],
            Some("/h/.cache/flow"),
        );
    }

    #[test]
    fn a_flow_has_the_same_folder_each_time() {
        let shell = Shell::of([("HOME".to_owned(), "/h".to_owned())].into());
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("encode.yml");
        std::fs::write(&file, "").unwrap();
        let of = |workspace: Option<&str>| folder(&file, workspace.map(Path::new), &shell);
        let name = of(None).unwrap();
        let start = "/h/.local/state/flow/encode-";
        assert!(name.to_string_lossy().starts_with(start), "{name:?}");
        assert_eq!(of(None), Some(name));
        assert_eq!(of(Some("/w")), Some("/w/.flow".into()));
        assert_eq!(of(Some("w")), Some(root.path().join("w/.flow")));
    }

    #[test]
    fn a_path_in_a_flow_file_begins_at_the_file_or_at_home() {
        let shell = Shell::of([("HOME".to_owned(), "/home/me".to_owned())].into());
        let check = |written: &str, expected: &str| {
            let found = named_in(Path::new("/flows/a.yml"), Path::new(written), &shell);
            assert_eq!(found.unwrap(), Path::new(expected), "{written}");
        };
        check("~/.cache", "/home/me/.cache");
        check("~", "/home/me");
        check("~other/x", "/flows/~other/x");
        check("data/x", "/flows/data/x");
        check("./data", "/flows/data");
        check("/data", "/data");
    }

    #[test]
    fn a_relative_flow_file_gives_absolute_paths_all_the_same() {
        let shell = Shell::of([].into());
        let here = std::env::current_dir().unwrap();
        let found = named_in(Path::new("a.yml"), Path::new("data"), &shell);
        assert_eq!(found.unwrap(), here.join("data"));
        let homeless = named_in(Path::new("a.yml"), Path::new("~/x"), &shell);
        assert_eq!(
            homeless.unwrap_err().to_string(),
            "`~` in `~/x` means nothing: HOME is not set"
        );
    }

    #[test]
    fn a_hash_is_the_one_everybody_knows() {
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
