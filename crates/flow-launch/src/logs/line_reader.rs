//! Cuts the output of a child into lines.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

/// A longer line is passed on in pieces, so that a child cannot fill this process's memory.
const LINE_LEN_MAX: u64 = 16 * 1024;

/// Reads lines from a stream, whatever its bytes.
pub(crate) struct LineReader<R> {
    stream: BufReader<R>,
}

impl<R: AsyncRead + Unpin> LineReader<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self {
            stream: BufReader::new(stream),
        }
    }

    /// The next line without its line end; `None` when the stream has ended or failed.
    pub(crate) async fn next(&mut self) -> Option<String> {
        let bytes = read_line(&mut self.stream).await?;
        Some(visible(&bytes))
    }
}

async fn read_line(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = stream
        .take(LINE_LEN_MAX)
        .read_until(b'\n', &mut bytes)
        .await;
    match read {
        Ok(0) | Err(_) => None,
        Ok(_) => Some(bytes),
    }
}

/// The part of a line that a terminal would show at its end: a progress bar returns to the start of the line and
/// overwrites itself.
fn visible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
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
    }

    #[tokio::test]
    async fn a_stream_is_cut_into_lines_whatever_its_bytes() {
        check(b"", &[]).await;
        check(b"one\ntwo\r\n\nlast", &["one", "two", "", "last"]).await;
        check(b"bad \xff byte\n", &["bad \u{fffd} byte"]).await;
        check(b" 10 %\r 50 %\r100 %\n", &["100 %"]).await;
    }

    #[tokio::test]
    async fn a_line_without_an_end_comes_in_pieces() {
        let len_max = usize::try_from(LINE_LEN_MAX).unwrap();
        let piece = "a".repeat(len_max);
        check(piece.as_bytes(), &[&piece]).await;
        check(format!("{piece}b").as_bytes(), &[&piece, "b"]).await;
    }
}
