use std::fs;
use std::path::PathBuf;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::style::{Color, Modifier};

use super::*;
use crate::cmd::flows::logs::LogLineEntry;
use crate::cmd::flows::top::fixture::{flow, sample};
use crate::cmd::flows::top::input::Action;

const COLORS: Theme = Theme { has_colors: true };

const LOG: [&str; 6] = [
    "flow starting",
    "flow encoder/rep-0@4002 ready and listening on 127.0.0.1:41002 (device cpu)",
    "stderr  WARN flow_executor: a line that is longer than the narrow terminals on which it is shown here",
    "stdout loading",
    "stderr \u{1b}[31mred\u{1b}[0m, and the title of the window: \u{1b}]0;x\u{7}",
    "stdout done",
];

/// The fixture's flow after some seconds.
fn app() -> App {
    let mut app = App::default();
    for second in 0..=90 {
        app.add(vec![flow("search", 7, sample(second))]);
        app.now = std::time::Duration::from_secs(second);
    }
    app
}

fn drawn(app: &mut App, (columns, lines): (u16, u16), theme: Theme) -> Buffer {
    let mut terminal = Terminal::new(TestBackend::new(columns, lines)).unwrap();
    terminal.draw(|frame| draw(frame, app, theme)).unwrap();
    terminal.backend().buffer().clone()
}

fn text(buffer: &Buffer) -> String {
    let columns = usize::from(buffer.area.width);
    let lines = buffer.content.chunks(columns).map(|cells| {
        let line: String = cells.iter().map(ratatui::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    });
    lines.collect()
}

/// The screen after these actions is the one in the file. `FLOW_GOLDEN=write` rewrites it.
#[track_caller]
fn check(name: &str, size: (u16, u16), actions: &[Action]) -> String {
    let mut app = app();
    drawn(&mut app, size, COLORS);
    for action in actions {
        assert!(app.act(*action));
    }
    if app.wanted_log().is_some() {
        let line = |text: &&str| format!("2026-11-22T03:16:05.000001Z {text}");
        let lines = LOG.iter().map(line).collect();
        app.add_log(LogLineEntry::all("encoder/rep-0", lines));
    }
    let found = text(&drawn(&mut app, size, COLORS));
    let path = format!("tests/golden/top/{name}.txt");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("FLOW_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(&path, &found).unwrap();
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == expected,
        "{name} is now:\n{found}\nand was:\n{expected}"
    );
    found
}

#[test]
fn the_processes_on_the_usual_terminal_are_as_in_the_book() {
    let screen = check("processes-80x24", (80, 24), &[Action::Move(2)]);
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/src/operating.md");
    let book = fs::read_to_string(page).unwrap();
    assert!(
        book.contains(&screen),
        "the book has another screen than:\n{screen}"
    );
}

#[test]
fn the_processes_on_a_large_terminal() {
    let sorted = [Action::SortBy(-1), Action::SortBy(-1), Action::Reverse];
    check("processes-140x40", (140, 40), &sorted);
}

#[test]
fn the_processes_on_small_terminals() {
    check("processes-60x15", (60, 15), &[Action::SortBy(3)]);
    check("processes-40x12", (40, 12), &[Action::SortBy(1)]);
    check("processes-20x5", (20, 5), &[Action::Last]);
}

#[test]
fn a_node_that_is_followed() {
    let actions = [Action::Move(2), Action::FollowNode];
    check("node-80x24", (80, 24), &actions);
    check("node-140x40", (140, 40), &actions);
    check("node-40x12", (40, 12), &actions);
}

#[test]
fn the_log_of_a_process() {
    let actions = [Action::Move(2), Action::Logs];
    check("log-80x24", (80, 24), &actions);
    let scrolled = [Action::Move(2), Action::Logs, Action::Move(-2)];
    check("log-40x12", (40, 12), &scrolled);
}

#[test]
fn the_help_fits_the_usual_terminal() {
    let screen = check("help-80x24", (80, 24), &[Action::Help]);
    assert!(screen.contains("100 % is one core"), "{screen}");
    check("help-140x40", (140, 40), &[Action::Help]);
}

#[test]
fn a_flow_that_hangs_or_ended_is_reported() {
    let mut app = app();
    app.now += std::time::Duration::from_secs(7);
    let screen = text(&drawn(&mut app, (80, 24), COLORS));
    assert!(
        screen.contains("5 of 5 ready · no answer for 7 s"),
        "{screen}"
    );
    app.add(Vec::new());
    let screen = text(&drawn(&mut app, (80, 24), COLORS));
    assert!(screen.contains("no flow is running"), "{screen}");
}

#[test]
fn every_view_can_be_drawn_on_every_terminal() {
    for (columns, lines) in [(1, 1), (2, 3), (7, 4), (13, 9), (33, 6), (79, 3), (300, 90)] {
        let mut app = app();
        for action in [Action::FollowNode, Action::Logs, Action::Help] {
            drawn(&mut app, (columns, lines), COLORS);
            app.act(action);
        }
        drawn(&mut app, (columns, lines), COLORS);
    }
}

#[test]
fn without_colors_the_selection_is_still_seen() {
    let mut app = app();
    let with = drawn(&mut app, (80, 24), COLORS);
    let without = drawn(&mut app, (80, 24), Theme { has_colors: false });
    let has_colors = |it: &Buffer| it.content.iter().any(|cell| cell.fg != Color::Reset);
    assert!(has_colors(&with) && !has_colors(&without));
    assert_eq!(text(&with), text(&without));
    let reversed = |row: usize| {
        let cell = &without.content[row * 80];
        cell.modifier.contains(Modifier::REVERSED)
    };
    assert_eq!([1, 2, 3].map(reversed), [false, true, false]);
}
