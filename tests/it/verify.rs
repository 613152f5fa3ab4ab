//! `flow verify` over real flows: stored vectors, two flows of different precision, vectors that are wrong or missing.

use std::fs;
use std::path::Path;
use std::process::Output;

use flow_tests::{TestFlow, flow_command, flow_file};
use serde_json::Value;

const TEXTS: [&str; 3] = ["a river", "two mountains", "the sea at night"];

fn encoder(precision: &str) -> TestFlow {
    TestFlow::up(&format!(
        "executors: [{{name: encoder, uses: sentence-encoder, uses_with: {{precision: {precision}}}}}]"
    ))
}

fn verify(flow: &TestFlow, options: &[&str]) -> Output {
    let mut command = flow_command();
    command.args(["verify", &flow.url(), "--on", "/encode"]);
    command.args(options).output().unwrap()
}

/// What the flow reports as JSON, and the exit code.
fn compared(flow: &TestFlow, options: &[&str]) -> (Value, Option<i32>) {
    let output = verify(flow, &[options, &["--json"]].concat());
    let json = serde_json::from_slice(&output.stdout);
    (
        json.unwrap_or_else(|_| panic!("{output:?}")),
        output.status.code(),
    )
}

/// Stores the vectors of the flow as `flow post` does.
fn store(flow: &TestFlow, path: &Path) {
    let mut command = flow_command();
    command.args(["post", &flow.url(), "--on", "/encode", "--text"]);
    command.args(TEXTS).arg("--output").arg(path);
    assert!(command.output().unwrap().status.success());
}

#[test]
fn a_flow_agrees_with_its_own_stored_vectors_and_not_with_changed_ones() {
    let flow = encoder("f32");
    let stored = flow.folder().join("vectors.jsonl");
    store(&flow, &stored);
    let reference = ["--reference", stored.to_str().unwrap()];
    let (json, exit) = compared(&flow, &reference);
    assert_eq!(
        (exit, &json["agree"]),
        (Some(0), &Value::Bool(true)),
        "{json:#}"
    );
    assert_eq!((&json["texts"], &json["below"]), (&3.into(), &0.into()));
    assert!(
        json["lowest_cosine"].as_f64().unwrap() > 0.999_999,
        "{json:#}"
    );

    // The second document gets the vector of the first, and the third loses its own.
    let lines = fs::read_to_string(&stored).unwrap();
    let mut documents: Vec<Value> = lines
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    documents[1]["embedding"] = documents[0]["embedding"].clone();
    documents[2].as_object_mut().unwrap().remove("embedding");
    let lines: Vec<String> = documents.iter().map(Value::to_string).collect();
    fs::write(&stored, lines.join("\n")).unwrap();
    let (json, exit) = compared(&flow, &reference);
    assert_eq!(
        (exit, &json["agree"]),
        (Some(1), &Value::Bool(false)),
        "{json:#}"
    );
    assert_eq!(
        (&json["below"], &json["not_compared"]),
        (&1.into(), &1.into())
    );
    let worst: Vec<&Value> = json["worst"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["text"])
        .collect();
    assert_eq!(worst, [TEXTS[2], TEXTS[1], TEXTS[0]]);
    assert_eq!(
        json["worst"][0]["reason"],
        "the reference file has no vector for it"
    );
}

#[test]
fn two_flows_are_compared_and_the_bar_decides() {
    let (exact, rounded) = (encoder("f32"), encoder("int8"));
    let url = rounded.url();
    let options = ["--reference", &url, "--text", TEXTS[0], TEXTS[1], TEXTS[2]];
    let (json, exit) = compared(&exact, &[&options[..], &["--request-size", "2"]].concat());
    assert_eq!(exit, Some(0), "{json:#}");
    let lowest = json["lowest_cosine"].as_f64().unwrap();
    assert!((0.999..0.999_999).contains(&lowest), "{json:#}");

    let output = verify(
        &exact,
        &[&options[..], &["--min-cosine", "0.999999"]].concat(),
    );
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("the vectors do not agree"), "{text}");
}

#[test]
fn bad_usage_is_reported_before_anything_is_sent() {
    let flow = TestFlow::file("echo.yml");
    #[track_caller]
    fn check(output: &Output, wanted: &str) {
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(wanted), "{text}");
        assert_eq!(output.status.code(), Some(2), "{text}");
    }
    let url = flow.url();
    let wanted = "to compare two flows, give the documents with `--input` or `--text`";
    check(
        &verify(&flow, &["--any-endpoint", "--reference", &url]),
        wanted,
    );
    let texts = flow_file("../tests/peers/model.txt");
    let texts = texts.to_str().unwrap();
    let wanted = "the documents are those of the reference file";
    check(
        &verify(&flow, &["--reference", texts, "--text", "a"]),
        wanted,
    );
    check(
        &verify(&flow, &["--any-endpoint", "--reference", "none.jsonl"]),
        "cannot read `none.jsonl`",
    );
    let wanted = "entry 1 of the input is not valid JSON";
    check(
        &verify(&flow, &["--any-endpoint", "--reference", texts]),
        wanted,
    );
}
