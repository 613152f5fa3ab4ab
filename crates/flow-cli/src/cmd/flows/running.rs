//! The flows that are running on this machine.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_launch::registry::{self, RegistryEntry};

use crate::escape::escape;
use crate::exit::BadUsage;
use crate::paths;
use crate::shell::Shell;

/// The folder in which running flows register. `None` if the user has no home.
pub(super) fn registry_folder(shell: &Shell) -> Option<PathBuf> {
    paths::state_folder(shell).map(|state| state.join("running"))
}

/// All running flows, or only those that were started from `file`.
pub(crate) fn find(file: Option<&Path>, shell: &Shell) -> anyhow::Result<Vec<RegistryEntry>> {
    let file = file.map(|file| {
        let found = file.canonicalize();
        found.with_context(|| BadUsage(format!("cannot find flow file `{}`", file.display())))
    });
    let file = file.transpose()?;
    let all = registry_folder(shell).map(|folder| registry::running(&folder));
    let mut all = all.unwrap_or_default();
    all.retain(|entry| file.as_ref().is_none_or(|file| entry.file == *file));
    Ok(all)
}

/// The only running flow, or the only one that was started from `file`.
pub(super) fn find_one(file: Option<&Path>, shell: &Shell) -> anyhow::Result<RegistryEntry> {
    let mut found = find(file, shell)?;
    match (found.len(), file) {
        (1, _) => Ok(found.remove(0)),
        (0, None) => anyhow::bail!("no flow is running"),
        (0, Some(file)) => anyhow::bail!("`{}` is not running", file.display()),
        _ => {
            let files: Vec<String> = found.iter().map(|it| format!("`{}`", name(it))).collect();
            let files = files.join(", ");
            anyhow::bail!(BadUsage(format!(
                "several flows are running; say which one: {files}"
            )))
        }
    }
}

/// Whether a flow is meant by this text: its file, the name of its file, or its own name.
pub(super) fn is_called(
    entry: &RegistryEntry,
    wanted: &str,
    own_name: impl FnOnce() -> Option<String>,
) -> bool {
    let file = Path::new(wanted).canonicalize().ok();
    let is_file = file.as_ref() == Some(&entry.file);
    let is_stem = entry.file.file_stem().is_some_and(|stem| stem == wanted);
    is_file || is_stem || own_name().as_deref() == Some(wanted)
}

/// The flow's file and its process, which tell it from other flows.
pub(super) fn name(entry: &RegistryEntry) -> String {
    let file = entry.file.display().to_string();
    format!("{} (process {})", escape(&file), entry.pid)
}
