//! `flow logs`: prints the log files of a flow's processes, merged by time. The files outlive the flow.

mod interleave;
mod shown;
mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use flow_launch::{StateDirectory, log_file};

use self::interleave::{Entry, last, merged};
use self::shown::Look;
use self::tail::Tail;
use crate::cmd::flows::running;
use crate::exit::{BadUsage, Exit};
use crate::flow_file::{self, ReadOptions};
use crate::output::{self, Painter};
use crate::paths;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow logs                       # the last lines of all processes, merged by time
  flow logs -f                    # and go on with new ones
  flow logs gateway -n 1000
  flow logs encoder/rep-0 --timestamps --flow flows/encode.yml
  flow logs --log json            # a JSON object for each line, for programs

Lines between `──` are notes of flow itself: a process starts, is ready, or ends.
The gateway writes a line for each request that fails, with its id, endpoint and cause.";

/// Interval of looking for new lines.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Options of `flow logs`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Logs {
    /// Show only this executor, one of its processes such as `encoder/rep-0`, or `gateway` [default: all]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Keep running and show new lines as they are written
    #[arg(long, short)]
    follow: bool,
    /// Show the last N lines of all selected processes together
    #[arg(long, short = 'n', value_name = "N", default_value_t = 100)]
    lines: usize,
    /// Show the time of each line, in UTC
    #[arg(long, short)]
    timestamps: bool,
    /// Show the logs of this flow; needed if several flows are running, or if it has ended
    #[arg(long, value_name = "FLOW.yml")]
    flow: Option<PathBuf>,
}

pub(crate) fn run(logs: &Logs, shell: &Shell) -> anyhow::Result<Exit> {
    let folder = StateDirectory::logs(&folder(logs.flow.as_deref(), shell)?);
    let look = Look {
        format: shell.log.format,
        painter: Painter::stdout(shell),
        timestamps: logs.timestamps,
        columns: output::columns(io::stdout()),
    };
    let mut shown = Shown {
        wanted: logs.name.clone(),
        tails: Vec::new(),
        folder,
        look,
    };
    shown.begin(logs.lines)?;
    if logs.follow {
        shown.follow()?;
    }
    Ok(Exit::Fine)
}

/// The log files that are shown.
struct Shown {
    folder: PathBuf,
    /// An executor or one of its processes. `None` shows all.
    wanted: Option<String>,
    tails: Vec<(String, Tail)>,
    look: Look,
}

impl Shown {
    /// Shows the last lines.
    fn begin(&mut self, lines: usize) -> anyhow::Result<()> {
        let mut entries = Vec::new();
        for name in named(&self.folder, self.wanted.as_deref())? {
            entries.push(self.open(&name, lines)?);
        }
        self.show(last(merged(entries), lines))
    }

    /// Shows new lines until the program ends.
    fn follow(&mut self) -> anyhow::Result<()> {
        loop {
            let mut entries = Vec::new();
            for (name, tail) in &mut self.tails {
                let more = tail.more();
                let more = more.with_context(|| format!("cannot read the log of `{name}`"))?;
                entries.push(Entry::all(name, more));
            }
            // A change of the flow may have added processes.
            for name in self.added() {
                entries.push(self.open(&name, usize::MAX)?);
            }
            self.show(merged(entries))?;
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    /// Opens the log of a process, and returns its last lines.
    fn open(&mut self, name: &str, lines: usize) -> anyhow::Result<Vec<Entry>> {
        let (tail, lines) = Tail::open(log_file(&self.folder, name), lines)
            .with_context(|| format!("cannot read the log of `{name}`"))?;
        let entries = Entry::all(name, lines);
        self.tails.push((name.to_owned(), tail));
        Ok(entries)
    }

    /// Names of processes whose logs are not open yet.
    fn added(&self) -> Vec<String> {
        let names = named(&self.folder, self.wanted.as_deref()).unwrap_or_default();
        let is_new = |name: &String| self.tails.iter().all(|(known, _)| known != name);
        names.into_iter().filter(is_new).collect()
    }

    fn show(&self, entries: Vec<Entry>) -> anyhow::Result<()> {
        let names = self.tails.iter().map(|(name, _)| name.as_str());
        let lines = self.look.lines(entries, &names.collect::<Vec<_>>());
        let shown: io::Result<()> = lines.iter().try_for_each(|line| output::line(line));
        Ok(shown?)
    }
}

/// The state folder of the running flow, or of one that has ended.
fn folder(file: Option<&Path>, shell: &Shell) -> anyhow::Result<PathBuf> {
    match (running::find(file, shell)?.len(), file) {
        (0, Some(file)) => {
            let plan = flow_spec::Plan::from(
                flow_file::load(file, ReadOptions { lenient: true }, shell)?.flow,
            );
            let folder = paths::flow_state_folder(file, plan.workspace.as_deref(), shell);
            folder.context("cannot find the logs: the flow has no workspace, and HOME is not set")
        }
        _ => Ok(running::find_one(file, shell)?.state_directory),
    }
}

/// The processes with logs: the one of this name, those of the executor of this name, or all.
fn named(folder: &Path, name: Option<&str>) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    collect(folder, "", &mut all);
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
    let matches = |it: &&String| *it == name || it.starts_with(&within);
    let found: Vec<String> = all.iter().filter(matches).cloned().collect();
    if found.is_empty() {
        let known: Vec<String> = all.iter().map(|it| format!("`{it}`")).collect();
        let known = known.join(", ");
        anyhow::bail!(BadUsage(format!(
            "there is no log of `{name}`; there are {known}"
        )));
    }
    Ok(found)
}

/// Collects the names of processes from the names of log files.
fn collect(folder: &Path, before: &str, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.flatten() {
        let file = entry.file_name().to_string_lossy().into_owned();
        match file.strip_suffix(".log") {
            Some(name) => names.push(format!("{before}{name}")),
            None if entry.path().is_dir() => {
                collect(&entry.path(), &format!("{before}{file}/"), names);
            }
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logs_are_found_by_process_or_by_executor() {
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
