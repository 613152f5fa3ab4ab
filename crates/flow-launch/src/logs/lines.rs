//! Lines of a process that are passed on together.

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
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &str> {
        self.text.split('\n')
    }

    /// Their length in bytes.
    pub(crate) fn len(&self) -> usize {
        self.text.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
