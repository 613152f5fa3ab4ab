//! Builds executors that are Rust packages. Cargo prints its progress on stderr.

mod build_folder;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::Context;
use serde_json::Value;

use self::build_folder::{BuildFolder, same_file};
use super::builder::Builder;
use crate::paths;
use crate::shell::Shell;

/// Cargo's profile for executors.
const PROFILE: &str = "FLOW_CARGO_PROFILE";

/// The default profile.
const PROFILE_DEFAULT: &str = "release";

/// Builds the package, and returns its program: the only one, or the one called `name`.
///
/// # Errors
///
/// If Cargo is missing, or the package does not build, or has no program, or has several and none of this name.
pub(crate) fn build(manifest: &Path, name: &str, shell: &Shell) -> anyhow::Result<PathBuf> {
    Builder::default().build(manifest, name, shell)
}

impl Builder {
    /// Builds a package, like [`build`].
    pub(crate) fn build(
        &self,
        manifest: &Path,
        name: &str,
        shell: &Shell,
    ) -> anyhow::Result<PathBuf> {
        let manifest = std::path::absolute(manifest)?;
        let profile = shell.variable(PROFILE);
        let profile = profile.as_deref().unwrap_or(PROFILE_DEFAULT);
        let metadata = self.cargo(
            Command::new("cargo").args(["metadata", "--no-deps", "--format-version", "1"]),
            &manifest,
        )?;
        let metadata = serde_json::from_slice(&metadata.stdout).unwrap_or_default();
        let cache = paths::cache_folder(shell);
        let folder = BuildFolder::of(&manifest, &metadata, profile, cache.as_deref())?;
        let mut build = Command::new("cargo");
        build.args([
            "build",
            "--bins",
            "--message-format=json-render-diagnostics",
        ]);
        build.args(["--profile", profile]);
        if let BuildFolder::Shared(shared) = &folder {
            build.arg("--target-dir").arg(&shared.target);
        }
        let built = self.cargo(&mut build, &manifest)?;
        let programs = programs(&String::from_utf8_lossy(&built.stdout), &manifest);
        let program = choose(programs, name)
            .with_context(|| format!("`{}` builds no executor", manifest.display()))?;
        folder.store(program)
    }

    /// Runs Cargo on a manifest.
    fn cargo(&self, command: &mut Command, manifest: &Path) -> anyhow::Result<Output> {
        let shown = manifest.display();
        command.arg("--manifest-path").arg(manifest);
        let output = self.output(command.stdout(Stdio::piped()));
        let output = output.with_context(|| {
            format!("cannot run Cargo, which builds `{shown}`; install Rust: https://rustup.rs")
        })?;
        anyhow::ensure!(output.status.success(), "`{shown}` does not build");
        Ok(output)
    }
}

/// The version in a folder's manifest. `None` if there is no manifest, or it inherits its version.
pub(crate) fn version(folder: &Path) -> Option<String> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let (_, package) = manifest.split_once("[package]")?;
    let mut lines = package.lines().take_while(|line| !line.starts_with('['));
    let line = lines.find_map(|line| line.strip_prefix("version")?.trim().strip_prefix('='))?;
    Some(line.trim().trim_matches('"').to_owned())
}

/// Names and paths of the package's programs in the messages of Cargo.
fn programs(messages: &str, manifest: &Path) -> Vec<(String, PathBuf)> {
    let is_own = |message: &Value| {
        let of = message["manifest_path"].as_str();
        of.is_some_and(|of| same_file(Path::new(of), manifest))
    };
    let messages = messages
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok());
    messages
        .filter(is_own)
        .filter_map(|message| {
            let path = message["executable"].as_str()?;
            let name = message["target"]["name"].as_str()?;
            Some((name.to_owned(), path.into()))
        })
        .collect()
}

fn choose(mut programs: Vec<(String, PathBuf)>, name: &str) -> anyhow::Result<PathBuf> {
    let at = match programs.len() {
        0 => anyhow::bail!("it has no program (`src/main.rs`)"),
        1 => 0,
        _ => {
            let at = programs.iter().position(|(it, _)| it == name);
            let names = || programs.iter().map(|(it, _)| format!("`{it}`"));
            at.with_context(|| {
                let names: Vec<String> = names().collect();
                format!("none of its programs ({}) is `{name}`", names.join(", "))
            })?
        }
    };
    Ok(programs.swap_remove(at).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(manifest: &str, name: &str, executable: &str) -> String {
        serde_json::json!({
            "reason": "compiler-artifact", "manifest_path": manifest,
            "target": {"name": name}, "executable": executable,
        })
        .to_string()
    }

    #[test]
    fn the_programs_of_the_package_are_found_in_the_messages_of_cargo() {
        let messages = [
            message("/p/Cargo.toml", "mine", "/t/mine"),
            message("/dependency/Cargo.toml", "other", "/t/other"),
            r#"{"reason": "compiler-artifact", "manifest_path": "/p/Cargo.toml", "executable": null}"#.to_owned(),
            "what a build script wrote".to_owned(),
        ];
        let found = programs(&messages.join("\n"), Path::new("/p/Cargo.toml"));
        assert_eq!(found, [("mine".to_owned(), "/t/mine".into())]);
    }

    #[test]
    fn a_version_is_read_from_the_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let check = |manifest: &str, expected: Option<&str>| {
            std::fs::write(folder.path().join("Cargo.toml"), manifest).unwrap();
            assert_eq!(version(folder.path()).as_deref(), expected, "{manifest}");
        };
        check(
            "[package]\nname = \"x\"\nversion = \"1.2.3\"\n",
            Some("1.2.3"),
        );
        check("[package]\nversion.workspace = true\n", None);
        check("[package]\n[dependencies.x]\nversion = \"1\"\n", None);
        assert_eq!(version(&folder.path().join("nowhere")), None);
    }

    #[test]
    fn the_only_program_is_chosen_or_the_one_of_the_name() {
        let check = |names: &[&str], expected: Result<&str, &str>| {
            let programs = names.iter().map(|it| ((*it).to_owned(), it.into()));
            let chosen = choose(programs.collect(), "mine").map_err(|it| it.to_string());
            assert_eq!(chosen, expected.map(PathBuf::from).map_err(str::to_owned));
        };
        check(&["any"], Ok("any"));
        check(&["other", "mine"], Ok("mine"));
        check(&[], Err("it has no program (`src/main.rs`)"));
        check(
            &["a", "b"],
            Err("none of its programs (`a`, `b`) is `mine`"),
        );
    }
}
