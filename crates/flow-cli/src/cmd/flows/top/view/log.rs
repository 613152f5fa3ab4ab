//! The last lines of a log.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::theme::{Theme, lines};
use crate::cmd::flows::top::app::{App, LogLine};
use crate::escape::escape;
use crate::layout::{shorten, width, wrap};

/// Lines of text are not made shorter than this to show the names of processes.
const TEXT_WIDTH_MIN: usize = 30;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, (app, of): (&App, &str), theme: Theme) {
    let log = &app.log;
    let below = match log.below {
        0 => String::new(),
        below => format!(" ({below} newer lines below)"),
    };
    let columns = usize::from(area.width);
    let title = shorten(&format!("Log of {}{below}", escape(of)), columns);
    let head = Line::styled(title, theme.faint());
    let room = usize::from(area.height.saturating_sub(1));
    let mut shown: Vec<Line<'_>> = match &log.problem {
        Some(problem) => wrap(&escape(problem), columns)
            .into_iter()
            .map(Line::raw)
            .collect(),
        None => last_lines(app, columns, room, theme),
    };
    shown.insert(0, head);
    lines(frame, area, shown);
}

/// As many of the last lines as there is room for.
fn last_lines(app: &App, columns: usize, room: usize, theme: Theme) -> Vec<Line<'static>> {
    let log = &app.log;
    let names = name_width(app, columns);
    let mut shown = Vec::new();
    for line in log.lines.iter().rev().skip(log.below) {
        let mut pieces = pieces(line, columns, names, theme);
        pieces.append(&mut shown);
        shown = pieces;
        if shown.len() >= room {
            break;
        }
    }
    let skipped = shown.len().saturating_sub(room);
    shown.split_off(skipped)
}

/// The width of the names of processes, if the log is that of several and there is room.
fn name_width(app: &App, columns: usize) -> Option<usize> {
    let lines = &app.log.lines;
    let first = lines.front()?;
    let differs = lines.iter().any(|it| it.process != first.process);
    let widest = lines.iter().map(|it| width(&it.process)).max()?;
    (differs && columns >= widest + 1 + TEXT_WIDTH_MIN).then_some(widest)
}

/// A line of the log on as many lines as it needs.
fn pieces(
    line: &LogLine,
    columns: usize,
    names: Option<usize>,
    theme: Theme,
) -> Vec<Line<'static>> {
    let taken = names.map_or(0, |it| it + 1);
    let wrapped = wrap(&line.text, columns.saturating_sub(taken).max(1)).into_iter();
    let pieces = wrapped.enumerate().map(|(number, piece)| {
        let name = match (names, number) {
            (None, _) => String::new(),
            (Some(names), 0) => {
                let blanks = " ".repeat(names.saturating_sub(width(&line.process)) + 1);
                format!("{}{blanks}", line.process)
            }
            (Some(names), _) => " ".repeat(names + 1),
        };
        Line::from(vec![Span::styled(name, theme.name()), Span::raw(piece)])
    });
    pieces.collect()
}
