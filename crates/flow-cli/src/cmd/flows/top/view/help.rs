//! What the keys do, and what the columns say.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::theme::{Theme, lines};
use crate::cmd::flows::top::columns::ALL;
use crate::cmd::flows::top::input::KEYS;
use crate::layout::width;

/// Columns of the terminal from which on the keys are beside the columns of the table.
const SIDE_BY_SIDE_MIN: u16 = 130;

/// Columns that the keys take then.
const KEYS_WIDTH: u16 = 62;

pub(super) fn draw(frame: &mut Frame<'_>, area: Rect, theme: Theme) {
    let keys = list("Keys", KEYS.iter().copied(), theme);
    let meanings = ALL.iter();
    let meanings = meanings.filter_map(|it| Some((it.title(), it.meaning()?)));
    let columns = list("Columns", meanings, theme);
    if area.width >= SIDE_BY_SIDE_MIN {
        let mut right = area;
        right.x += KEYS_WIDTH;
        right.width -= KEYS_WIDTH;
        lines(frame, area, keys);
        lines(frame, right, columns);
    } else {
        lines(frame, area, keys.into_iter().chain(columns));
    }
}

fn list<'t>(
    title: &'t str,
    entries: impl Iterator<Item = (&'t str, &'t str)> + Clone,
    theme: Theme,
) -> Vec<Line<'t>> {
    let names = entries.clone().map(|(name, _)| width(name)).max();
    let names = names.unwrap_or(0);
    let head = Line::styled(title, theme.title());
    let entries = entries.map(|(name, text)| {
        let blanks = " ".repeat(names - width(name) + 2);
        Line::from(vec![
            Span::raw("  "),
            Span::styled(name, theme.name()),
            Span::raw(blanks),
            Span::raw(text),
        ])
    });
    std::iter::once(head).chain(entries).collect()
}
