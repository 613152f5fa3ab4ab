//! Draws the state of the program on the screen. Pure: it draws into a buffer.

mod charts;
mod help;
mod log;
mod table;
mod theme;

use std::time::Duration;

use flow_launch::protocol::ProcessState;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

pub(super) use self::theme::Theme;
use self::theme::lines;
use super::app::{App, View};
use super::input::{NEXT_FLOW, SHORT_KEYS};
use super::model::{FlowModel, State};
use crate::escape::escape;
use crate::layout::{shorten, width};

/// Lines of charts, at least and at most.
const CHART_LINES: (u16, u16) = (4, 8);

/// Lines of a log below a node, at least; charts take no more than what these leave.
const LOG_LINES_MIN: u16 = 3;

/// Most lines of keys. On a very narrow terminal, the help has the others.
const KEY_LINES_MAX: usize = 2;

/// Time beyond the interval after which a flow counts as silent: it answers in milliseconds.
const SILENT_AFTER: Duration = Duration::from_secs(3);

/// Draws all of the screen.
pub(super) fn draw(frame: &mut Frame<'_>, app: &mut App, theme: Theme) {
    let all = frame.area();
    let has_several_flows = app.place().1 > 1;
    let keys = keys(usize::from(all.width), has_several_flows, theme);
    let [title, body, footer] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Fill(1),
        Constraint::Length(u16::try_from(keys.len()).unwrap_or(1)),
    ])
    .areas(all);
    // The titles of the columns take a line.
    let page = usize::from(body.height.saturating_sub(1));
    app.fit(usize::from(all.width), page);
    lines(frame, title, [header(app, usize::from(all.width), theme)]);
    lines(frame, footer, keys);
    let app = &*app;
    match app.view() {
        Some(View::Help) => help::draw(frame, body, theme),
        Some(View::Logs(process)) => log::draw(frame, body, (app, process.as_str()), theme),
        Some(View::Node(node)) => node_view(frame, body, (app, node.as_deref()), theme),
        None => processes(frame, body, app, theme),
    }
}

/// The table, and the charts of the flow where there is room for them.
fn processes(frame: &mut Frame<'_>, area: Rect, app: &App, theme: Theme) {
    let rows = app.rows();
    if rows.is_empty() {
        let text = Line::styled("no flow is running; waiting for one", theme.faint());
        lines(frame, area, [text]);
        return;
    }
    let table_lines = u16::try_from(rows.len() + 1).unwrap_or(u16::MAX);
    let rest = area.height.saturating_sub(table_lines);
    let charts = if rest > CHART_LINES.0 {
        // A blank line is between the table and the charts.
        (rest - 1).min(CHART_LINES.1)
    } else {
        0
    };
    let [table, charts] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(charts)]).areas(area);
    table::draw(frame, table, app, theme);
    charts::draw(frame, charts, (app, None), theme);
}

/// The processes of a node, its charts and its log.
fn node_view(frame: &mut Frame<'_>, area: Rect, (app, node): (&App, Option<&str>), theme: Theme) {
    let rows = u16::try_from(app.rows().len() + 1).unwrap_or(u16::MAX);
    let table = rows.min(area.height / 2).max(2);
    let rest = area.height.saturating_sub(table + LOG_LINES_MIN + 1);
    let charts = if rest >= CHART_LINES.0 {
        rest.min(CHART_LINES.1).min(area.height / 3)
    } else {
        0
    };
    let areas = Layout::vertical([
        Constraint::Length(table),
        Constraint::Length(charts),
        Constraint::Fill(1),
    ]);
    let [table, charts, log] = areas.areas(area);
    table::draw(frame, table, app, theme);
    charts::draw(frame, charts, (app, node), theme);
    log::draw(frame, log, (app, node.unwrap_or("gateway")), theme);
}

/// The first line: which flow, how many of its processes are ready, and how the table is sorted.
fn header(app: &App, columns: usize, theme: Theme) -> Line<'static> {
    let mut parts = vec![match app.title() {
        Some(title) => escape(&title).into_owned(),
        None => "no flow".to_owned(),
    }];
    let rows = app.model().map(FlowModel::rows);
    if let Some(rows) = rows {
        let own: Vec<_> = rows.iter().filter(|it| it.restarts.is_some()).collect();
        let is_ready = |state| state == State::Process(ProcessState::Ready);
        let ready = own.iter().filter(|it| is_ready(it.state)).count();
        parts.push(format!("{ready} of {} ready", own.len()));
    }
    if let Some(at) = app.model().and_then(FlowModel::at) {
        let silent = app.now.saturating_sub(at);
        if silent > app.interval + SILENT_AFTER {
            parts.push(format!("no answer for {} s", silent.as_secs()));
        }
    }
    if let (at, all @ 2..) = app.place() {
        parts.push(format!("flow {at} of {all}"));
    }
    let order = match (app.sort.column, app.sort.is_reversed) {
        (None, false) => None,
        (None, true) => Some("reversed".to_owned()),
        (Some(column), is_reversed) => {
            let reversed = if is_reversed { ", reversed" } else { "" };
            Some(format!("by {}{reversed}", column.title()))
        }
    };
    parts.extend(order);
    let name = "flow top";
    let text = format!("  {}", parts.join(" · "));
    let text = shorten(&text, columns.saturating_sub(name.len()));
    Line::from(vec![
        Span::styled(name, theme.name().patch(theme.title())),
        Span::styled(text, theme.title()),
    ])
}

/// The keys, on as many lines as they need.
fn keys(columns: usize, has_several_flows: bool, theme: Theme) -> Vec<Line<'static>> {
    let mut lines: Vec<(usize, Vec<Span<'static>>)> = vec![(0, Vec::new())];
    let useful = SHORT_KEYS
        .iter()
        .filter(|(key, _)| *key != NEXT_FLOW || has_several_flows);
    for &(key, does) in useful {
        let needed = width(key) + 1 + width(does);
        let is_full = lines
            .last()
            .is_some_and(|(used, _)| *used > 0 && used + 2 + needed > columns);
        if is_full {
            lines.push((0, Vec::new()));
        }
        let Some((used, spans)) = lines.last_mut() else {
            break;
        };
        if *used > 0 {
            spans.push(Span::raw("  "));
            *used += 2;
        }
        spans.push(Span::styled(key, theme.title()));
        spans.push(Span::styled(format!(" {does}"), theme.faint()));
        *used += needed;
    }
    lines.truncate(KEY_LINES_MAX);
    lines.into_iter().map(|(_, spans)| spans.into()).collect()
}

#[cfg(test)]
mod tests;
