//! `flow post`, run as a program against a gateway that misbehaves on request.

use std::fs;
use std::io::{Read, Write};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::fake::{GATHERED, Gateway};
use flow_core::DocArrayVersion;
use serde_json::Value;

/// Time limit of a test: ten times what each of them takes.
const LIMIT: Duration = Duration::from_secs(20);

/// The result of a run.
struct Run {
    code: Option<i32>,
    out: String,
    said: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            said: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

impl Run {
    fn texts(&self) -> Vec<String> {
        texts(&self.out)
    }

    #[track_caller]
    fn expect(&self, code: i32, said: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.said);
        for expected in said {
            assert!(
                self.said.contains(expected),
                "`{expected}` in {}",
                self.said
            );
        }
    }
}

/// Texts of documents in JSON lines.
fn texts(lines: &str) -> Vec<String> {
    let document = |line| serde_json::from_str::<Value>(line).unwrap();
    lines
        .lines()
        .map(|line| document(line)["text"].as_str().unwrap().to_owned())
        .collect()
}

fn command(gateway: &Gateway, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_flow"));
    command.args(["post", &gateway.url()]).args(arguments);
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs with this on standard input.
fn post(gateway: &Gateway, input: &[u8], arguments: &[&str]) -> Run {
    let mut process = command(gateway, arguments).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    std::thread::scope(|scope| {
        // A program that has failed stops reading; its message is checked, not the pipe.
        scope.spawn(move || drop(stdin.write_all(input)));
        process.wait_with_output().unwrap().into()
    })
}

fn numbered(count: usize) -> String {
    (0..count).map(|number| format!("\"{number}\"\n")).collect()
}

const TO_STDOUT: [&str; 4] = ["--input", "-", "--output", "-"];

fn on<'a>(endpoint: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["--on", endpoint], &TO_STDOUT[..], more].concat()
}

#[test]
fn replies_are_written_in_the_order_of_the_input() {
    let gateway = Gateway::start();
    let run = post(
        &gateway,
        numbered(50).as_bytes(),
        &on("/backwards", &["--request-size", "3"]),
    );
    run.expect(
        0,
        &["50 documents in ", " documents/s, 17 requests, 0 failed\n"],
    );
    let wanted: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(run.texts(), wanted);
}

#[test]
fn prefetch_limits_the_requests_in_progress() {
    let gateway = Gateway::start();
    let prefetch = GATHERED.to_string();
    let arguments = on(
        "/backwards",
        &["--request-size", "1", "--prefetch", &prefetch],
    );
    post(&gateway, numbered(40).as_bytes(), &arguments).expect(0, &["40 requests"]);
    assert_eq!(
        gateway.seen().in_flight_most.load(Ordering::Relaxed),
        GATHERED
    );
}

#[test]
fn a_failed_request_is_reported_with_its_lines_and_its_code_and_affects_no_other() {
    let gateway = Gateway::start();
    let input = "\"a\"\n\"b\"\n\"c\"\n\"bad\"\n\"e\"\n";
    let run = post(
        &gateway,
        input.as_bytes(),
        &on("/fail", &["--request-size", "2"]),
    );
    run.expect(
        1,
        &[
            "flow: request 2 (lines 3–4) failed with ABORTED: executor `encoder`: this text is bad\n",
            ", 3 requests, 1 failed\n",
        ],
    );
    assert_eq!(run.texts(), ["a", "b", "e"]);
}

#[test]
fn ten_failures_are_reported_and_the_others_counted() {
    let gateway = Gateway::start();
    let run = post(
        &gateway,
        "bad\n".repeat(13).as_bytes(),
        &on("/fail", &["--lines", "--request-size", "1"]),
    );
    run.expect(
        1,
        &[
            "flow: 3 more requests failed\n",
            ", 13 requests, 13 failed\n",
        ],
    );
    assert_eq!(run.said.matches("this text is bad").count(), 10);
}

#[test]
fn a_line_that_is_not_a_document_is_reported_and_skipped() {
    let gateway = Gateway::start();
    let input = b"\"a\"\n{oops\n\"\xff\"\n{\"text\": 5}\n\n{\"text\": \"b\", \"tags\": {\"n\": 1}}";
    let run = post(&gateway, input, &on("/echo", &[]));
    run.expect(
        1,
        &[
            "flow: line 2 is not valid JSON: ",
            "flow: line 3 is not valid UTF-8 at byte 2\n",
            "flow: line 4 is not a document: `text` must be a text, not a number\n",
            "2 documents in ",
            ", 1 request, 0 failed, 3 lines skipped\n",
        ],
    );
    assert_eq!(run.texts(), ["a", "b"]);
    assert!(run.out.contains("\"tags\":{\"n\":1"), "{}", run.out);
}

#[test]
fn plain_lines_are_texts() {
    let gateway = Gateway::start();
    let run = post(&gateway, b"a\r\n\n{\"x\": 1}\n", &on("/echo", &["--lines"]));
    run.expect(0, &["3 documents in "]);
    let texts: Vec<Value> = run
        .out
        .lines()
        .map(|it| serde_json::from_str(it).unwrap())
        .collect();
    assert_eq!(
        (&texts[0]["text"], &texts[2]["text"]),
        (&"a".into(), &"{\"x\": 1}".into())
    );
    assert_eq!(texts.len(), 3);
}

