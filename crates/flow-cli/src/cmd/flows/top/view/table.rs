//! The table of processes.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::theme::{Theme, lines};
use crate::cmd::flows::top::app::App;
use crate::cmd::flows::top::columns::Column;
use crate::cmd::flows::top::model::Row;
use crate::escape::escape;
use crate::layout::{shorten, width};

/// Marks the column by which rows are sorted.
const DOWN: char = '▾';
const UP: char = '▴';

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let rows = app.rows();
    let selected = app.selected(&rows);
    let room = usize::from(area.height.saturating_sub(1)).max(1);
    // As far down as needed to show the selected row.
    let first = (selected + 1).saturating_sub(room);
    let shown = rows.iter().enumerate().skip(first).take(room);
    let shown = shown.map(|(at, row)| {
        let line = line(row, &app.columns, theme);
        match at == selected {
            true => line.patch_style(theme.selected()),
            false => line,
        }
    });
    let head = head(app, theme);
    lines(frame, area, std::iter::once(head).chain(shown));
}

fn head(app: &App, theme: Theme) -> Line<'static> {
    let cell = |(column, room): &(Column, usize)| {
        let title = column.title();
        let mark = match (app.sort.column == Some(*column), app.sort.is_reversed) {
            (false, _) => None,
            // Texts begin with A, and numbers with the largest.
            (true, is_reversed) if is_reversed == column.is_text() => Some(DOWN),
            (true, _) => Some(UP),
        };
        let text = match (mark, column.is_text()) {
            (None, _) => title.to_owned(),
            (Some(mark), true) => format!("{title}{mark}"),
            (Some(mark), false) => format!("{mark}{title}"),
        };
        Span::styled(aligned(*column, &text, *room), theme.faint())
    };
    app.columns.iter().map(cell).collect()
}

fn line(row: &Row, columns: &[(Column, usize)], theme: Theme) -> Line<'static> {
    let cell = |(column, room): &(Column, usize)| {
        let text = column.text(row);
        let failed = row.rates.is_some_and(|it| it.failed_per_second > 0.0);
        let style = match column {
            Column::Process => theme.name(),
            Column::State => theme.state(row.state),
            Column::Failed if failed => theme.bad(),
            _ => Style::new(),
        };
        Span::styled(aligned(*column, &escape(&text), *room), style)
    };
    columns.iter().map(cell).collect()
}

/// The text in its column. The first one begins at the border; every other one has a blank before it.
fn aligned(column: Column, text: &str, room: usize) -> String {
    let gap = usize::from(column != Column::Process);
    let text = shorten(text, if column.is_text() { room - gap } else { room });
    let blanks = " ".repeat((room - gap).saturating_sub(width(&text)));
    match (column.is_text(), width(&text) == room) {
        (true, _) => format!("{}{text}{blanks}", " ".repeat(gap)),
        // The mark of the sorted column takes the place of the blank.
        (false, true) => text,
        (false, false) => format!("{}{blanks}{text}", " ".repeat(gap)),
    }
}
