//! What is shown, and how keys and samples change it. Pure.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::Duration;

use flow_launch::LogSource;

use super::columns::{self, Column, Sort};
use super::input::Action;
use super::model::{FlowModel, Row};
use super::sample::FlowSample;
use crate::cmd::flows::logs::LogLineEntry;
use crate::escape::{escape, escape_without_colors};
use crate::layout::width;

/// Lines of a log that are kept, to scroll back.
pub(super) const LOG_LINES_MAX: usize = 2_000;

/// What `flow top` shows.
#[derive(Debug, Default)]
pub(super) struct App {
    flows: Vec<WatchedFlow>,
    /// The process of the flow that is shown.
    current: Option<u32>,
    /// The stack of views above that of the processes.
    views: Vec<View>,
    pub(super) sort: Sort,
    /// The name of the selected process.
    selected: Option<String>,
    pub(super) log: Log,
    /// Columns of the table that fit.
    pub(super) columns: Vec<(Column, usize)>,
    /// Rows of a table, or lines of a log, that fit.
    page: usize,
    /// Time since the first sample could be taken.
    pub(super) now: Duration,
    /// Time between two samples.
    pub(super) interval: Duration,
}

/// A flow that is watched.
#[derive(Debug)]
struct WatchedFlow {
    pid: u32,
    /// The flow file.
    file: PathBuf,
    state_directory: PathBuf,
    model: FlowModel,
}

/// What is shown on top of the processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum View {
    /// The processes of a node, its charts and its logs; `None` is the gateway.
    Node(Option<String>),
    /// The log of a process.
    Logs(String),
    Help,
}

/// The log that is shown.
#[derive(Debug, Default)]
pub(super) struct Log {
    /// The newest last.
    pub(super) lines: VecDeque<LogLine>,
    /// Lines below the screen; 0 follows the log.
    pub(super) below: usize,
    /// Why there are none.
    pub(super) problem: Option<String>,
}

/// A line of a log, without control characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct LogLine {
    pub(super) process: String,
    pub(super) text: String,
}

/// The logs that are to be read: of which flow, and of which executor or process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct WantedLog {
    pub(super) state_directory: PathBuf,
    pub(super) name: String,
}

impl App {
    /// An application that gets a sample in each interval.
    pub(super) fn new(interval: Duration) -> Self {
        Self {
            interval,
            ..Self::default()
        }
    }

    /// Adds what is known now. A flow that has ended is no longer shown.
    pub(super) fn add(&mut self, samples: Vec<FlowSample>) {
        let is_running = |pid| samples.iter().any(|it| it.entry.pid == pid);
        self.flows.retain(|flow| is_running(flow.pid));
        for FlowSample { entry, sample } in samples {
            let at = self.flows.iter().position(|it| it.pid == entry.pid);
            let at = at.unwrap_or_else(|| {
                self.flows.push(WatchedFlow {
                    pid: entry.pid,
                    file: entry.file,
                    state_directory: entry.state_directory,
                    model: FlowModel::default(),
                });
                self.flows.len() - 1
            });
            self.flows[at].model.push(sample);
        }
        if self.flow().is_none() {
            self.views.clear();
            self.current = self.flows.first().map(|it| it.pid);
        }
    }

    /// Changes what is shown; `false` ends the program.
    pub(super) fn act(&mut self, action: Action) -> bool {
        match action {
            Action::Quit => return false,
            Action::Back => return self.views.pop().is_some(),
            Action::Move(by) => self.scroll(by),
            Action::Page(by) => {
                let page = isize::try_from(self.page.max(1)).unwrap_or(isize::MAX);
                self.scroll(by.saturating_mul(page));
            }
            Action::First => self.scroll(isize::MIN),
            Action::Last => self.scroll(isize::MAX),
            Action::SortBy(steps) => {
                let shown: Vec<Column> = self.columns.iter().map(|(column, _)| *column).collect();
                self.sort = self.sort.step(&shown, steps);
            }
            Action::Reverse => self.sort.is_reversed = !self.sort.is_reversed,
            Action::FollowNode => self.follow(),
            Action::Logs => self.show_log(),
            Action::NextFlow => self.next_flow(),
            Action::Help => match self.view() {
                Some(View::Help) => drop(self.views.pop()),
                _ => self.views.push(View::Help),
            },
        }
        true
    }

    /// Fits the table to the terminal: to its columns, and to the rows that nothing else takes.
    pub(super) fn fit(&mut self, columns: usize, page: usize) {
        let rows = self.all_rows();
        let names = rows.iter().map(|row| width(&escape(&row.name)));
        self.columns = columns::fitted(names, columns);
        self.page = page;
    }

