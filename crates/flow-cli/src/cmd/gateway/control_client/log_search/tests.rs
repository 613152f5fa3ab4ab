use std::fmt::Write;

use flow_gateway::supervisor::LogLevel;

use super::*;

/// A folder with the logs of these processes. Each line is the millisecond of its time, its source and its text.
fn logs(processes: &[(&str, &[&str])]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (process, lines) in processes {
        let path = log_file(folder.path(), process);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let mut text = String::new();
        for line in *lines {
            let (millisecond, rest) = line.split_once(' ').unwrap();
            writeln!(text, "2026-11-22T03:16:05.{millisecond:0>3}000Z {rest}").unwrap();
        }
        std::fs::write(path, text).unwrap();
    }
    folder
}

fn texts(folder: &tempfile::TempDir, query: &LogQuery) -> Vec<String> {
    let found = search(folder.path(), query);
    found.entries.into_iter().map(|it| it.text).collect()
}

fn all() -> LogQuery {
    LogQuery::default()
}

#[test]
fn entries_of_all_processes_are_sorted_by_time() {
    let folder = logs(&[
        ("gateway", &["2 stderr INFO b", "400 stderr INFO d"]),
        ("a/rep-0", &["1 flow starting", "200 stdout c"]),
    ]);
    assert_eq!(
        texts(&folder, &all()),
        ["starting", "INFO b", "c", "INFO d"]
    );
    let found = search(folder.path(), &all());
    assert_eq!(found.processes, ["a/rep-0", "gateway"]);
    assert!(!found.is_cut && found.entries[0].is_note);
    let of_a = LogQuery {
        process: "a".to_owned(),
        ..all()
    };
    assert_eq!(texts(&folder, &of_a), ["starting", "c"]);
}

#[test]
fn a_traceback_belongs_to_the_line_above_it() {
    let folder = logs(&[(
        "a",
        &[
            "1 stderr INFO request_id=\"x\" begins",
            "100 stderr ERROR request_id=\"x\" failed",
            "101 stderr   File \"a.py\", line 3",
            "102 stderr ValueError: no",
            "103 stdout printed",
            "400 stderr later",
        ],
    )]);
    let failed = "ERROR request_id=\"x\" failed\n  File \"a.py\", line 3\nValueError: no";
    let errors = LogQuery {
        level: Some(LogLevel::Error),
        ..all()
    };
    assert_eq!(texts(&folder, &errors), [failed]);
    let of_request = LogQuery {
        request: "x".to_owned(),
        ..all()
    };
    let expected = ["INFO request_id=\"x\" begins", failed];
    assert_eq!(texts(&folder, &of_request), expected);
    let expected = ["INFO request_id=\"x\" begins", failed, "printed", "later"];
    assert_eq!(texts(&folder, &all()), expected);
}

#[test]
fn only_entries_since_a_time_are_read() {
    let folder = logs(&[("a", &["1 stderr INFO old", "500 stderr INFO new"])]);
    let at_us = search(folder.path(), &all()).entries[1].at_us;
    let since = |since| LogQuery {
        since_us: Some(since),
        ..all()
    };
    assert_eq!(texts(&folder, &since(at_us)), ["INFO new"]);
    assert_eq!(texts(&folder, &since(at_us + 1)), [""; 0]);
}

#[test]
fn of_too_many_entries_the_newest_are_returned() {
    let folder = tempfile::tempdir().unwrap();
    for process in ["a", "b"] {
        let mut text = String::new();
        for number in 0..ENTRIES_MAX {
            let (second, millisecond) = (number / 1000 % 60, number % 1000);
            let time = format!("2026-11-22T03:16:{second:02}.{millisecond:03}000Z");
            writeln!(text, "{time} stderr INFO {process}{number}").unwrap();
        }
        std::fs::write(log_file(folder.path(), process), text).unwrap();
    }
    let found = search(folder.path(), &all());
    assert_eq!(found.entries.len(), ENTRIES_MAX);
    assert!(found.is_cut);
    let last = ENTRIES_MAX - 1;
    let texts: Vec<&str> = found.entries.iter().map(|it| it.text.as_str()).collect();
    let expected = [format!("INFO a{last}"), format!("INFO b{last}")];
    assert_eq!(texts[ENTRIES_MAX - 2..], expected);
    assert_eq!(texts[0], format!("INFO a{}", ENTRIES_MAX / 2));
}

#[test]
fn texts_take_a_bounded_amount_of_memory() {
    let long = "x".repeat(15 << 10);
    let lines: Vec<String> = (0..99)
        .map(|it| format!("{it} stderr INFO {long}"))
        .collect();
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let folder = logs(&[("a", lines.as_slice())]);
    let found = search(folder.path(), &all());
    let len: usize = found.entries.iter().map(|it| it.text.len()).sum();
    assert!(found.is_cut && len <= TEXTS_LEN_MAX, "{len}");
    assert!(len > TEXTS_LEN_MAX / 2, "{len}");
}

#[test]
fn an_unreadable_log_hides_no_other() {
    let folder = logs(&[("a", &["1 stderr INFO a"])]);
    std::fs::write(log_file(folder.path(), "b"), b"\xff\xfe\n\x00\n").unwrap();
    std::fs::write(log_file(folder.path(), "c"), "").unwrap();
    assert!(texts(&folder, &all()).contains(&"INFO a".to_owned()));
}