#[test]
fn a_stream_that_breaks_keeps_the_replies_so_far() {
    for (endpoint, cause) in [
        ("/break", "the machine is on fire"),
        ("/stop", "the gateway ended the stream"),
    ] {
        let gateway = Gateway::start();
        let run = post(
            &gateway,
            numbered(3).as_bytes(),
            &on(endpoint, &["--request-size", "1"]),
        );
        run.expect(
            1,
            &[
                "flow: the stream ended early with UNAVAILABLE: ",
                cause,
                "1 document in ",
            ],
        );
        assert_eq!(run.texts(), ["0"], "{}", run.said);
    }
}

#[test]
fn a_time_out_is_reported_with_the_requests_without_a_reply() {
    let gateway = Gateway::start();
    let run = post(&gateway, b"\"a\"\n", &on("/never", &["--timeout", "300ms"]));
    run.expect(
        1,
        &[
            "1 request without a reply, the first 1 (line 1)\n",
            "1 failed\n",
        ],
    );
}

#[test]
fn texts_are_answered_in_readable_form() {
    let gateway = Gateway::start();
    let run = post(
        &gateway,
        b"",
        &["--on", "/echo", "--text", "hello world", "tschüß"],
    );
    run.expect(0, &["2 documents in "]);
    assert!(run.out.contains("text  hello world\n"), "{}", run.out);
    assert!(run.out.contains("text  tschüß\n"), "{}", run.out);
}

#[test]
fn requests_have_the_parameters_target_and_version_of_the_options() {
    let gateway = Gateway::start();
    let options = [
        "--parameters",
        "top_k:5",
        "--target-executor",
        "enc.*",
        "--compression",
        "gzip",
    ];
    let run = post(
        &gateway,
        b"\"a\"",
        &on("/echo", &[&options[..], &["--docarray", "v2"]].concat()),
    );
    run.expect(0, &["1 document in "]);
    let requests = gateway.seen().requests.lock().unwrap();
    let header = requests[0].header.clone().unwrap();
    assert_eq!(header.exec_endpoint.as_deref(), Some("/echo"));
    assert_eq!(header.target_executor.as_deref(), Some("enc.*"));
    assert_eq!(header.request_id.len(), 32);
    let parameters = flow_core::parameters::to_json(requests[0].parameters.as_ref()).unwrap();
    assert_eq!(Value::Object(parameters), serde_json::json!({"top_k": 5}));
}

#[test]
fn without_documents_one_empty_request_is_sent() {
    let gateway = Gateway::start();
    post(&gateway, b"", &["--on", "/status"])
        .expect(0, &["0 documents in ", ", 1 request, 0 failed"]);
    post(&gateway, b"", &on("/echo", &[]))
        .expect(0, &["0 documents in ", ", 0 requests, 0 failed"]);
}

#[test]
fn an_endpoint_that_no_executor_has_is_refused_before_anything_is_sent() {
    let gateway = Gateway::offering(&["/index", "/search"], "FlowDoc");
    let run = post(&gateway, b"", &["--on", "/serach", "--text", "a"]);
    run.expect(
        2,
        &["flow: no executor has an endpoint `/serach`; did you mean `/search`?\n"],
    );
    assert!(gateway.seen().requests.lock().unwrap().is_empty());
    post(&gateway, b"", &["--on", "/search", "--text", "a"]).expect(0, &["1 document in "]);
    let any = ["--on", "/serach", "--text", "a", "--any-endpoint"];
    post(&gateway, b"", &any).expect(0, &["1 document in "]);
}

#[test]
fn executors_with_a_default_are_sent_any_endpoint() {
    let gateway = Gateway::offering(&["/default", "/encode"], "FlowDoc");
    post(&gateway, b"", &["--on", "/anything", "--text", "a"]).expect(0, &["1 document in "]);
}

#[test]
fn documents_are_sent_in_the_version_that_executors_read() {
    for (class, more, wanted) in [
        ("FlowDoc", &[][..], DocArrayVersion::V1),
        ("PydanticDocument", &[][..], DocArrayVersion::V1),
        ("MyDoc", &[][..], DocArrayVersion::V2),
        ("MyDoc", &["--docarray", "v1"][..], DocArrayVersion::V1),
        ("FlowDoc", &["--docarray", "v2"][..], DocArrayVersion::V2),
    ] {
        let gateway = Gateway::offering(&["/encode"], class);
        let arguments = [&["--on", "/encode", "--text", "a"], more].concat();
        let run = post(&gateway, b"", &arguments);
        run.expect(0, &["1 document in "]);
        let sent = *gateway.seen().version.lock().unwrap();
        assert_eq!(sent, Some(wanted), "{class} {more:?}");
        let is_warned = run
            .said
            .contains("the executors read those of DocArray 0.30");
        let differs = class == "MyDoc" && wanted == DocArrayVersion::V1;
        assert_eq!(is_warned, differs, "{}", run.said);
    }
}

