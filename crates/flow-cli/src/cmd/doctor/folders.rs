//! The folders that flow writes to: the state of running flows, and the caches of models.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flow_models::source::{self, SourceEnvironment};
use rustix::fs::{Access, access, statvfs};
use rustix::process::geteuid;

use super::finding::Finding;
use crate::paths;
use crate::shell::Shell;

/// Space for the default model and another one.
const SPACE_WANTED: u64 = 1 << 30;

/// Permissions of other users to write.
const OTHERS_WRITE: u32 = 0o022;

pub(super) fn examine(shell: &Shell) -> Vec<Finding> {
    let models = SourceEnvironment::from_variables(|name| shell.variable(name));
    let stored = source::list(&models).len();
    vec![
        of_state(paths::state_folder(shell)),
        of_cache("models of the hub", &models.hub_cache, Some(stored)),
        of_cache("cache of flow", &models.flow_cache, None),
    ]
}

fn of_state(folder: Option<PathBuf>) -> Finding {
    const SUBJECT: &str = "state";
    let Some(folder) = folder else {
        return Finding::warning(
            SUBJECT,
            "there is no folder for it, because HOME is not set",
            "set HOME or XDG_STATE_HOME; without it, commands such as `flow ps` and `flow logs` find no flow",
        );
    };
    let shown = folder.display();
    match fs::metadata(&folder) {
        Ok(found) => of_state_folder(&shown.to_string(), &found, geteuid().as_raw()),
        Err(_missing) => match is_writable(&folder) {
            true => Finding::ok(SUBJECT, format!("`{shown}` is created by the first flow")),
            false => Finding::problem(
                SUBJECT,
                format!("`{shown}` cannot be created"),
                "set XDG_STATE_HOME to a folder that you may write to",
            ),
        },
    }
}

fn of_state_folder(shown: &str, found: &Metadata, user: u32) -> Finding {
    const SUBJECT: &str = "state";
    let (owner, mode) = (found.uid(), found.mode() & 0o777);
    if owner != user {
        let text = format!("`{shown}` belongs to user {owner}, and you are user {user}");
        let remedy = format!("change its owner with `sudo chown -R {user} {shown}`");
        return Finding::problem(SUBJECT, text, remedy);
    }
    if mode & OTHERS_WRITE != 0 {
        let text =
            format!("other users may write to `{shown}` (mode {mode:o}), and so control flows");
        return Finding::problem(
            SUBJECT,
            text,
            format!("protect it with `chmod go-w {shown}`"),
        );
    }
    Finding::ok(SUBJECT, format!("`{shown}`, mode {mode:o}"))
}

/// `stored`: how many models there are.
fn of_cache(subject: &str, folder: &Path, stored: Option<usize>) -> Finding {
    let shown = folder.display();
    if !is_writable(folder) {
        let text = format!("you may not write to `{shown}`");
        let remedy = "nothing can be downloaded there; set HF_HOME or FLOW_CACHE to another folder";
        return Finding::warning(subject, text, remedy);
    }
    let space = existing(folder).and_then(|it| statvfs(it).ok());
    let space = space.map(|it| it.f_bavail.saturating_mul(it.f_frsize));
    let stored = match stored {
        None => String::new(),
        Some(1) => ", 1 model".to_owned(),
        Some(more) => format!(", {more} models"),
    };
    match space {
        None => Finding::ok(subject, format!("`{shown}`{stored}")),
        Some(space) if space < SPACE_WANTED => Finding::warning(
            subject,
            format!("`{shown}`{stored}, {} MiB free", space >> 20),
            "delete what is not needed, or set HF_HOME or FLOW_CACHE to another disk",
        ),
        Some(space) => Finding::ok(
            subject,
            format!("`{shown}`{stored}, {} GiB free", space >> 30),
        ),
    }
}

/// Whether this user may write to the folder, or make it.
fn is_writable(folder: &Path) -> bool {
    existing(folder).is_some_and(|it| it.is_dir() && access(it, Access::WRITE_OK).is_ok())
}

/// The folder, or the nearest one above it that exists.
fn existing(folder: &Path) -> Option<&Path> {
    let mut all = folder.ancestors().filter(|it| !it.as_os_str().is_empty());
    all.find(|it| it.exists()).or(Some(Path::new(".")))
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::super::finding::Level;
    use super::*;

    #[test]
    fn a_state_folder_belongs_to_its_user_alone() {
        let folder = tempfile::tempdir().unwrap();
        let check = |mode, user, level| {
            fs::set_permissions(folder.path(), Permissions::from_mode(mode)).unwrap();
            let found = fs::metadata(folder.path()).unwrap();
            let finding = of_state_folder("x", &found, user);
            assert_eq!(finding.level, level, "{finding:?}");
        };
        let user = geteuid().as_raw();
        check(0o700, user, Level::Ok);
        check(0o770, user, Level::Problem);
        check(0o700, user + 1, Level::Problem);
    }

    #[test]
    fn folders_that_do_not_exist_can_be_made_where_their_parent_can_be_written() {
        let folder = tempfile::tempdir().unwrap();
        let made = of_state(Some(folder.path().join("a/b")));
        assert_eq!(made.level, Level::Ok);
        assert!(made.text.ends_with("is created by the first flow"));
        assert_eq!(of_state(None).level, Level::Warning);
        // A folder cannot be created below a file of the kernel.
        let never = of_state(Some("/proc/version/x".into()));
        assert_eq!(never.level, Level::Problem, "{never:?}");
        assert_eq!(
            of_cache("c", Path::new("/proc/version/x"), None).level,
            Level::Warning
        );
    }
}
