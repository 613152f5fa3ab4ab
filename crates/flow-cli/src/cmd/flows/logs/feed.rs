//! The lines of the log files of a flow, merged by time, as they are written.

use std::path::{Path, PathBuf};

use anyhow::Context;
use flow_launch::log_file;

use super::interleave::{LogLineEntry, last, merged};
use super::tail::Tail;
use crate::exit::BadUsage;

/// The log files that are read.
#[derive(Debug)]
pub(crate) struct LogFeed {
    folder: PathBuf,
    /// An executor or one of its processes. `None` is all.
    wanted: Option<String>,
    tails: Vec<(String, Tail)>,
}

impl LogFeed {
    /// Opens the logs in a folder, and returns their last lines.
    pub(crate) fn open(
        folder: PathBuf,
        wanted: Option<String>,
        lines: usize,
    ) -> anyhow::Result<(Self, Vec<LogLineEntry>)> {
        let names = named(&folder, wanted.as_deref())?;
        let mut feed = Self {
            folder,
            wanted,
            tails: Vec::new(),
        };
        let entries: anyhow::Result<Vec<_>> = names
            .iter()
            .map(|name| feed.open_log(name, lines))
            .collect();
        Ok((feed, last(merged(entries?), lines)))
    }

    /// The lines that were written since.
    pub(crate) fn more(&mut self) -> anyhow::Result<Vec<LogLineEntry>> {
        let mut entries = Vec::new();
        for (name, tail) in &mut self.tails {
            let more = tail.more();
            let more = more.with_context(|| format!("cannot read the log of `{name}`"))?;
            entries.push(LogLineEntry::all(name, more));
        }
        // A change of the flow may have added processes.
        for name in self.added() {
            entries.push(self.open_log(&name, usize::MAX)?);
        }
        Ok(merged(entries))
    }

    /// The processes whose logs are read.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.tails.iter().map(|(name, _)| name.as_str()).collect()
    }

    /// Opens the log of a process, and returns its last lines.
    fn open_log(&mut self, name: &str, lines: usize) -> anyhow::Result<Vec<LogLineEntry>> {
        let (tail, lines) = Tail::open(log_file(&self.folder, name), lines)
            .with_context(|| format!("cannot read the log of `{name}`"))?;
        let entries = LogLineEntry::all(name, lines);
        self.tails.push((name.to_owned(), tail));
        Ok(entries)
    }

    /// Names of processes whose logs are not open yet.
    fn added(&self) -> Vec<String> {
        let names = named(&self.folder, self.wanted.as_deref()).unwrap_or_default();
        let is_new = |name: &String| self.tails.iter().all(|(known, _)| known != name);
        names.into_iter().filter(is_new).collect()
    }
}

/// The processes with logs: the one of this name, those of the executor of this name, or all.
fn named(folder: &Path, name: Option<&str>) -> anyhow::Result<Vec<String>> {
    let all = names(folder);
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

/// The processes that have logs in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut all = Vec::new();
    collect(folder, "", &mut all);
    all.sort();
    all
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
