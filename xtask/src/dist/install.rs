//! `cargo xtask dist --check-install`: installs the package in a clean Debian, and lets it embed a text.
//!
//! debootstrap makes the Debian once, in `target/dist-check`; each check works on a copy. Needs root, for `chroot`. The package of
//! another processor runs in Debian's `qemu-user-static`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, ensure};

use crate::{repository, setup, shell};

/// What is done inside, and how long it takes.
const SCRIPT: &str = include_str!("install.sh");

/// The beginning of the vector of "hello world".
const VECTOR: &str = "384 numbers: -0.0344";

/// What the line with the time until the first vector begins with, and the most milliseconds.
const SERVED: &str = "milliseconds to the first vector: ";
const SERVED_MAX: u64 = 10_000;

/// Installs the package at this path, for this architecture of Debian's, and uses it. Returns what the check printed.
pub(super) fn check(package: &Path, architecture: &str) -> anyhow::Result<String> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "--check-install needs root, for `chroot`"
    );
    let model = setup::model()?;
    let root = copy_of_clean_debian(architecture)?;
    fs::copy(package, root.join("flow.deb"))?;
    fs::write(root.join("check.sh"), SCRIPT)?;
    shell::run(
        Command::new("cp")
            .arg("-rL")
            .arg(model)
            .arg(root.join("model")),
    )?;
    let said = shell::output(&mut inside(&root, &["sh", "/check.sh"]))?;
    ensure!(
        said.contains(VECTOR),
        "the flow answers, but without the vector:\n{said}"
    );
    let took = served_after(&said).with_context(|| format!("no time in:\n{said}"))?;
    ensure!(
        took <= SERVED_MAX,
        "the first vector came after {took} ms; at most {SERVED_MAX} are allowed:\n{said}"
    );
    fs::remove_dir_all(&root)?;
    Ok(said)
}

/// The milliseconds until the first vector.
fn served_after(said: &str) -> Option<u64> {
    let time = said.lines().find_map(|line| line.strip_prefix(SERVED));
    time?.parse().ok()
}

/// A command in a system below `root`, with processes and mounts of its own: nothing of it is left when it ends.
fn inside(root: &Path, command: &[&str]) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--pid", "--fork", "--kill-child", "--"]);
    let script = "mount -t proc proc \"$0/proc\" && exec chroot \"$0\" \"$@\"";
    unshare.args(["sh", "-c", script]).arg(root).args(command);
    unshare
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", "/root");
    unshare
}

fn copy_of_clean_debian(architecture: &str) -> anyhow::Result<PathBuf> {
    let folder = repository::target("dist-check").join(architecture);
    let (clean, root) = (folder.join("clean"), folder.join("root"));
    if !clean.exists() {
        make_clean_debian(&clean, architecture)?;
    }
    if root.exists() {
        fs::remove_dir_all(&root)?;
    }
    shell::run(Command::new("cp").arg("-a").arg(&clean).arg(&root))?;
    Ok(root)
}

/// The folder comes whole, by one rename.
fn make_clean_debian(clean: &Path, architecture: &str) -> anyhow::Result<()> {
    let part = clean.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    fs::create_dir_all(&part)?;
    let mut debootstrap = Command::new("debootstrap");
    debootstrap.arg(format!("--arch={architecture}"));
    debootstrap.args(["--variant=minbase", &suite()]).arg(&part);
    shell::run(&mut debootstrap).context(
        "Debian's package `debootstrap` makes a clean Debian, and that of another processor needs `qemu-user-static` \
         and `binfmt-support`",
    )?;
    fs::rename(&part, clean)?;
    Ok(())
}

/// The version of this machine's Debian, as programs built here need its C library; on other systems the stable one.
fn suite() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    suite_of(&release).unwrap_or("stable").to_owned()
}

fn suite_of(release: &str) -> Option<&str> {
    let value = |key: &str| release.lines().find_map(|line| line.strip_prefix(key));
    value("ID=debian").and_then(|_| value("VERSION_CODENAME="))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_until_the_first_vector_is_read() {
        let said = "milliseconds to install: 1600\nmilliseconds to the first vector: 2300\n";
        assert_eq!(served_after(said), Some(2300));
        assert_eq!(served_after("384 numbers"), None);
    }

    #[test]
    fn the_clean_debian_has_the_version_of_this_one() {
        assert_eq!(
            suite_of("VERSION_CODENAME=bookworm\nID=debian\n"),
            Some("bookworm")
        );
        assert_eq!(suite_of("VERSION_CODENAME=noble\nID=ubuntu\n"), None);
    }
}
