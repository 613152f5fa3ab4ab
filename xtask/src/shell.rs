//! Runs other programs: prints the command, and fails with its output.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};

use crate::repository::root;

/// Lines of a failed program's output that go into the error.
const LAST_LINES: usize = 15;

/// Cargo, in the repository's top folder.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    let variables = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    for name in variables.filter(|name| is_of_own_package(name)) {
        command.env_remove(name);
    }
    command
}

/// Whether `cargo run` sets this variable to describe `xtask` itself. Build scripts, such as that of `ring`, read variables of
/// the same names: with them here and without them in the user's shell, each `cargo build` would build all of it again.
fn is_of_own_package(variable: &str) -> bool {
    ["CARGO_PKG_", "CARGO_MANIFEST_"]
        .iter()
        .any(|prefix| variable.starts_with(prefix))
}

/// Runs a program whose output goes where ours goes.
pub(crate) fn run(command: &mut Command) -> anyhow::Result<()> {
    eprintln!("$ {}", line(command));
    let status = command.status().with_context(|| cannot_start(command))?;
    if !status.success() {
        bail!("`{}` failed: {status}", line(command));
    }
    Ok(())
}

/// Runs a program and gives back what it wrote on standard output.
pub(crate) fn output(command: &mut Command) -> anyhow::Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| cannot_start(command))?;
    if !output.status.success() {
        let said = [output.stdout, output.stderr].concat();
        let said = last_lines(&String::from_utf8_lossy(&said));
        bail!("`{}` failed: {}\n{said}", line(command), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The program and its arguments, as one would type them.
pub(crate) fn line(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn cannot_start(command: &Command) -> String {
    format!("cannot start `{}`", command.get_program().to_string_lossy())
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    let skipped = lines.len().saturating_sub(LAST_LINES);
    lines[skipped..]
        .iter()
        .map(|line| format!("  {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_carries_the_command_its_status_and_its_last_words() {
        let mut command = Command::new("sh");
        let error = output(command.args(["-c", "echo no such wheel >&2; exit 3"]));
        let text = error.expect_err("it exits 3").to_string();
        assert!(
            text.contains("exit 3") && text.contains("no such wheel"),
            "{text}"
        );
    }

    #[test]
    fn a_program_that_is_not_there_is_named() {
        let error = output(&mut Command::new("no-such-program")).expect_err("it is not there");
        assert_eq!(error.to_string(), "cannot start `no-such-program`");
    }

    #[test]
    fn only_the_last_lines_are_kept() {
        let text: String = (0..LAST_LINES + 5).map(|n| format!("{n}\n")).collect();
        let kept = last_lines(&text);
        assert_eq!(kept.lines().count(), LAST_LINES);
        assert!(kept.starts_with("  5\n"), "{kept}");
    }
}
