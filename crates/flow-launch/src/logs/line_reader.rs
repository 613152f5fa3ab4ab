//! Cuts the output of a child into lines.

use std::borrow::Cow;
use std::pin::pin;

use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use crate::logs::lines::Lines;

/// A longer line is passed on in pieces, so that a child cannot fill this process's memory.
const LINE_LEN_MAX: u64 = 16 * 1024;

/// Longest text of lines that are passed on together.
const LINES_LEN_MAX: usize = 16 * 1024;

/// Most lines that are passed on together. Each gets the name of its process or its time, also an empty one.
const LINES_MAX: usize = 256;

/// Bytes that are read at once: all that a pipe holds.
const READ_LEN_MAX: usize = 64 * 1024;

/// Reads lines from a stream, whatever its bytes.
pub(crate) struct LineReader<R> {
    stream: BufReader<R>,
    line: Vec<u8>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream: BufReader::with_capacity(READ_LEN_MAX, stream),
            line: Vec::new(),
        }
    }

    /// The next line without its line end; `None` when the stream has ended or failed.
    pub(crate) async fn next(&mut self) -> Option<String> {
        self.read_line().await?;
        Some(visible(&self.line))
    }

    /// The next line and those behind it that have arrived; `None` when the stream has ended or failed.
    pub(crate) async fn next_lines(&mut self) -> Option<Lines> {
        self.read_line().await?;
        let room = LINES_LEN_MAX.saturating_sub(self.line.len());
        let arrived = self.stream.buffer();
        let arrived = &arrived[..room.min(arrived.len())];
        let is_whole = self.line.ends_with(b"\n");
        let ends = memchr::memchr_iter(b'\n', arrived);
        if let (true, Some(end)) = (is_whole, ends.take(LINES_MAX - 1).last()) {
            self.line.extend_from_slice(&arrived[..=end]);
            self.stream.consume(end + 1);
        }
        Some(Lines::new(visible_lines(&self.line)))
    }

    async fn read_line(&mut self) -> Option<()> {
        self.line.clear();
        let stream = (&mut self.stream).take(LINE_LEN_MAX);
        match pin!(stream).read_until(b'\n', &mut self.line).await {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(()),
        }
    }
}

/// The visible parts of lines.
fn visible_lines(bytes: &[u8]) -> String {
    let lines = bytes.strip_suffix(b"\n").unwrap_or(bytes);
    match str::from_utf8(lines) {
        Ok(text) if memchr::memchr(b'\r', lines).is_none() => text.to_owned(),
        _ => {
            let lines: Vec<String> = lines.split(|&it| it == b'\n').map(visible).collect();
            lines.join("\n")
        }
    }
}

/// The part of a line that a terminal would show at its end: a progress bar returns to the start of the line and
/// overwrites itself.
fn visible(bytes: &[u8]) -> String {
    // Nearly all lines are UTF-8, and checking that is quicker than replacing what is not.
    let text = match str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => String::from_utf8_lossy(bytes),
    };
    let line = text.trim_end_matches(['\n', '\r']);
    let last = line.rsplit('\r').next().unwrap_or(line);
    last.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn check(stream: &[u8], expected: &[&str]) {
        let mut lines = LineReader::new(stream);
        let mut found = Vec::new();
        while let Some(line) = lines.next().await {
            found.push(line);
        }
        assert_eq!(found, expected);
        let mut lines = LineReader::new(stream);
        let mut found = Vec::new();
        while let Some(some) = lines.next_lines().await {
            assert!(some.len() <= LINES_LEN_MAX);
            found.extend(some.iter().map(str::to_owned));
        }
        assert_eq!(found, expected);
    }

    #[tokio::test]
    async fn a_stream_is_cut_into_lines_whatever_its_bytes() {
        check(b"", &[]).await;
        check(b"one\ntwo\r\n\nlast", &["one", "two", "", "last"]).await;
        check(b"bad \xff byte\n", &["bad \u{fffd} byte"]).await;
        check(b" 10 %\r 50 %\r100 %\n", &["100 %"]).await;
    }

    #[tokio::test]
    async fn lines_that_have_arrived_are_read_together() {
        let line = format!("{}\n", "a".repeat(99));
        let stream = line.repeat(300);
        let mut lines = LineReader::new(stream.as_bytes());
        let mut counts = Vec::new();
        while let Some(some) = lines.next_lines().await {
            counts.push(some.count());
        }
        // 16 KiB hold 163 lines.
        assert_eq!(counts, [163, 137]);

        let stream = "\n".repeat(LINES_MAX + 1);
        let mut lines = LineReader::new(stream.as_bytes());
        assert_eq!(lines.next_lines().await.unwrap().count(), LINES_MAX);
        assert_eq!(lines.next_lines().await.unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_line_without_an_end_comes_in_pieces() {
        let len_max = usize::try_from(LINE_LEN_MAX).unwrap();
        let piece = "a".repeat(len_max);
        check(piece.as_bytes(), &[&piece]).await;
        check(format!("{piece}b").as_bytes(), &[&piece, "b"]).await;
    }
}
