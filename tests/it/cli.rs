//! `flow post` and `flow ping`, run against a flow.

use std::fmt::Write;

use flow_tests::{Program, TestFlow, flow_command, free_port};
use serde_json::Value;

use crate::FAULTY;

fn flow(arguments: &[&str]) -> (Option<i32>, Program) {
    flow_with(arguments, b"")
}

fn flow_with(arguments: &[&str], stdin: &[u8]) -> (Option<i32>, Program) {
    let mut command = flow_command();
    command.args(arguments);
    let mut program = Program::start(command);
    program.write_all(stdin);
    (program.end().code(), program)
}

fn faulty() -> TestFlow {
    let executor =
        format!("{{name: faulty, uses: {FAULTY}, uses_with: {{mark: '!'}}, replicas: 2}}");
    TestFlow::up(&format!("executors: [{executor}]"))
}

fn texts(jsonl: &str) -> Vec<String> {
    let text = |line| {
        serde_json::from_str::<Value>(line).unwrap()["text"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    jsonl.lines().map(text).collect()
}

#[test]
fn texts_are_posted_and_shown() {
    let flow = faulty();
    let (code, post) = self::flow(&[
        "post",
        &flow.url(),
        "--on",
        "/mark",
        "--text",
        "hello world",
        "bye",
    ]);
    assert_eq!(code, Some(0), "{}", post.said());
    assert!(
        post.stdout().contains("hello world!") && post.stdout().contains("bye!"),
        "{}",
        post.said()
    );
    assert!(post.stderr().contains("2 documents"), "{}", post.said());
}

#[test]
fn an_output_file_is_in_the_order_of_the_input() {
    let flow = faulty();
    // The first request takes longest, and there are two replicas.
    let input = flow.folder().join("in.jsonl");
    let output = flow.folder().join("out.jsonl");
    let lines: String = (0..20).fold("{\"text\": \"300\"}\n".to_owned(), |mut lines, number| {
        writeln!(lines, "{{\"text\": \"0\", \"id\": \"{number}\"}}").unwrap();
        lines
    });
    std::fs::write(&input, &lines).unwrap();
    let (from, to) = (input.to_str().unwrap(), output.to_str().unwrap());
    let arguments = [
        "post",
        &flow.url(),
        "--on",
        "/slow",
        "--input",
        from,
        "--output",
        to,
        "--request-size",
        "1",
    ];
    let (code, post) = self::flow(&arguments);
    assert_eq!(code, Some(0), "{}", post.said());
    let written = std::fs::read_to_string(&output).unwrap();
    let ids: Vec<Value> = written
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["id"].clone())
        .collect();
    assert_eq!(texts(&written)[0], "300");
    assert_eq!(
        ids,
        (0..20)
            .map(|number| Value::from(number.to_string()))
            .collect::<Vec<_>>()
    );
}

#[test]
fn plain_lines_come_from_standard_input_and_go_to_standard_output() {
    let flow = faulty();
    let arguments = [
        "post",
        &flow.url(),
        "--on",
        "/mark",
        "--input",
        "-",
        "--lines",
        "--output",
        "-",
    ];
    let (code, post) = flow_with(&arguments, "one\n\"two\"\n세 번째\n".as_bytes());
    assert_eq!(code, Some(0), "{}", post.said());
    assert_eq!(texts(&post.stdout()), ["one!", "\"two\"!", "세 번째!"]);
}

#[test]
fn an_invalid_line_is_reported_with_its_number_and_the_others_are_sent() {
    let flow = faulty();
    let arguments = [
        "post",
        &flow.url(),
        "--on",
        "/mark",
        "--input",
        "-",
        "--output",
        "-",
    ];
    let input = b"{\"text\": \"one\"}\n{\"text\": oops}\n\"tw\xffo\"\n\"three\"\n";
    let (code, post) = flow_with(&arguments, input);
    assert_eq!(code, Some(1), "{}", post.said());
    assert_eq!(texts(&post.stdout()), ["one!", "three!"]);
    let output = post.stderr();
    assert!(
        output.contains("line 2") && output.contains("line 3"),
        "{output}"
    );
    assert!(output.contains("2 lines skipped"), "{output}");
}

#[test]
fn a_failed_request_is_reported_and_the_others_are_written() {
    let flow = faulty();
    let arguments = ["post", &flow.url(), "--on", "/fail", "--text", "a"];
    let (code, post) = self::flow(&arguments);
    assert_eq!(code, Some(1), "{}", post.said());
    assert!(post.stderr().contains("not today"), "{}", post.said());
    assert!(post.stderr().contains("1 failed"), "{}", post.said());
}

#[test]
fn an_unknown_executor_is_reported_with_the_known_ones() {
    let flow = faulty();
    let check = |options: &[&str], expected: &str| {
        let (url, start) = (flow.url(), ["--on", "/mark", "--text", "x"]);
        let arguments = [&["post", &url][..], &start, options].concat();
        let (code, post) = self::flow(&arguments);
        assert_eq!(code, Some(2), "{}", post.said());
        assert!(post.stderr().contains(expected), "{}", post.said());
    };
    check(
        &["--target-executor", "other"],
        "`--target-executor`: `other` matches no executor; there are `faulty`",
    );
    check(
        &["--parameters", r#"{"fauly": {"a": 1}}"#],
        "parameter `fauly` is for an executor `fauly`, which the flow does not have; did you mean `faulty`?",
    );
    check(
        &["--parameters", "other__a:1"],
        "parameter `other__a` is for an executor `other`, which the flow does not have; there are `faulty`",
    );
}

#[test]
fn docarray_v2_is_posted_too() {
    let flow = faulty();
    let arguments = [
        "post",
        &flow.url(),
        "--on",
        "/mark",
        "--text",
        "x",
        "--docarray",
        "v2",
        "--output",
        "-",
    ];
    let (code, post) = self::flow(&arguments);
    assert_eq!(code, Some(0), "{}", post.said());
    assert_eq!(texts(&post.stdout()), ["x!"]);
}

#[test]
fn ping_says_whether_a_flow_is_ready() {
    let flow = faulty();
    let (code, ping) = self::flow(&["ping", &flow.url()]);
    assert_eq!(code, Some(0), "{}", ping.said());
    let nobody = format!("grpc://127.0.0.1:{}", free_port());
    let (code, ping) = self::flow(&["ping", &nobody]);
    assert_eq!(code, Some(1), "{}", ping.said());
    assert!(ping.stderr().contains(&nobody), "{}", ping.said());
}

#[test]
fn an_unreachable_flow_is_reported_with_its_address() {
    let nobody = format!("grpc://127.0.0.1:{}", free_port());
    let (code, post) = flow(&["post", &nobody, "--on", "/any", "--text", "a"]);
    assert_eq!(code, Some(1), "{}", post.said());
    assert!(post.stderr().contains(&nobody), "{}", post.said());
}
