//! The charts of requests a second and of latency, side by side, or one of them on a narrow terminal.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};
use ratatui::widgets::{RenderDirection, Sparkline};

use super::theme::{Theme, lines};
use crate::cmd::flows::top::app::App;
use crate::cmd::flows::top::columns::{rate, short_time};
use crate::cmd::flows::top::model::Point;

/// Columns of the terminal below which there is only one chart.
const TWO_CHARTS_MIN: u16 = 60;

/// Blanks between the charts.
const GAP: u16 = 2;

/// Bars show whole numbers: thousandths of a request a second, and microseconds.
const PER_UNIT: f64 = 1e3;

pub(super) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    (app, node): (&App, Option<&str>),
    theme: Theme,
) {
    let Some(model) = app.model().filter(|_| area.height > 1) else {
        return;
    };
    let points = model.points(node);
    let [left, _, right] = Layout::horizontal([
        Constraint::Fill(1),
        Constraint::Length(GAP),
        Constraint::Fill(1),
    ])
    .areas(area);
    let has_two = area.width >= TWO_CHARTS_MIN;
    requests(frame, if has_two { left } else { area }, &points, theme);
    if has_two {
        latency(frame, right, &points, theme);
    }
}

fn requests(frame: &mut Frame<'_>, area: Rect, points: &[Point], theme: Theme) {
    let shown = newest(points, area);
    let most = shown.iter().map(|it| it.per_second).fold(0.0, f64::max);
    let now = shown.last().map_or(0.0, |it| it.per_second);
    let title = format!("Req/s: now {}, most {}", rate(now), rate(most));
    let bars = shown.iter().map(|it| Some(bar(it.per_second)));
    chart(frame, area, (title.as_str(), bars.collect()), theme);
}

fn latency(frame: &mut Frame<'_>, area: Rect, points: &[Point], theme: Theme) {
    let shown = newest(points, area);
    let times = shown.iter().filter_map(|it| it.p99);
    let now = shown.last().and_then(|it| it.p99);
    let text = |time: Option<_>| time.map_or_else(|| "–".to_owned(), short_time);
    let title = format!("p99: now {}, most {}", text(now), text(times.max()));
    let bars = shown.iter().map(|it| {
        let ms = it.p99.map(|time| time.as_secs_f64() * 1e3);
        ms.map(bar)
    });
    chart(frame, area, (title.as_str(), bars.collect()), theme);
}

fn chart(frame: &mut Frame<'_>, area: Rect, (title, bars): (&str, Vec<Option<u64>>), theme: Theme) {
    let [head, below] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(area);
    let title = Line::from(Span::styled(title.to_owned(), theme.faint()));
    lines(frame, head, [title]);
    let sparkline = Sparkline::default()
        // The newest is at the right border.
        .data(bars.into_iter().rev().collect::<Vec<_>>())
        .direction(RenderDirection::RightToLeft)
        .absent_value_symbol(" ")
        .style(theme.chart());
    frame.render_widget(sparkline, below);
}

/// As many of the newest points as there are columns.
fn newest(points: &[Point], area: Rect) -> &[Point] {
    let skipped = points.len().saturating_sub(usize::from(area.width));
    &points[skipped..]
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rates and times are positive, and a float beyond the integers becomes the largest one"
)]
fn bar(value: f64) -> u64 {
    (value * PER_UNIT) as u64
}
