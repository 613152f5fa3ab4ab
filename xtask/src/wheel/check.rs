//! Proves that the wheel installs and works where there is nothing else: a new virtual environment, and a folder that is not
//! this repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, bail, ensure};

use crate::dist;
use crate::repository::root;
use crate::setup::{self, Python};
use crate::shell;

/// The script of the new user.
const SCRIPT: &str = "tests/python/installed.py";

/// Checks the wheel's platform tag, installs the wheel, and uses it.
pub(super) fn check(wheel: &Path) -> anyhow::Result<()> {
    check_tag(wheel)?;
    let folder = new_folder("target/wheel-check")?;
    let venv = install(wheel, &folder)?;
    ensure!(
        dist::has_licences(&venv.join("share/doc/flow-serve")),
        "`{}` has no licences",
        file_name(wheel)
    );
    let mut command = Command::new(venv.join("bin/python"));
    command.arg(root().join(SCRIPT)).current_dir(&folder);
    command.env_remove("PYTHONPATH");
    command.env("XDG_STATE_HOME", folder.join("state"));
    let used = shell::output(&mut command).context("the installed package does not work")?;
    let megabytes = fs::metadata(wheel)?.len() / 1_000_000;
    let said = used.lines().last().unwrap_or_default();
    println!("{} has {megabytes} MB; installed: {said}", file_name(wheel));
    Ok(())
}

/// Builds the source distribution, and a wheel of it, as `pip` does where there is no wheel for a machine.
pub(super) fn check_source(source: &Path) -> anyhow::Result<()> {
    let folder = new_folder("target/sdist-check")?;
    let python = Python::find()?;
    python.wheel(source, &folder)?;
    let wheel = newest(&folder, "whl")?;
    let venv = install(&wheel, &folder)?;
    let mut command = Command::new(venv.join("bin/python"));
    command.args(["-c", "import flow_serve; flow_serve.Document(text='a')"]);
    command.env_remove("PYTHONPATH").current_dir(&folder);
    shell::output(&mut command).context("the package built from source does not work")?;
    println!(
        "{} builds, and the package can be imported",
        file_name(source)
    );
    Ok(())
}

/// The newest file of a folder with this extension.
pub(super) fn newest(folder: &Path, extension: &str) -> anyhow::Result<PathBuf> {
    let files =
        fs::read_dir(folder).with_context(|| format!("cannot read `{}`", folder.display()))?;
    let files = files.filter_map(|file| Some(file.ok()?.path()));
    let files = files.filter(|it| it.extension().is_some_and(|it| it == extension));
    let changed = |it: &PathBuf| fs::metadata(it).and_then(|it| it.modified()).ok();
    let newest = files.max_by_key(changed);
    newest.with_context(|| format!("there is no `.{extension}` file in `{}`", folder.display()))
}

/// The tag of a wheel says which versions of glibc it needs. auditwheel reads it off the symbols.
fn check_tag(wheel: &Path) -> anyhow::Result<()> {
    let auditwheel = setup::wheel_tool("auditwheel")?;
    let shown = shell::output(Command::new(auditwheel).arg("show").arg(wheel))?;
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    let name = file_name(wheel);
    let tag = tag(&name).with_context(|| format!("`{name}` has no tag of a platform"))?;
    let consistent = shown.split_once("following platform tag: ");
    match consistent {
        Some((_, rest)) if rest.starts_with(&format!("\"{tag}\"")) => Ok(()),
        _ => bail!("the wheel says `{tag}`, and auditwheel says:\n  {shown}"),
    }
}

/// The tag of the platform: the last part of a wheel's name.
fn tag(wheel: &str) -> Option<&str> {
    let stem = wheel.strip_suffix(".whl")?;
    stem.rsplit('-').next()
}

fn install(wheel: &Path, folder: &Path) -> anyhow::Result<PathBuf> {
    let python = Python::find()?;
    let venv = folder.join("venv");
    python.venv(&venv)?;
    let pins = root().join("tests/peers/constraints-python.txt");
    let wheel = wheel.to_string_lossy();
    python.install(&venv, &pins, &[&wheel])?;
    Ok(venv)
}

fn new_folder(path: &str) -> anyhow::Result<PathBuf> {
    let folder = root().join(path);
    if folder.exists() {
        fs::remove_dir_all(&folder)?;
    }
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_a_platform_is_the_last_part_of_the_name() {
        let name = "flow_serve-0.1.0-cp39-abi3-manylinux_2_34_x86_64.whl";
        assert_eq!(tag(name), Some("manylinux_2_34_x86_64"));
        assert_eq!(tag("flow_serve-0.1.0.tar.gz"), None);
    }
}
