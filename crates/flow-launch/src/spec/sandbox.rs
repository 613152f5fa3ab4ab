//! How a process gets its sandbox: `flow sandbox` in front of its command line. Pure.
//!
//! The program `flow` limits itself and then becomes the executor's program. So the limits hold for every program, before its own
//! code runs, and the process stays the one that was started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use flow_spec::Sandbox;

/// The sandbox of a process of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SandboxInvocation {
    /// The program `flow`.
    pub(crate) program: PathBuf,
    pub(crate) limits: Sandbox,
    /// The folder of the executor's files.
    pub(crate) workspace: Option<PathBuf>,
    /// The format of its log.
    pub(crate) log: &'static str,
}

impl SandboxInvocation {
    /// The arguments of `flow` before the executor's program. `own_folder` is for the process's socket and temporary files.
    pub(crate) fn arguments(
        &self,
        own_folder: Option<&Path>,
        control_group: Option<&Path>,
    ) -> Vec<OsString> {
        let limits = &self.limits;
        let mut all: Vec<OsString> = vec!["sandbox".into(), "--log".into(), self.log.into()];
        let values = [
            ("--memory", limits.memory.map(|it| it.to_string().into())),
            ("--millicpus", limits.cpus.map(|it| it.0.to_string().into())),
            ("--files", self.workspace.as_deref().map(OsString::from)),
            ("--own-folder", own_folder.map(OsString::from)),
            ("--control-group", control_group.map(OsString::from)),
        ];
        for (option, value) in values {
            if let Some(value) = value {
                all.extend([option.into(), value]);
            }
        }
        let flags = [
            ("--no-network", limits.no_network),
            ("--read-only", limits.read_only),
        ];
        let set = flags.into_iter().filter(|(_, is_set)| *is_set);
        all.extend(set.map(|(flag, _)| flag.into()));
        all.push("--".into());
        all
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use flow_spec::Millicpus;

    use super::*;

    fn check(limits: Sandbox, own_folder: Option<&str>, group: Option<&str>, expected: &str) {
        let sandbox = SandboxInvocation {
            program: "/bin/flow".into(),
            limits,
            workspace: Some("/w".into()),
            log: "text",
        };
        let arguments = sandbox.arguments(own_folder.map(Path::new), group.map(Path::new));
        assert_eq!(arguments.join(" ".as_ref()), expected);
    }

    #[test]
    fn limits_become_arguments() {
        check(
            Sandbox::default(),
            None,
            None,
            "sandbox --log text --files /w --",
        );
        let all = Sandbox {
            memory: NonZeroU64::new(1 << 30),
            cpus: NonZeroU32::new(1500).map(Millicpus),
            no_network: true,
            read_only: true,
        };
        check(
            all,
            Some("/s/a.0"),
            Some("/sys/fs/cgroup/a"),
            "sandbox --log text --memory 1073741824 --millicpus 1500 --files /w --own-folder /s/a.0 --control-group \
             /sys/fs/cgroup/a --no-network --read-only --",
        );
    }
}
