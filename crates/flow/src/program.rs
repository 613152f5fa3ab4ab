//! Finds the program `flow`.

use std::path::{Path, PathBuf};

const NAME: &str = if cfg!(windows) { "flow.exe" } else { "flow" };

/// The given path, or the program beside the running one or in the folder above, where cargo puts examples and tests, or the
/// one on `PATH`.
pub(crate) fn find(given: Option<PathBuf>, running: Option<&Path>) -> PathBuf {
    let folders = running
        .into_iter()
        .flat_map(Path::ancestors)
        .skip(1)
        .take(2);
    let beside = || folders.map(|it| it.join(NAME)).find(|it| it.is_file());
    given.or_else(beside).unwrap_or_else(|| NAME.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_program_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let examples = folder.path().join("examples");
        let running = examples.join("tutorial");
        let found = |given: Option<&str>| find(given.map(PathBuf::from), Some(&running));
        assert_eq!(found(Some("/opt/flow")), Path::new("/opt/flow"));
        assert_eq!(found(None), Path::new("flow"));
        std::fs::write(folder.path().join(NAME), "").unwrap();
        assert_eq!(found(None), folder.path().join(NAME));
        std::fs::create_dir(&examples).unwrap();
        std::fs::write(examples.join(NAME), "").unwrap();
        assert_eq!(found(None), examples.join(NAME));
    }
}
