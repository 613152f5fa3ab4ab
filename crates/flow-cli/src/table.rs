//! Texts in columns, as the banner and listings show them.

use crate::output::{Colour, Painter};

/// Blanks between two columns.
pub(crate) const GAP: usize = 3;

/// Texts in columns. The first column is what is looked for, and stands out.
pub(crate) struct Table {
    /// What stands over the columns, if anything.
    pub(crate) head: Option<Vec<String>>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// The table as lines of text; nothing where it has no rows.
    pub(crate) fn text(&self, painter: Painter) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let widths = self.widths();
        let head = self
            .head
            .iter()
            .map(|head| line(head, &widths, |_, cell| painter.paint(Colour::Dim, cell)));
        let rows = self
            .rows
            .iter()
            .map(|row| line(row, &widths, |at, cell| stand_out(at, cell, painter)));
        head.chain(rows).collect()
    }

    fn widths(&self) -> Vec<usize> {
        let all = || self.head.iter().chain(&self.rows);
        let columns = all().map(Vec::len).max().unwrap_or(0);
        let width = |at: usize| {
            all()
                .filter_map(|row| row.get(at))
                .map(|cell| len(cell))
                .max()
        };
        (0..columns).map(|at| width(at).unwrap_or(0)).collect()
    }

    /// Its width in letters.
    pub(crate) fn width(&self) -> usize {
        self.widths().iter().map(|width| width + GAP).sum()
    }
}

fn line(cells: &[String], widths: &[usize], paint: impl Fn(usize, &str) -> String) -> String {
    let mut line = " ".to_owned();
    let mut owed = 1;
    for (at, (cell, width)) in cells.iter().zip(widths).enumerate() {
        if !cell.is_empty() {
            // Blanks are only written before a word, so that no line ends with them.
            line.push_str(&" ".repeat(owed));
            line.push_str(&paint(at, cell));
            owed = 0;
        }
        owed += width - len(cell) * usize::from(!cell.is_empty()) + GAP;
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

/// How wide a text is on a terminal.
pub(crate) fn len(text: &str) -> usize {
    text.chars().count()
}
