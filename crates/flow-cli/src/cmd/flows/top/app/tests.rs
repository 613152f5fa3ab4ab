use super::*;
use crate::cmd::flows::top::fixture::{flow, sample};

/// An application that shows the flow of the fixture.
fn app() -> App {
    let mut app = App::default();
    for second in 0..=5 {
        app.add(vec![flow("search", 7, sample(second))]);
    }
    app.fit(80, 3);
    app
}

fn act(app: &mut App, actions: &[Action]) {
    for action in actions {
        assert!(app.act(*action), "{action:?} ends the program");
    }
}

fn selected(app: &App) -> String {
    let rows = app.rows();
    rows[app.selected(&rows)].name.clone()
}

fn log(name: &str, lines: &[&str]) -> Vec<LogLineEntry> {
    let line = |text: &&str| format!("2026-11-22T03:16:05.000001Z {text}");
    LogLineEntry::all(name, lines.iter().map(line).collect())
}

#[test]
fn the_selection_stays_within_the_rows_and_with_its_process() {
    let mut app = app();
    assert_eq!(selected(&app), "gateway");
    act(&mut app, &[Action::Move(-1)]);
    assert_eq!(selected(&app), "gateway");
    act(&mut app, &[Action::Page(1)]);
    assert_eq!(selected(&app), "encoder/rep-1");
    act(&mut app, &[Action::SortBy(1)]);
    assert_eq!(selected(&app), "encoder/rep-1");
    assert_eq!(app.rows()[1].name, "encoder/rep-1");
    act(&mut app, &[Action::First]);
    assert_eq!(selected(&app), "encoder/rep-0");
    act(&mut app, &[Action::Last, Action::Move(1)]);
    assert_eq!(selected(&app), "segmenter");
}

#[test]
fn following_a_node_shows_its_processes_and_reads_their_logs() {
    let mut app = app();
    act(&mut app, &[Action::Move(2), Action::FollowNode]);
    assert_eq!(app.view(), Some(&View::Node(Some("encoder".to_owned()))));
    assert_eq!(app.rows().len(), 2);
    let wanted = app.wanted_log().unwrap();
    assert_eq!(wanted.name, "encoder");
    assert_eq!(wanted.state_directory, PathBuf::from("/state/search"));
    act(&mut app, &[Action::Move(1), Action::Logs, Action::Help]);
    assert_eq!(app.wanted_log().unwrap().name, "encoder/rep-1");
    // Back over the help, the log and the node to the processes, and out.
    act(&mut app, &[Action::Back, Action::Back, Action::Back]);
    assert_eq!((app.view(), app.rows().len()), (None, 6));
    assert!(!app.act(Action::Back));
}

#[test]
fn the_gateway_can_be_followed_too() {
    let mut app = app();
    act(&mut app, &[Action::FollowNode]);
    assert_eq!(app.view(), Some(&View::Node(None)));
    assert_eq!(app.rows().len(), 1);
    assert_eq!(app.wanted_log().unwrap().name, "gateway");
}

#[test]
fn quitting_ends_the_program_from_everywhere() {
    let mut app = app();
    act(&mut app, &[Action::FollowNode, Action::Help]);
    assert!(!app.act(Action::Quit));
}

#[test]
fn a_log_is_followed_until_it_is_scrolled() {
    let mut app = app();
    act(&mut app, &[Action::Logs]);
    app.add_log(log("gateway", &["stderr one", "stderr two"]));
    assert_eq!(app.log.below, 0);
    act(&mut app, &[Action::Move(-1)]);
    app.add_log(log("gateway", &["stderr three"]));
    assert_eq!(app.log.below, 2, "what is shown stays where it is");
    act(&mut app, &[Action::Last]);
    assert_eq!(app.log.below, 0);
    act(&mut app, &[Action::First]);
    assert_eq!(app.log.below, 2);
    for _ in 0..LOG_LINES_MAX {
        app.add_log(log("gateway", &["stderr more"]));
    }
    assert_eq!(app.log.lines.len(), LOG_LINES_MAX);
    assert!(app.log.below < LOG_LINES_MAX);
}

#[test]
fn lines_of_logs_have_no_control_characters() {
    let mut app = app();
    let text = "stderr \u{1b}[31mred\u{1b}[0m\ta\u{1b}[2Jb\u{9b}c";
    app.add_log(log("a\u{7}", &[text, "flow starting"]));
    let lines: Vec<(&str, &str)> = app
        .log
        .lines
        .iter()
        .map(|it| (it.process.as_str(), it.text.as_str()))
        .collect();
    let expected = [
        ("a\\x07", "red    a\\x1b[2Jb\\x9bc"),
        ("a\\x07", "── starting ──"),
    ];
    assert_eq!(lines, expected);
}

#[test]
fn several_flows_take_turns_and_one_that_ended_is_left() {
    let mut app = app();
    let both = || vec![flow("search", 7, sample(6)), flow("encode", 8, sample(6))];
    app.add(both());
    assert_eq!(
        (app.title().as_deref(), app.place()),
        (Some("search"), (1, 2))
    );
    act(&mut app, &[Action::FollowNode, Action::NextFlow]);
    assert_eq!(
        (app.title().as_deref(), app.place()),
        (Some("encode"), (2, 2))
    );
    assert_eq!(app.view(), None);
    act(&mut app, &[Action::NextFlow]);
    assert_eq!(app.title().as_deref(), Some("search"));
    act(&mut app, &[Action::Logs]);
    app.add(vec![flow("encode", 8, sample(7))]);
    assert_eq!((app.title().as_deref(), app.view()), (Some("encode"), None));
    app.add(Vec::new());
    assert_eq!((app.title(), app.rows().len()), (None, 0));
    act(
        &mut app,
        &[Action::Move(1), Action::FollowNode, Action::Logs],
    );
    assert_eq!(app.wanted_log(), None);
}