    /// Adds lines of the log that is shown.
    pub(super) fn add_log(&mut self, entries: Vec<LogLineEntry>) {
        let followed = self.log.below == 0;
        for entry in entries {
            self.log.lines.push_back(LogLine::of(&entry));
            if !followed {
                self.log.below += 1;
            }
        }
        let surplus = self.log.lines.len().saturating_sub(LOG_LINES_MAX);
        self.log.lines.drain(..surplus);
        self.log.below = self.log.below.min(self.log.lines.len().saturating_sub(1));
    }

    /// The log that is to be shown, if any.
    pub(super) fn wanted_log(&self) -> Option<WantedLog> {
        let mut views = self.views.iter().rev().filter(|it| **it != View::Help);
        let name = match views.next()? {
            View::Logs(process) => process.clone(),
            View::Node(Some(node)) => node.clone(),
            View::Node(None) => self.gateway()?,
            View::Help => return None,
        };
        Some(WantedLog {
            state_directory: self.flow()?.state_directory.clone(),
            name,
        })
    }

    /// What is shown on top of the processes.
    pub(super) fn view(&self) -> Option<&View> {
        self.views.last()
    }

    /// The rows that are shown, in their order.
    pub(super) fn rows(&self) -> Vec<Row> {
        let mut rows = self.all_rows();
        if let Some(View::Node(node)) = self.views.first() {
            rows.retain(|row| row.node == *node);
        }
        self.sort.apply(&mut rows);
        rows
    }

    /// The place of the selected row among those that are shown.
    pub(super) fn selected(&self, rows: &[Row]) -> usize {
        let name = self.selected.as_ref();
        let found = rows.iter().position(|row| Some(&row.name) == name);
        found.unwrap_or(0)
    }

    pub(super) fn model(&self) -> Option<&FlowModel> {
        self.flow().map(|it| &it.model)
    }

    /// The flow's own name, or that of its file.
    pub(super) fn title(&self) -> Option<String> {
        let flow = self.flow()?;
        let file = flow.file.file_stem().unwrap_or_default().to_string_lossy();
        Some(flow.model.name().unwrap_or(&file).to_owned())
    }

    /// The place of the flow that is shown among all, and how many there are.
    pub(super) fn place(&self) -> (usize, usize) {
        let at = self
            .flows
            .iter()
            .position(|it| Some(it.pid) == self.current);
        (at.map_or(0, |it| it + 1), self.flows.len())
    }

    fn flow(&self) -> Option<&WatchedFlow> {
        self.flows.iter().find(|it| Some(it.pid) == self.current)
    }

    fn all_rows(&self) -> Vec<Row> {
        self.model().map(FlowModel::rows).unwrap_or_default()
    }

    fn gateway(&self) -> Option<String> {
        let gateway = self.all_rows().into_iter().find(|it| it.node.is_none());
        gateway.map(|it| it.name)
    }

    fn scroll(&mut self, by: isize) {
        if let Some(View::Logs(_)) = self.view() {
            let most = self.log.lines.len().saturating_sub(1);
            self.log.below = match by {
                isize::MIN => most,
                isize::MAX => 0,
                by => self.log.below.saturating_add_signed(-by).min(most),
            };
            return;
        }
        let rows = self.rows();
        let last = rows.len().saturating_sub(1);
        let at = self.selected(&rows).saturating_add_signed(by).min(last);
        self.selected = rows.get(at).map(|it| it.name.clone());
    }

    fn selected_row(&self) -> Option<Row> {
        let rows = self.rows();
        rows.get(self.selected(&rows)).cloned()
    }

    fn follow(&mut self) {
        if !self.views.is_empty() {
            return;
        }
        if let Some(row) = self.selected_row() {
            self.selected = Some(row.name);
            self.views.push(View::Node(row.node));
        }
    }

    fn show_log(&mut self) {
        if matches!(self.view(), Some(View::Logs(_) | View::Help)) {
            return;
        }
        if let Some(row) = self.selected_row() {
            self.selected = Some(row.name.clone());
            self.views.push(View::Logs(row.name));
        }
    }

    fn next_flow(&mut self) {
        let (at, all) = self.place();
        if all > 1 {
            self.views.clear();
            self.selected = None;
            self.current = self.flows.get(at % all).map(|it| it.pid);
        }
    }
}

impl LogLine {
    fn of(entry: &LogLineEntry) -> Self {
        let text = escape_without_colors(&entry.text).replace('\t', "    ");
        let text = match entry.origin {
            Some((_, LogSource::Flow)) => format!("── {text} ──"),
            _ => text,
        };
        Self {
            process: escape(&entry.name).into_owned(),
            text,
        }
    }
}

#[cfg(test)]
mod tests;
