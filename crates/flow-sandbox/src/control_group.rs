//! Enters a control group (cgroup v2) that the launcher has made, with the limits that it could set.

use std::fs;
use std::path::Path;

use crate::error::SandboxError;

/// The limits of the group that the process has entered.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) limits_memory: bool,
    pub(crate) limits_processors: bool,
}

impl Group {
    /// Moves this process, and so all that it will start, into the group with this folder.
    pub(crate) fn enter(folder: &Path) -> Result<Self, SandboxError> {
        // 0 is the process that writes.
        let entered = fs::write(folder.join("cgroup.procs"), "0");
        entered.map_err(|source| SandboxError::ControlGroup {
            path: folder.to_owned(),
            source,
        })?;
        let is_set = |file: &str| {
            let written = fs::read_to_string(folder.join(file));
            written.is_ok_and(|it| !it.starts_with("max"))
        };
        Ok(Self {
            limits_memory: is_set("memory.max"),
            limits_processors: is_set("cpu.max"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with these files in place of a control group.
    fn check(files: &[(&str, &str)], expected: Group) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        assert_eq!(Group::enter(folder.path()).unwrap(), expected);
        let entered = fs::read_to_string(folder.path().join("cgroup.procs"));
        assert_eq!(entered.unwrap(), "0");
    }

    #[test]
    fn a_group_limits_what_its_files_say() {
        check(&[], Group::default());
        let both = Group {
            limits_memory: true,
            limits_processors: true,
        };
        check(
            &[
                ("memory.max", "1073741824\n"),
                ("cpu.max", "150000 100000\n"),
            ],
            both,
        );
        let memory = Group {
            limits_processors: false,
            ..both
        };
        check(
            &[("memory.max", "1073741824\n"), ("cpu.max", "max 100000\n")],
            memory,
        );
    }

    #[test]
    fn a_group_that_is_gone_is_an_error() {
        let error = Group::enter(Path::new("/nowhere/at/all")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot enter the control group `/nowhere/at/all`"
        );
    }
}