#[test]
fn documents_in_a_version_that_is_not_read_suggest_the_option() {
    let gateway = Gateway::start();
    let run = post(&gateway, b"", &["--on", "/undecodable", "--text", "a"]);
    run.expect(
        1,
        &[
            "DecodeError",
            "DocArray 0.30 or newer: try `--docarray v2`\n",
        ],
    );
}

#[test]
fn matches_are_shown_with_their_scores_texts_ids_and_tags() {
    let gateway = Gateway::start();
    let run = post(&gateway, b"", &["--on", "/found", "--text", "a"]);
    run.expect(0, &["1 document in "]);
    let shown = "12 documents
  cosine 1.0000  match 0
                 id-0  {\"page\":0}
  cosine 0.9375  match 1
                 id-1  {\"page\":1}
";
    assert!(run.out.contains(shown), "{}", run.out);
    assert!(run.out.ends_with("  … and 2 more\n"), "{}", run.out);
}

#[test]
fn results_of_executors_are_shown_and_written() {
    let gateway = Gateway::start();
    let run = post(&gateway, b"", &["--on", "/results"]);
    run.expect(0, &["1 request, 0 failed"]);
    assert_eq!(run.out, "result of index/rep-0\n  count  3\n");

    let run = post(&gateway, b"\"a\"", &on("/results", &[]));
    run.expect(0, &["1 document in "]);
    let results = "{\"__results__\":{\"index/rep-0\":{\"count\":3}}}\n";
    assert!(run.out.ends_with(results), "{}", run.out);
    assert_eq!(run.out.lines().count(), 2, "{}", run.out);

    // Sent again, the results are skipped.
    let again = post(&gateway, run.out.as_bytes(), &on("/echo", &[]));
    again.expect(0, &["1 document in "]);
    assert_eq!(again.texts(), ["a"]);

    let run = post(&gateway, b"\"a\"", &["--on", "/results", "--input", "-"]);
    run.expect(
        0,
        &["flow: executors returned results for 1 request; `--output FILE` writes them\n"],
    );
}

#[test]
fn an_output_file_appears_complete() {
    let gateway = Gateway::start();
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (
        folder.path().join("in.jsonl"),
        folder.path().join("out.jsonl"),
    );
    fs::write(&input, numbered(250)).unwrap();
    let files = [
        "--input",
        input.to_str().unwrap(),
        "--output",
        output.to_str().unwrap(),
    ];
    let run = post(&gateway, b"", &[&["--on", "/echo"], &files[..]].concat());
    run.expect(0, &["250 documents in ", ", 3 requests, 0 failed\n"]);
    assert_eq!(texts(&fs::read_to_string(&output).unwrap()).len(), 250);

    // A run without replies keeps the earlier output.
    let run = post(
        &gateway,
        b"",
        &[&["--on", "/never", "--timeout", "100ms"], &files[..]].concat(),
    );
    run.expect(1, &["the time is up"]);
    assert_eq!(texts(&fs::read_to_string(&output).unwrap()).len(), 250);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
}

#[test]
fn an_interrupt_keeps_the_replies_so_far() {
    use rustix::process::{Pid, Signal, kill_process};

    let gateway = Gateway::start();
    let mut process = command(&gateway, &on("/echo", &["--request-size", "1"]))
        .spawn()
        .unwrap();
    let mut stdin = process.stdin.take().unwrap();
    stdin.write_all(b"\"a\"\n").unwrap();
    let mut first = [0; 1];
    process
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    kill_process(Pid::from_child(&process), Signal::INT).unwrap();
    let run = Run::from(process.wait_with_output().unwrap());
    run.expect(
        130,
        &[
            "flow: interrupted; the rest of the input was not sent\n",
            "1 document in ",
        ],
    );
}

#[test]
fn a_large_input_needs_no_more_memory_than_a_small_one() {
    const DOCUMENTS: usize = 64 << 10;
    let gateway = Gateway::start();
    let arguments = [
        "--on",
        "/echo",
        "--input",
        "-",
        "--lines",
        "--request-size",
        "32",
    ];
    let mut process = command(&gateway, &arguments).spawn().unwrap();
    let mut stdin = process.stdin.take().unwrap();
    let line = format!("{}\n", "x".repeat(1023)).into_bytes();
    let block = line.repeat(32);
    for _ in 0..DOCUMENTS / 32 {
        stdin.write_all(&block).unwrap();
    }
    let since = Instant::now();
    while gateway.seen().documents.load(Ordering::Relaxed) < DOCUMENTS {
        assert!(since.elapsed() < LIMIT, "not all of the input arrived");
        std::thread::yield_now();
    }
    let most = most_memory(process.id());
    drop(stdin);
    let run = Run::from(process.wait_with_output().unwrap());
    run.expect(0, &["65,536 documents in "]);
    assert!(most < 48 << 20, "{} MiB for an input of 64 MiB", most >> 20);
}

/// The most resident memory that a process had so far, in bytes.
fn most_memory(pid: u32) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .unwrap();
    line.trim()
        .trim_end_matches(" kB")
        .parse::<usize>()
        .unwrap()
        << 10
}
