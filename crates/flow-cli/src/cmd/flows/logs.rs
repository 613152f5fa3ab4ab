//! `flow logs`: prints the log files of a flow's processes, merged by time. The files outlive the flow.

mod feed;
mod interleave;
mod shown;
mod tail;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use flow_launch::StateDirectory;

pub(super) use self::feed::LogFeed;
pub(crate) use self::feed::names as log_names;
pub(super) use self::interleave::LogLineEntry;
use self::shown::LineFormat;
use crate::cmd::flows::running;
use crate::exit::Exit;
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
The gateway writes a line for each request that fails, with its id, endpoint and cause.

Exit codes: 0 success, 1 failure, or no flow is running, 2 bad usage.";

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
    let look = LineFormat {
        format: shell.log.format,
        painter: Painter::stdout(shell),
        timestamps: logs.timestamps,
        columns: output::columns(io::stdout()),
    };
    let (feed, last) = LogFeed::open(folder, logs.name.clone(), logs.lines)?;
    let mut shown = Shown { feed, look };
    shown.show(last)?;
    if logs.follow {
        shown.follow()?;
    }
    Ok(Exit::Fine)
}

/// The logs that are shown.
struct Shown {
    feed: LogFeed,
    look: LineFormat,
}

impl Shown {
    /// Shows new lines until the program ends.
    fn follow(&mut self) -> anyhow::Result<()> {
        loop {
            let entries = self.feed.more()?;
            self.show(entries)?;
            std::thread::sleep(POLL_INTERVAL);
        }
    }

    fn show(&self, entries: Vec<LogLineEntry>) -> anyhow::Result<()> {
        let lines = self.look.lines(entries, &self.feed.names());
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
