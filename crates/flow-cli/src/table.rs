//! Texts in columns, as the banner and listings show them.
//!
//! A table that is wider than the terminal is made narrower: the widest columns give way, and their texts
//! go on below, in the same column. Nothing is cut off.

use crate::layout::{width, wrap};
use crate::output::{Colour, Painter};

/// Blanks between two columns.
pub(crate) const GAP: usize = 3;

/// Blanks before the first column.
pub(crate) const INDENT: usize = 2;

/// A column is not made narrower than this while others can give way: most words fit.
const COLUMN_WIDTH_MIN: usize = 8;

/// Texts in columns. The first column is what is looked for, and stands out.
pub(crate) struct Table {
    /// What stands over the columns, if anything.
    pub(crate) head: Option<Vec<String>>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// The table as lines of text, none wider than `columns` if that is given; nothing where it has no
    /// rows.
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
            .map(|row| row_text(row, &widths, |at, piece| stand_out(at, piece, painter)));
        head.chain(rows).collect()
    }

    /// Columns that it takes if it may.
    pub(crate) fn width(&self) -> usize {
        total(&self.widths())
    }

    fn widths(&self) -> Vec<usize> {
        let all = || self.head.iter().chain(&self.rows);
        let columns = all().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            let cells = all().filter_map(|row| row.get(at));
            cells.map(|cell| width(cell)).max().unwrap_or(0)
        };
        (0..columns).map(width).collect()
    }
}

/// Columns of a terminal that a table with columns of these widths takes.
fn total(widths: &[usize]) -> usize {
    INDENT + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// Takes from the widest columns until all fit. The first two, a name and mostly an address, give way last.
fn fitted(mut widths: Vec<usize>, columns: usize) -> Vec<usize> {
    while total(&widths) > columns {
        let above = |min: usize, from: usize| {
            let may_give = move |&(at, &width): &(usize, &usize)| at >= from && width > min;
            let widest = widths.iter().enumerate().filter(may_give);
            widest.max_by_key(|&(_, width)| *width).map(|(at, _)| at)
        };
        let gives = above(COLUMN_WIDTH_MIN, 2)
            .or_else(|| above(COLUMN_WIDTH_MIN, 0))
            .or_else(|| above(1, 0));
        // Not even a letter in each column has room: then no table has.
        let Some(at) = gives else { break };
        widths[at] -= 1;
    }
    widths
}

/// One row, on as many lines as its longest cell needs.
fn row_text(cells: &[String], widths: &[usize], paint: impl Fn(usize, &str) -> String) -> String {
    let wrapped = cells.iter().zip(widths).map(|(cell, max)| wrap(cell, *max));
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
    let mut owed = INDENT;
    for (at, (cell, column)) in cells.iter().zip(widths).enumerate() {
        if !cell.is_empty() {
            // Blanks are only written before a word, so that no line ends with them.
            line.push_str(&" ".repeat(owed));
            line.push_str(&paint(at, cell));
            owed = 0;
        }
        let used = if cell.is_empty() { 0 } else { width(cell) };
        owed += column.saturating_sub(used) + GAP;
    }
    line.push('\n');
    line
}

fn stand_out(column: usize, cell: &str, painter: Painter) -> String {
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
                row(["gateway", "0.0.0.0:54321", "given-up", ""]),
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
    fn the_widest_column_goes_on_below() {
        let text = table().text(Painter::off(), Some(70));
        let expected = "
  Process         Address           State      Model
  encoder/rep-0   127.0.0.1:41233   ready      sentence-transformers/
                                               all-MiniLM-L6-v2
  gateway         0.0.0.0:54321     given-up
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
