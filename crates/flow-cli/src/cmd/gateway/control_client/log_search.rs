//! Searches the logs of all processes for the newest entries that a query asks for.
//!
//! It reads backwards, a block at a time, and keeps a bounded number of entries. A level, and the id of a request, are
//! on the first line of what was logged at once, such as a traceback: further lines belong to the line above them if they
//! have no level of their own and were written within [`SAME_ENTRY_WITHIN`].

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, SystemTime};

use flow_gateway::supervisor::{LogEntry, LogExcerpt, LogQuery};
use flow_launch::{LogLine, LogSource, log_file};

use super::newest_lines::NewestLines;
use crate::cmd::flows::log_names;

/// Most entries of one answer: more than a page shows at once.
const ENTRIES_MAX: usize = 500;

/// Most bytes of the texts of one answer.
const TEXTS_LEN_MAX: usize = 512 << 10;

/// Most bytes that are read for one answer, of all logs together. A log with its rotated files has 40 MiB.
const READ_MAX: u64 = 64 << 20;

/// Lines of one entry, and their bytes: longer ones, such as the traceback of a deep recursion, are cut.
const LINES_MAX: usize = 200;
const ENTRY_LEN_MAX: usize = 16 << 10;

/// Lines that a process writes one after another, and the supervisor reads at once.
const SAME_ENTRY_WITHIN: Duration = Duration::from_millis(50);

/// Searches the logs in a folder. A log that cannot be read is left out.
pub(super) fn search(folder: &Path, query: &LogQuery) -> LogExcerpt {
    let searched_us = micros(SystemTime::now());
    let processes = log_names(folder);
    let mut found = NewestEntries::default();
    let mut is_cut = false;
    let wanted: Vec<&String> = processes
        .iter()
        .filter(|it| query.wants_process(it))
        .collect();
    for (number, process) in wanted.iter().enumerate() {
        let Ok(lines) = NewestLines::of(&log_file(folder, process)) else {
            continue;
        };
        // Each log gets its share of what is left, so that the first does not use it up.
        let rest = READ_MAX.saturating_sub(found.read);
        let share = rest / u64::try_from(wanted.len() - number).unwrap_or(1);
        let mut log = EntriesOf::new(process, lines, share);
        log.collect(query, &mut found);
        found.read += log.lines.bytes;
        is_cut |= log.is_cut;
    }
    LogExcerpt {
        entries: found.entries.into_values().collect(),
        searched_us,
        processes,
        is_cut: is_cut || found.is_full,
    }
}

/// The newest entries that were found.
#[derive(Debug, Default)]
struct NewestEntries {
    /// By time, process, and order within the process.
    entries: BTreeMap<(u64, String, usize), LogEntry>,
    texts_len: usize,
    /// Whether there was no room for older entries.
    is_full: bool,
    /// Bytes that were read.
    read: u64,
}

impl NewestEntries {
    fn add(&mut self, entry: LogEntry, order: usize) {
        self.texts_len += entry.text.len();
        let key = (entry.at_us, entry.process.clone(), order);
        self.entries.insert(key, entry);
        while self.entries.len() > ENTRIES_MAX || self.texts_len > TEXTS_LEN_MAX {
            let Some((_, oldest)) = self.entries.pop_first() else {
                return;
            };
            self.texts_len -= oldest.text.len();
            self.is_full = true;
        }
    }

    /// Whether an entry of this time is older than all that are kept, and there is no room for it.
    fn is_too_old(&self, at_us: u64) -> bool {
        let oldest = self.entries.first_key_value();
        self.is_full && oldest.is_some_and(|((oldest, ..), _)| at_us < *oldest)
    }
}

/// The entries of one log, the newest first.
struct EntriesOf<'p> {
    process: &'p str,
    lines: NewestLines,
    read_max: u64,
    /// Lines that may belong to the line above them, the newest first.
    rest: Vec<LogLine>,
    /// Counts down, because older entries come later.
    order: usize,
    /// Whether older lines were not read.
    is_cut: bool,
}

impl<'p> EntriesOf<'p> {
    fn new(process: &'p str, lines: NewestLines, read_max: u64) -> Self {
        Self {
            process,
            lines,
            read_max,
            rest: Vec::new(),
            order: usize::MAX,
            is_cut: false,
        }
    }

    fn collect(&mut self, query: &LogQuery, found: &mut NewestEntries) {
        // A log that cannot be read any further ends here.
        while let Ok(Some(line)) = self.lines.next() {
            if self.lines.bytes > self.read_max {
                self.is_cut = true;
                break;
            }
            let line = LogLine::parse(&line).unwrap_or_else(|| self.without_time(line));
            let at_us = micros(line.time);
            if query.since_us.is_some_and(|since| at_us < since) || found.is_too_old(at_us) {
                break;
            }
            self.add(line, query, found);
        }
        self.flush(query, found);
    }

    /// A line that an older version of flow wrote, or another program.
    fn without_time(&self, text: String) -> LogLine {
        let newer = self.rest.last();
        LogLine {
            time: newer.map_or(SystemTime::UNIX_EPOCH, |it| it.time),
            source: newer.map_or(LogSource::Stderr, |it| it.source),
            text: text.into(),
        }
    }

    fn add(&mut self, line: LogLine, query: &LogQuery, found: &mut NewestEntries) {
        if !self.rest.last().is_none_or(|newer| continues(newer, &line)) || self.is_full() {
            self.flush(query, found);
        }
        let is_note = line.source == LogSource::Flow;
        let mut entry = self.entry(&line);
        if entry.level.is_none() {
            self.rest.push(line);
            return;
        }
        if !is_note && !self.rest.is_empty() {
            let mut text = line.text.to_string();
            while let Some(next) = self.rest.pop() {
                text.push('\n');
                text.push_str(&next.text);
            }
            let level = entry.level;
            entry = self.entry(&LogLine {
                text: text.into(),
                ..line
            });
            entry.level = level;
        }
        self.flush(query, found);
        self.keep(entry, query, found);
    }

    fn is_full(&self) -> bool {
        let len = self.rest.iter().map(|it| it.text.len()).sum::<usize>();
        self.rest.len() >= LINES_MAX || len >= ENTRY_LEN_MAX
    }

    /// Lines that belong to no line above them are entries of their own.
    fn flush(&mut self, query: &LogQuery, found: &mut NewestEntries) {
        for line in std::mem::take(&mut self.rest) {
            let entry = self.entry(&line);
            self.keep(entry, query, found);
        }
    }

    fn keep(&mut self, entry: LogEntry, query: &LogQuery, found: &mut NewestEntries) {
        self.order -= 1;
        if query.wants(&entry) {
            found.add(entry, self.order);
        }
    }

    fn entry(&self, line: &LogLine) -> LogEntry {
        let is_note = line.source == LogSource::Flow;
        LogEntry::new(micros(line.time), self.process, is_note, &line.text)
    }
}

/// Whether a line was written right after an older one.
fn continues(newer: &LogLine, older: &LogLine) -> bool {
    let gap = newer.time.duration_since(older.time);
    newer.source == older.source && gap.is_ok_and(|it| it <= SAME_ENTRY_WITHIN)
}

/// Microseconds since 1970.
fn micros(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let micros = since.unwrap_or_default().as_micros();
    u64::try_from(micros).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
