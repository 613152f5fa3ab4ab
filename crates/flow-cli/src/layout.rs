//! Fits text into terminal columns. Pure: the width is always an argument.

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Indentation of the further lines of a report whose last column begins too far to the right.
const INDENT: usize = 6;

/// Texts after a prefix are not wrapped to fewer columns than this.
const WIDTH_MIN: usize = 20;

/// The width of a text on a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Wraps a text to lines of at most `columns`: between words, or inside words that are longer than a line. Only the blanks at
/// the breaks are removed.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    if width(text) <= columns {
        return vec![text.to_owned()];
    }
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut rest = text.trim_end();
    while !rest.is_empty() {
        let (blanks, after) = rest.split_at(rest.len() - rest.trim_start().len());
        let end = after.find(char::is_whitespace).unwrap_or(after.len());
        let (word, next) = after.split_at(end);
        rest = next;
        if width(&line) + width(blanks) + width(word) <= columns {
            line.push_str(blanks);
            line.push_str(word);
            continue;
        }
        if !line.is_empty() {
            lines.push(std::mem::take(&mut line));
        }
        let mut pieces = pieces(word, columns);
        line = pieces.pop().unwrap_or_default();
        lines.append(&mut pieces);
    }
    lines.push(line);
    lines
}

/// Wraps a paragraph, and indents the lines after the first.
pub(crate) fn wrap_indented(text: &str, columns: usize, indent: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let lines = wrap(text, columns.saturating_sub(indent).max(1));
    lines.join(&format!("\n{}", " ".repeat(indent)))
}

/// Wraps the lines of a report. A line that begins with columns, as a list of problems does, goes on below its last column.
pub(crate) fn wrap_report(text: &str, columns: usize) -> String {
    let lines: Vec<String> = text.lines().map(|it| wrap_row(it, columns)).collect();
    lines.join("\n")
}

fn wrap_row(line: &str, columns: usize) -> String {
    let last = line.rfind("  ").map_or(0, |at| width(&line[..at + 2]));
    let indent = if last > columns / 2 { INDENT } else { last };
    let mut lines = wrap(line, columns);
    let first = lines.swap_remove(0);
    let rest = line[first.len()..].trim();
    if rest.is_empty() {
        return first;
    }
    let further = wrap(rest, columns.saturating_sub(indent).max(1));
    let further = further
        .iter()
        .map(|it| format!("\n{}{it}", " ".repeat(indent)));
    first + &further.collect::<String>()
}

/// Wraps a text after a prefix of `taken` columns. A text with control characters stays whole, because its width is not
/// known, and so does one in a very narrow terminal.
pub(crate) fn wrap_after(taken: usize, text: &str, columns: Option<usize>) -> Vec<String> {
    let room = columns.map(|columns| columns.saturating_sub(taken));
    match room {
        Some(room) if WIDTH_MIN <= room && !text.chars().any(char::is_control) => wrap(text, room),
        _ => vec![text.to_owned()],
    }
}

/// Truncates a text that is too wide, and ends it with `…`.
pub(crate) fn shorten(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let Some(room) = columns.checked_sub(1) else {
        return String::new();
    };
    let (start, _) = split_at_width(text, room);
    format!("{start}…")
}

/// Splits a word into pieces that fit: after `/` or `-`, unless a piece would be short.
fn pieces(word: &str, columns: usize) -> Vec<String> {
    let mut pieces = Vec::new();
    let mut rest = word;
    while !rest.is_empty() {
        let (piece, after) = split_at_width(rest, columns);
        let end = match piece.rfind(['/', '-']) {
            // A letter that is wider than the line is a piece of its own, so that the loop ends.
            _ if piece.is_empty() => rest.chars().next().map_or(0, char::len_utf8),
            Some(at) if !after.is_empty() && at >= piece.len() / 2 => at + 1,
            _ => piece.len(),
        };
        let (piece, after) = rest.split_at(end);
        pieces.push(piece.to_owned());
        rest = after;
    }
    pieces
}

/// The longest prefix that fits, and the rest.
fn split_at_width(text: &str, columns: usize) -> (&str, &str) {
    let mut used = 0;
    for (at, letter) in text.char_indices() {
        used += letter.width().unwrap_or(0);
        if used > columns {
            return text.split_at(at);
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_wrapped_between_words_and_inside_long_words() {
        let check = |text: &str, columns: usize, expected: &[&str]| {
            assert_eq!(wrap(text, columns), expected, "{text:?} in {columns}");
        };
        check("", 5, &[""]);
        check("one two", 7, &["one two"]);
        check("one two", 6, &["one", "two"]);
        check("one two three", 8, &["one two", "three"]);
        check("sentence", 3, &["sen", "ten", "ce"]);
        check("a sentence", 4, &["a", "sent", "ence"]);
        check("owner/name-v2", 9, &["owner/", "name-v2"]);
        check("a/long-name", 6, &["a/long", "-name"]);
        check("a  b", 9, &["a  b"]);
        check("  a  b  c ", 7, &["  a  b", "c"]);
        check("日本語", 4, &["日本", "語"]);
        check("日", 1, &["日"]);
    }

    #[test]
    fn lines_after_the_first_are_indented() {
        assert_eq!(wrap_indented("one two", 7, 2), "one two");
        assert_eq!(wrap_indented("one two three", 7, 2), "one\n  two\n  three");
    }

    #[test]
    fn the_lines_of_a_report_go_on_below_their_last_column() {
        let check = |text: &str, columns: usize, expected: &str| {
            assert_eq!(
                wrap_report(text, columns),
                expected,
                "{text:?} in {columns}"
            );
        };
        let report = "flow: `f.yml` has problems:\n  3:5  a.uses  there is no such executor";
        check(report, 40, report);
        check(
            report,
            39,
            "flow: `f.yml` has problems:\n  3:5  a.uses  there is no such\n               executor",
        );
        // The last column begins in the right half.
        check(
            "  3:5  a.uses  not here",
            20,
            "  3:5  a.uses  not\n      here",
        );
    }

    #[test]
    fn a_text_after_a_prefix_is_wrapped_to_the_rest_of_the_line() {
        let text = "a text of some words that is long";
        let wrapped = ["a text of some words", "that is long"];
        assert_eq!(wrap_after(10, text, Some(30)), wrapped);
        for (taken, text, columns) in [
            (10, text, None),
            (10, text, Some(29)),
            (10, "\u{1b}[1mthree words, and a color\u{1b}[0m", Some(30)),
        ] {
            assert_eq!(wrap_after(taken, text, columns), [text]);
        }
    }

    #[test]
    fn a_truncated_text_ends_with_an_ellipsis() {
        let check = |columns: usize, expected: &str| {
            assert_eq!(shorten("encoder", columns), expected);
        };
        check(7, "encoder");
        check(6, "encod…");
        check(1, "…");
        check(0, "");
        assert_eq!(shorten("日本語", 4), "日…");
    }

    #[test]
    fn no_line_is_wider_than_the_columns() {
        let text =
            "model sentence-transformers/all-MiniLM-L6-v2, device cpu, 日本語 dimensions 384";
        for columns in 2..100 {
            for line in wrap(text, columns) {
                assert!(width(&line) <= columns, "{line:?} in {columns}");
            }
            let shown = shorten(text, columns);
            assert!(width(&shown) <= columns, "{shown:?} in {columns}");
        }
    }
}
