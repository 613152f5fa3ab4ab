//! Merges the lines of several logs by time. Pure.

use std::time::SystemTime;

use flow_launch::{LogLine, LogSource};

/// A line of the log of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LogLineEntry {
    /// The process.
    pub(crate) name: String,
    /// Its time, but never before that of the line above it, even if the clock was set back.
    order: SystemTime,
    pub(crate) text: String,
    /// Its time and source. `None` in logs of older versions of flow.
    pub(crate) origin: Option<(SystemTime, LogSource)>,
}

impl LogLineEntry {
    /// The lines of one log, oldest first.
    pub(crate) fn all(name: &str, lines: Vec<String>) -> Vec<Self> {
        let mut order = SystemTime::UNIX_EPOCH;
        let entry = |line: String| {
            let (text, origin) = match LogLine::parse(&line) {
                Some(line) => (line.text.to_string(), Some((line.time, line.source))),
                None => (line, None),
            };
            order = origin.map_or(order, |(time, _)| time.max(order));
            let name = name.to_owned();
            Self {
                name,
                order,
                text,
                origin,
            }
        };
        lines.into_iter().map(entry).collect()
    }
}

/// All lines by time. Lines of the same time keep their order.
pub(super) fn merged(logs: Vec<Vec<LogLineEntry>>) -> Vec<LogLineEntry> {
    let mut all: Vec<LogLineEntry> = logs.into_iter().flatten().collect();
    all.sort_by_key(|entry| entry.order);
    all
}

/// The last `count` entries.
pub(super) fn last(mut entries: Vec<LogLineEntry>, count: usize) -> Vec<LogLineEntry> {
    let skipped = entries.len().saturating_sub(count);
    entries.split_off(skipped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(name: &str, lines: &[(u32, &str)]) -> Vec<LogLineEntry> {
        let line = |(second, text): &(u32, &str)| match second {
            0 => (*text).to_owned(),
            second => format!("2026-11-22T03:16:{second:02}.000000Z stderr {text}"),
        };
        LogLineEntry::all(name, lines.iter().map(line).collect())
    }

    fn texts(entries: &[LogLineEntry]) -> Vec<&str> {
        entries.iter().map(|entry| entry.text.as_str()).collect()
    }

    #[test]
    fn lines_of_several_processes_are_sorted_by_time() {
        let a = log("a", &[(1, "a1"), (4, "a4"), (5, "a5")]);
        let b = log("b", &[(2, "b2"), (4, "b4")]);
        let all = merged(vec![a, b]);
        assert_eq!(texts(&all), ["a1", "b2", "a4", "b4", "a5"]);
        assert_eq!(texts(&last(all.clone(), 2)), ["b4", "a5"]);
        assert_eq!(texts(&last(all.clone(), 0)), [""; 0]);
        assert_eq!(last(all.clone(), 9), all);
    }

    #[test]
    fn a_log_keeps_its_order_even_if_the_clock_was_set_back() {
        let a = log("a", &[(5, "first"), (2, "second"), (6, "third")]);
        let b = log("b", &[(3, "b3")]);
        let all = merged(vec![a, b]);
        assert_eq!(texts(&all), ["b3", "first", "second", "third"]);
    }

    #[test]
    fn lines_without_a_time_stay_below_the_one_above_them() {
        let a = log("a", &[(0, "old"), (3, "a3"), (0, "more of it"), (5, "a5")]);
        let b = log("b", &[(4, "b4")]);
        let all = merged(vec![a, b]);
        assert_eq!(texts(&all), ["old", "a3", "more of it", "b4", "a5"]);
        assert_eq!(all[0].origin, None);
    }
}
