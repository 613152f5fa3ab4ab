//! Draws the hops of one request: a line for each, with a bar where its time was.

use std::time::Duration;

use super::hops::{Hop, TimeSpan};
use crate::escape::escape;
use crate::layout::{shorten, width};
use crate::output::{Colour, Painter};

/// Columns of the drawing if it is not for a terminal.
const COLUMNS_DEFAULT: usize = 100;

/// Fewest columns for the bars, however long the names are.
const BARS_MIN: usize = 20;

/// Columns of a time, such as `1234.56 ms`.
const TIME: usize = 11;

/// Blanks between two columns, and before each level of hops.
const GAP: usize = 2;

/// A line of the drawing.
struct Line<'h> {
    label: String,
    hop: &'h Hop,
}

/// The hops of a request as lines, for a terminal of this width.
pub(crate) fn waterfall(root: &Hop, painter: Painter, columns: Option<usize>) -> String {
    let columns = columns.unwrap_or(COLUMNS_DEFAULT);
    let mut lines = Vec::new();
    add(root, 0, &mut lines);
    let widest = lines.iter().map(|it| width(&it.label)).max().unwrap_or(0);
    let names = widest.min(columns.saturating_sub(TIME + GAP + BARS_MIN));
    let bars = columns.saturating_sub(names + TIME + GAP).max(BARS_MIN);
    let line = |line: &Line<'_>| {
        let label = shorten(&line.label, names);
        let blanks = names.saturating_sub(width(&label));
        let time = format!("{:>TIME$}", time(line.hop.took()));
        let bar = bar(&line.hop.spans, root.took(), bars);
        let bar = painter.paint(colour(line.hop), bar.trim_end());
        format!("{label}{:blanks$}{time}{:GAP$}{bar}\n", "", "")
    };
    lines.iter().map(line).collect()
}

fn add<'h>(hop: &'h Hop, depth: usize, lines: &mut Vec<Line<'h>>) {
    let note = hop.note.as_ref().map(|it| format!(" ({it})"));
    let name = format!("{}{}", hop.name, note.unwrap_or_default());
    lines.push(Line {
        label: format!("{:indent$}{}", "", escape(&name), indent = depth * GAP),
        hop,
    });
    for child in &hop.children {
        add(child, depth + 1, lines);
    }
}

/// A hop with parts is pale: the parts say more.
fn colour(hop: &Hop) -> Colour {
    match hop.children.is_empty() {
        true => Colour::Cyan,
        false => Colour::Dim,
    }
}

/// A time in milliseconds.
pub(super) fn time(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1e3)
}

/// A bar of this many columns, filled where the spans are. Each span has a column at least.
fn bar(spans: &[TimeSpan], whole: Duration, columns: usize) -> String {
    let mut cells = vec![' '; columns];
    let nanos = whole.as_nanos().max(1);
    // The quotient is a column, which fits.
    let column = |at: Duration| usize::try_from(at.as_nanos() * columns as u128 / nanos);
    for span in spans {
        let first = column(span.start).unwrap_or(0).min(columns - 1);
        let last = column(span.start + span.took).unwrap_or(columns);
        let last = last.clamp(first + 1, columns);
        cells[first..last].fill('█');
    }
    cells.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: u64, took: u64) -> TimeSpan {
        TimeSpan {
            start: Duration::from_millis(start),
            took: Duration::from_millis(took),
        }
    }

    fn hop(name: &str, spans: &[TimeSpan], children: Vec<Hop>) -> Hop {
        Hop {
            name: name.to_owned(),
            spans: spans.to_vec(),
            note: None,
            children,
        }
    }

    #[test]
    fn each_hop_has_its_time_and_its_place() {
        let call = Hop {
            note: Some("2 requests".to_owned()),
            ..hop("call", &[span(20, 60)], Vec::new())
        };
        let network = hop("network", &[span(0, 20), span(80, 20)], Vec::new());
        let root = hop("client", &[span(0, 100)], vec![network, call]);
        let expected = [
            "client               100.00 ms  ████████████████████",
            "  network             40.00 ms  ████            ████",
            "  call (2 requests)   60.00 ms      ████████████",
            "",
        ];
        let text = waterfall(&root, Painter::off(), Some(52));
        assert_eq!(text.split('\n').collect::<Vec<_>>(), expected);
    }

    #[test]
    fn a_short_span_at_the_end_has_a_column() {
        assert_eq!(bar(&[span(100, 0)], Duration::from_millis(100), 4), "   █");
        assert_eq!(bar(&[span(0, 0)], Duration::ZERO, 4), "█   ");
        assert_eq!(bar(&[], Duration::from_millis(1), 3), "   ");
    }
}
