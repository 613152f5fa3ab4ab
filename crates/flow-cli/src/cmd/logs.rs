//! `flow logs`: what a flow's processes wrote, from its log files; also of a flow that has ended.

mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use flow_launch::{Home, log_file};

use self::tail::Tail;
use crate::exit::{BadUsage, Exit};
use crate::flow_file;
use crate::output::{self, Colour, Painter};
use crate::places;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow logs
  flow logs encoder -f
  flow logs encoder/rep-0 -n 1000 --flow flows/encode.yml";

/// How soon a new line is seen.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Options of `flow logs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Logs {
    /// An executor, one of its processes, or `gateway`; all of them if not said.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Go on with lines as they are written.
    #[arg(long, short)]
    follow: bool,
    /// The last lines of each process.
    #[arg(long, short = 'n', value_name = "LINES", default_value_t = 100)]
    lines: usize,
    /// The flow file, where several flows are running, or for a flow that has ended.
    #[arg(long, value_name = "FLOW.yml")]
    flow: Option<PathBuf>,
}

pub(crate) fn run(logs: &Logs, shell: &Shell) -> anyhow::Result<Exit> {
    let folder = Home::logs(&folder(logs.flow.as_deref(), shell)?);
    let names = named(&folder, logs.name.as_deref())?;
    let many = names.len() > 1;
    let painter = Painter::stdout(shell);
    let show = |name: &str, line: &str| {
        if many {
            let name = painter.paint(Colour::Cyan, &format!("{name} │"));
            output::line(&format!("{name} {line}"))
        } else {
            output::line(line)
        }
    };
    let mut tails = Vec::new();
    for name in names {
        let (tail, lines) = Tail::open(log_file(&folder, &name), logs.lines)
            .with_context(|| format!("cannot read the log of `{name}`"))?;
        lines.iter().try_for_each(|line| show(&name, line))?;
        tails.push((name, tail));
    }
    if logs.follow {
        follow(&mut tails, &show)?;
    }
    Ok(Exit::Fine)
}

/// Shows lines as they come, until the program is ended.
fn follow(
    tails: &mut [(String, Tail)],
    show: &dyn Fn(&str, &str) -> io::Result<()>,
) -> anyhow::Result<()> {
    loop {
        for (name, tail) in &mut *tails {
            let lines = tail.more()?;
            lines.iter().try_for_each(|line| show(name, line))?;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The folder of the running flow that is meant, or of one that has ended.
fn folder(file: Option<&Path>, shell: &Shell) -> anyhow::Result<PathBuf> {
    let running = places::running(file, shell)?;
    match (running.len(), file) {
        (0, Some(file)) => {
            let plan = flow_spec::Plan::from(flow_file::load(file, shell)?.flow);
            let folder = places::folder(file, plan.workspace.as_deref(), shell);
            folder.context("there is no place for a flow's files: neither HOME nor a workspace")
        }
        _ => Ok(places::the_running(file, shell)?.folder),
    }
}

/// The processes that have logs and are meant: by their own name, by their node's, or all.
fn named(folder: &Path, name: Option<&str>) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    gather(folder, "", &mut all);
    all.sort();
    anyhow::ensure!(
        !all.is_empty(),
        "there are no logs in `{}`",
        folder.display()
    );
    let Some(name) = name else {
        return Ok(all);
    };
    let within = format!("{name}/");
    let is_meant = |it: &&String| *it == name || it.starts_with(&within);
    let meant: Vec<String> = all.iter().filter(is_meant).cloned().collect();
    if meant.is_empty() {
        let known: Vec<String> = all.iter().map(|it| format!("`{it}`")).collect();
        let known = known.join(", ");
        anyhow::bail!(BadUsage(format!(
            "there is no log of `{name}`; there are {known}"
        )));
    }
    Ok(meant)
}

/// Names of processes with a log, from the files' names.
fn gather(folder: &Path, before: &str, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        match file.strip_suffix(".log") {
            Some(name) => names.push(format!("{before}{name}")),
            None if entry.path().is_dir() => {
                gather(&entry.path(), &format!("{before}{file}/"), names);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_meant_by_its_process_or_its_node() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "a/rep-1", "ab", "gateway"] {
            let path = log_file(folder.path(), name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let check = |name: Option<&str>, expected: &[&str]| {
            assert_eq!(named(folder.path(), name).unwrap(), expected, "{name:?}");
        };
        check(None, &["a", "a/rep-1", "ab", "gateway"]);
        check(Some("a"), &["a", "a/rep-1"]);
        check(Some("a/rep-1"), &["a/rep-1"]);
        check(Some("gateway"), &["gateway"]);
        let error = named(folder.path(), Some("b")).unwrap_err().to_string();
        let expected = "there is no log of `b`; there are `a`, `a/rep-1`, `ab`, `gateway`";
        assert_eq!(error, expected);
    }
}
