//! The lines of an input that may be larger than memory, each with its number and its end.
//!
//! A line that is too long or not UTF-8 is an error of its own: the next line is read as usual.

use std::io::{self, BufRead, Read};

/// Maximum bytes of a line. It becomes a text, a JSON tree and a message, so that it is in memory several times. Documents
/// with images have some megabytes.
pub(super) const LINE_LEN_MAX: usize = 128 << 20;

/// Some editors put it before the first line.
const BYTE_ORDER_MARK: &str = "\u{feff}";

/// Reads lines.
#[derive(Debug)]
pub(super) struct Lines<R> {
    input: R,
    len_max: usize,
    number: u64,
    offset: u64,
}

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// The first is 1.
    pub(super) number: u64,
    /// Bytes of the input up to the end of this line.
    pub(super) end: u64,
    /// The text without the line end.
    pub(super) text: Result<String, BadLine>,
}

/// A line is not a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadLine {
    #[error("is not valid UTF-8 at byte {byte}")]
    NotUtf8 { byte: usize },
    #[error("is longer than the limit of {len_max} bytes")]
    TooLong { len_max: usize },
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(input: R) -> Self {
        Self::with_len_max(input, LINE_LEN_MAX)
    }

    fn with_len_max(input: R, len_max: usize) -> Self {
        Self {
            input,
            len_max,
            number: 0,
            offset: 0,
        }
    }

    /// The next line. `None` at the end of the input.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        // A line of the maximum length may end in `\r\n`.
        let taken_max = self.len_max as u64 + 2;
        let mut bytes = Vec::new();
        let taken = self
            .input
            .by_ref()
            .take(taken_max)
            .read_until(b'\n', &mut bytes)?;
        if taken == 0 {
            return Ok(None);
        }
        self.number += 1;
        self.offset += taken as u64;
        let is_whole = bytes.ends_with(b"\n") || (taken as u64) < taken_max;
        if !is_whole {
            self.offset += skip_line(&mut self.input)?;
        }
        cut_line_end(&mut bytes);
        let text = self.text(bytes);
        Ok(Some(Line {
            number: self.number,
            end: self.offset,
            text,
        }))
    }

    fn text(&self, bytes: Vec<u8>) -> Result<String, BadLine> {
        if bytes.len() > self.len_max {
            return Err(BadLine::TooLong {
                len_max: self.len_max,
            });
        }
        let text = String::from_utf8(bytes).map_err(|error| BadLine::NotUtf8 {
            byte: error.utf8_error().valid_up_to() + 1,
        })?;
        match text.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if self.number == 1 => Ok(rest.to_owned()),
            _ => Ok(text),
        }
    }
}

fn cut_line_end(bytes: &mut Vec<u8>) {
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
}

/// Skips the rest of a line, and returns its length.
fn skip_line(input: &mut impl BufRead) -> io::Result<u64> {
    let mut skipped = 0;
    loop {
        let part = input.fill_buf()?;
        let end = part.iter().position(|&byte| byte == b'\n');
        let len = end.map_or(part.len(), |at| at + 1);
        input.consume(len);
        skipped += len as u64;
        if end.is_some() || len == 0 {
            return Ok(skipped);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// The limit in these tests.
    const LEN_MAX: usize = 8;

    fn lines(input: &[u8]) -> Vec<Line> {
        // Tiny buffers, so that lines cross their ends.
        let mut lines = Lines::with_len_max(BufReader::with_capacity(3, input), LEN_MAX);
        std::iter::from_fn(|| lines.next().unwrap()).collect()
    }

    fn check(input: &[u8], wanted: &[&str]) {
        let lines = lines(input);
        let texts: Vec<&str> = lines
            .iter()
            .map(|line| line.text.as_deref().unwrap())
            .collect();
        assert_eq!(texts, wanted, "{}", input.escape_ascii());
        assert_eq!(lines.last().map_or(0, |line| line.end), input.len() as u64);
    }

    #[test]
    fn line_ends_of_all_systems_are_removed() {
        check(b"", &[]);
        check(b"a\nb\n", &["a", "b"]);
        check(b"a\nb", &["a", "b"]);
        check(b"a\r\nb\r\n", &["a", "b"]);
        check(b"a\r", &["a\r"]);
    }

    #[test]
    fn empty_lines_are_lines() {
        check(b"\n", &[""]);
        check(b"a\n\n\r\nb", &["a", "", "", "b"]);
    }

    #[test]
    fn a_byte_order_mark_is_removed_from_the_first_line_only() {
        check(b"\xef\xbb\xbfa\n\xef\xbb\xbfb", &["a", "\u{feff}b"]);
    }

    #[test]
    fn invalid_utf8_affects_its_own_line_only() {
        let lines = lines(b"one\ntw\xffo\nthree");
        assert_eq!(lines[1].text, Err(BadLine::NotUtf8 { byte: 3 }));
        assert_eq!(lines[2].text.as_deref(), Ok("three"));
        assert_eq!(lines[2].number, 3);
    }

    #[test]
    fn a_line_has_at_most_len_max_bytes() {
        check(b"12345678\n1", &["12345678", "1"]);
        check(b"12345678\r\n1", &["12345678", "1"]);
        check(b"12345678", &["12345678"]);
        let too_long = Err(BadLine::TooLong { len_max: LEN_MAX });
        for long in [
            "123456789",
            "1234567890",
            "12345678901",
            "123456789012345678901234567890",
        ] {
            let input = format!("{long}\nnext");
            let lines = lines(input.as_bytes());
            assert_eq!(lines[0].text, too_long, "{long}");
            assert_eq!(lines[1].text.as_deref(), Ok("next"), "{long}");
            assert_eq!(lines[1].end, input.len() as u64);
        }
    }
}
