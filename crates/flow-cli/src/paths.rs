//! The folders of flow: state of running flows, caches, and folders that flow files name.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::shell::Shell;

/// flow's folder for state, after the XDG base directory specification. `None` if the user has no home.
pub(crate) fn state_folder(shell: &Shell) -> Option<PathBuf> {
    let given = shell.variable("XDG_STATE_HOME").map(PathBuf::from);
    // The specification says to ignore relative paths.
    let given = given.filter(|path| path.is_absolute());
    let home = || Some(PathBuf::from(shell.variable("HOME")?).join(".local/state"));
    given.or_else(home).map(|state| state.join("flow"))
}

/// flow's folder for caches: `FLOW_CACHE`, or a folder after the XDG base directory specification. `None` if the user has
/// no home.
pub(crate) fn cache_folder(shell: &Shell) -> Option<PathBuf> {
    let path = |name: &str| shell.variable(name).map(PathBuf::from);
    let absolute = |name: &str| path(name).filter(|path| path.is_absolute());
    let home = || Some(path("HOME")?.join(".cache"));
    let of_user = || absolute("XDG_CACHE_HOME").or_else(home);
    absolute("FLOW_CACHE").or_else(|| Some(of_user()?.join("flow")))
}

/// The absolute path of a folder that a flow file names. A relative path is relative to the file; `~` is the user's home.
pub(crate) fn resolve_in_flow(
    flow_file: &Path,
    written: &Path,
    shell: &Shell,
) -> anyhow::Result<PathBuf> {
    let path = match written.strip_prefix("~") {
        Ok(rest) => {
            let home = shell.variable("HOME").with_context(|| {
                let written = written.display();
                format!("cannot replace `~` in `{written}`: HOME is not set")
            })?;
            Path::new(&home).join(rest)
        }
        Err(_) => flow_file.parent().unwrap_or(Path::new("")).join(written),
    };
    Ok(std::path::absolute(path)?)
}

/// The state folder of a flow: `.flow` in its workspace or, without a workspace, a folder in the user's state that is named
/// after the file and a hash of its path.
pub(crate) fn flow_state_folder(
    flow_file: &Path,
    workspace: Option<&Path>,
    shell: &Shell,
) -> Option<PathBuf> {
    if let Some(workspace) = workspace {
        let workspace = resolve_in_flow(flow_file, workspace, shell).ok()?;
        return Some(workspace.join(".flow"));
    }
    let file = flow_file.canonicalize().ok()?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let hash = fnv1a(file.as_os_str().as_encoded_bytes());
    Some(state_folder(shell)?.join(format!("{stem}-{hash:016x}")))
}

/// The FNV-1a hash of some bytes. Folders are named after it, so that it must be the same in every version of flow.
pub(crate) fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(variables: &[(&str, &str)], expected: Option<&str>) {
        let owned = variables
            .iter()
            .map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let shell = Shell::of(owned.collect());
        let found = state_folder(&shell);
        assert_eq!(found, expected.map(PathBuf::from), "{variables:?}");
    }

    #[test]
    fn the_state_folder_is_xdg_state_home_or_below_home() {
        check(&[], None);
        check(&[("HOME", "/h")], Some("/h/.local/state/flow"));
        check(&[("HOME", "/h"), ("XDG_STATE_HOME", "/s")], Some("/s/flow"));
        check(
            &[("HOME", "/h"), ("XDG_STATE_HOME", "s")],
            Some("/h/.local/state/flow"),
        );
    }

    #[test]
    fn the_cache_folder_is_flow_cache_or_xdg_cache_home_or_below_home() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
            let shell = Shell::of(variables.iter().map(owned).collect());
            assert_eq!(
                cache_folder(&shell),
                expected.map(PathBuf::from),
                "{variables:?}"
            );
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
    fn a_flow_has_the_same_state_folder_each_time() {
        let shell = Shell::of([("HOME".to_owned(), "/h".to_owned())].into());
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("encode.yml");
        std::fs::write(&file, "").unwrap();
        let of =
            |workspace: Option<&str>| flow_state_folder(&file, workspace.map(Path::new), &shell);
        let name = of(None).unwrap();
        let start = "/h/.local/state/flow/encode-";
        assert!(name.to_string_lossy().starts_with(start), "{name:?}");
        assert_eq!(of(None), Some(name));
        assert_eq!(of(Some("/w")), Some("/w/.flow".into()));
        assert_eq!(of(Some("w")), Some(root.path().join("w/.flow")));
    }

    #[test]
    fn a_path_in_a_flow_file_is_relative_to_the_file_or_to_home() {
        let shell = Shell::of([("HOME".to_owned(), "/home/me".to_owned())].into());
        let check = |written: &str, expected: &str| {
            let found = resolve_in_flow(Path::new("/flows/a.yml"), Path::new(written), &shell);
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
    fn a_relative_flow_file_gives_absolute_paths() {
        let shell = Shell::of([].into());
        let here = std::env::current_dir().unwrap();
        let found = resolve_in_flow(Path::new("a.yml"), Path::new("data"), &shell);
        assert_eq!(found.unwrap(), here.join("data"));
        let homeless = resolve_in_flow(Path::new("a.yml"), Path::new("~/x"), &shell);
        assert_eq!(
            homeless.unwrap_err().to_string(),
            "cannot replace `~` in `~/x`: HOME is not set"
        );
    }

    #[test]
    fn the_hash_is_fnv_1a() {
        assert_eq!(fnv1a(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(fnv1a(b"a"), 0xaf63_dc4c_8601_ec8c);
    }
}
