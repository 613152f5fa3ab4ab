//! Tables of text.
//!
//! A table that is wider than the terminal is made narrower: the texts of the widest columns are wrapped. Control characters
//! are escaped.

use crate::escape::escape;
use crate::layout::{width, wrap};
use crate::output::{Colour, Painter};

/// Blanks between two columns.
pub(crate) const GAP: usize = 3;

/// Blanks before the first column.
pub(crate) const INDENT: usize = 2;

/// A column is not made narrower than this while others are wider: most words fit.
const COLUMN_WIDTH_MIN: usize = 8;

/// A table. The first two columns are highlighted.
pub(crate) struct Table {
    /// The titles of the columns, if any.
    pub(crate) head: Option<Vec<String>>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// The table as lines of text, none wider than `columns` if that is given. Empty without rows.
    pub(crate) fn text(&self, painter: Painter, columns: Option<usize>) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let widths = self.widths();
        let widths = match columns {
            Some(columns) => fitted(widths, columns),
            None => widths,
        };
        let head = self
            .head
            .iter()
            .map(|head| row_text(head, &widths, |_, piece| painter.paint(Colour::Dim, piece)));
        let rows = self
            .rows
            .iter()
            .map(|row| row_text(row, &widths, |at, piece| highlight(at, piece, painter)));
        head.chain(rows).collect()
    }

    /// Width without wrapping.
    pub(crate) fn width(&self) -> usize {
        total(&self.widths())
    }

    fn widths(&self) -> Vec<usize> {
        let all = || self.head.iter().chain(&self.rows);
        let columns = all().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            let cells = all().filter_map(|row| row.get(at));
            cells.map(|cell| width(&escape(cell))).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

/// Width of a table with columns of these widths.
fn total(widths: &[usize]) -> usize {
    INDENT + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Makes the widest columns narrower until all fit. The first two, usually a name and an address, come last.
fn fitted(mut widths: Vec<usize>, columns: usize) -> Vec<usize> {
    while total(&widths) > columns {
        let above = |min: usize, from: usize| {
            let is_wide = move |&(at, &width): &(usize, &usize)| at >= from && width > min;
            let widest = widths.iter().enumerate().filter(is_wide);
            widest.max_by_key(|&(_, width)| *width).map(|(at, _)| at)
        };
        let widest = above(COLUMN_WIDTH_MIN, 2)
            .or_else(|| above(COLUMN_WIDTH_MIN, 0))
            .or_else(|| above(1, 0));
        // The terminal is too narrow for any table.
        let Some(at) = widest else { break };
        widths[at] -= 1;
    }
    widths
}

/// One row, on as many lines as its tallest cell needs.
fn row_text(cells: &[String], widths: &[usize], paint: impl Fn(usize, &str) -> String) -> String {
    let cells = cells.iter().zip(widths);
    let wrapped = cells.map(|(cell, max)| wrap(&escape(cell), *max));
    let wrapped: Vec<Vec<String>> = wrapped.collect();
    let height = wrapped.iter().map(Vec::len).max().unwrap_or(0);
    let line_of = |number: usize| {
        let piece = |lines: &Vec<String>| lines.get(number).cloned().unwrap_or_default();
        let pieces: Vec<String> = wrapped.iter().map(piece).collect();
        line(&pieces, widths, &paint)
    };
    (0..height).map(line_of).collect()
}

fn line(cells: &[String], widths: &[usize], paint: impl Fn(usize, &str) -> String) -> String {
    let mut line = String::new();
    let mut blanks = INDENT;
    for (at, (cell, column)) in cells.iter().zip(widths).enumerate() {
        if !cell.is_empty() {
            // Blanks are written before a text only, so that no line ends with them.
            line.push_str(&" ".repeat(blanks));
            line.push_str(&paint(at, cell));
            blanks = 0;
        }
        let used = if cell.is_empty() { 0 } else { width(cell) };
        blanks += column.saturating_sub(used) + GAP;
    }
    line.push('\n');
    line
}

fn highlight(column: usize, cell: &str, painter: Painter) -> String {
    match column {
        0 => painter.paint(Colour::Bold, cell),
        1 => painter.paint(Colour::Cyan, cell),
        _ => cell.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let row = |cells: [&str; 4]| cells.map(str::to_owned).to_vec();
        Table {
            head: Some(row(["Process", "Address", "State", "Model"])),
            rows: vec![
                row([
                    "encoder/rep-0",
                    "127.0.0.1:41233",
                    "ready",
                    "sentence-transformers/all-MiniLM-L6-v2",
                ]),
                row(["gateway", "0.0.0.0:54321", "starting", ""]),
            ],
        }
    }

    #[test]
    fn without_a_terminal_every_row_is_one_line() {
        let text = table().text(Painter::off(), None);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert!(
            text.contains("sentence-transformers/all-MiniLM-L6-v2"),
            "{text}"
        );
    }

    #[test]
    fn control_characters_are_escaped() {
        let table = Table {
            head: None,
            rows: vec![vec!["a\u{1b}[2J".to_owned(), "b\u{9b}c".to_owned()]],
        };
        let text = table.text(Painter::off(), None);
        assert_eq!(text, "  a\\x1b[2J   b\\x9bc\n");
    }

    #[test]
    fn the_widest_column_is_wrapped() {
        let text = table().text(Painter::off(), Some(70));
        let expected = "
  Process         Address           State      Model
  encoder/rep-0   127.0.0.1:41233   ready      sentence-transformers/
                                               all-MiniLM-L6-v2
  gateway         0.0.0.0:54321     starting
";
        assert_eq!(format!("\n{text}"), expected, "{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_nothing_is_lost() {
        let letters = |text: &str| {
            let mut letters: Vec<char> = text.chars().filter(|it| !it.is_whitespace()).collect();
            letters.sort_unstable();
            letters
        };
        let whole = letters(&table().text(Painter::off(), None));
        for columns in 20..150 {
            let text = table().text(Painter::off(), Some(columns));
            for line in text.lines() {
                assert!(width(line) <= columns, "{columns}: {line}");
            }
            assert_eq!(letters(&text), whole, "{columns}:\n{text}");
        }
    }
}
