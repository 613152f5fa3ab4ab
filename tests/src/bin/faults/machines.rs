//! Machines: network namespaces, and the processes in them.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Where `ip netns` keeps its namespaces.
const NAMESPACES: &str = "/run/netns";

/// What the resolver of every process reads instead of `/etc/resolv.conf`.
const RESOLVER: &str = "nameserver 127.0.0.1\n";

/// A machine, as far as its network is concerned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine(pub(crate) &'static str);

/// Runs a program, which has to succeed.
#[track_caller]
pub(crate) fn must(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
}

/// Prepares the namespaces of this process: one place for networks and one name server, which nobody outside sees.
pub(crate) fn prepare(folder: &Path) {
    let resolver = folder.join("resolv.conf");
    fs::write(&resolver, RESOLVER).unwrap();
    let resolver = resolver.display().to_string();
    must("mount", &["--bind", &resolver, "/etc/resolv.conf"]);
    fs::create_dir_all(NAMESPACES).unwrap();
    must("mount", &["-t", "tmpfs", "tmpfs", NAMESPACES]);
    must("ip", &["link", "set", "lo", "up"]);
}

impl Machine {
    pub(crate) fn new(name: &'static str) -> Self {
        must("ip", &["netns", "add", name]);
        must("ip", &["-n", name, "link", "set", "lo", "up"]);
        Self(name)
    }

    /// The same command on this machine. Its process is that of the command, not one around it.
    pub(crate) fn on(self, command: &Command) -> Command {
        let mut on = Command::new("nsenter");
        on.arg(format!("--net={NAMESPACES}/{}", self.0));
        on.arg("--").arg(command.get_program());
        on.args(command.get_args());
        for (name, value) in command.get_envs() {
            set(&mut on, name, value);
        }
        if let Some(folder) = command.get_current_dir() {
            on.current_dir(folder);
        }
        on
    }
}

fn set(command: &mut Command, name: &OsStr, value: Option<&OsStr>) {
    match value {
        Some(value) => command.env(name, value),
        None => command.env_remove(name),
    };
}
