//! Lines of a process that are passed on together, and the last ones.

use std::collections::VecDeque;
use std::sync::Arc;

/// One or more lines of a process. A process that logs much writes many at once, and passing them on one by one would cost more
/// than writing them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lines {
    /// With a line break between each two.
    text: Arc<str>,
    count: usize,
}

impl Lines {
    /// The lines of a text, the last of which has no line end.
    #[must_use]
    pub fn new(text: impl Into<Arc<str>>) -> Self {
        let text = text.into();
        let breaks = memchr::memchr_iter(b'\n', text.as_bytes()).count();
        Self {
            text,
            count: breaks + 1,
        }
    }

    /// Their number, which is not zero.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Each line, without its line end.
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.text.split('\n')
    }

    /// Their length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }
}

/// The last lines of processes, and those that were passed on with the first of them.
#[derive(Debug)]
pub struct LastLines {
    lines: VecDeque<(Arc<str>, Lines)>,
    count: usize,
    max: usize,
}

impl LastLines {
    /// Keeps at least this many lines, once there are as many.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self {
            lines: VecDeque::new(),
            count: 0,
            max,
        }
    }

    /// Adds lines of a process.
    pub fn push(&mut self, process: Arc<str>, lines: Lines) {
        self.count += lines.count();
        self.lines.push_back((process, lines));
        while let Some((_, oldest)) = self.lines.front()
            && self.count - oldest.count() >= self.max
        {
            self.count -= oldest.count();
            self.lines.pop_front();
        }
    }

    /// The lines of a process, oldest first.
    pub fn of(&self, process: &str) -> impl Iterator<Item = &str> {
        let of_process = self
            .lines
            .iter()
            .filter(move |(name, _)| **name == *process);
        of_process.flat_map(|(_, lines)| lines.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_of_a_process_are_kept_among_those_of_others() {
        let mut last = LastLines::new(4);
        for (process, lines) in [("a", "1\n2"), ("b", "x"), ("a", "3"), ("b", "y")] {
            last.push(process.into(), Lines::new(lines));
        }
        assert_eq!(last.of("a").collect::<Vec<_>>(), ["1", "2", "3"]);
        last.push("b".into(), Lines::new("z"));
        assert_eq!(last.of("a").collect::<Vec<_>>(), ["3"]);
        assert_eq!(last.of("b").collect::<Vec<_>>(), ["x", "y", "z"]);
    }

    #[test]
    fn lines_are_those_of_the_text() {
        for (text, expected) in [
            ("", &[""][..]),
            ("a", &["a"]),
            ("a\n\nb", &["a", "", "b"]),
            ("\n", &["", ""]),
        ] {
            let lines = Lines::new(text);
            assert_eq!(lines.iter().collect::<Vec<_>>(), expected);
            assert_eq!(lines.count(), expected.len());
        }
    }
}
