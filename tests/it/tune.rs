//! `flow tune` on this machine: it measures real flows and writes one that can be started.

use flow_tests::{TestFlow, flow_command};

#[test]
fn the_flow_file_that_wins_can_be_started() {
    let folder = tempfile::tempdir().unwrap();
    let (texts, file) = (
        folder.path().join("texts.txt"),
        folder.path().join("tuned.yml"),
    );
    std::fs::write(&texts, "a river\n\ntwo mountains\n").unwrap();
    let mut command = flow_command();
    command.args(["tune", "--seconds", "1", "--concurrency", "2", "--input"]);
    let output = command
        .arg(&texts)
        .arg("--output")
        .arg(&file)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    for precision in ["f32", "bf16", "int8"] {
        assert!(said.contains(&format!("{precision}, 1 × ")), "{said}");
    }
    let chosen = std::fs::read_to_string(&file).unwrap();
    assert!(
        chosen.contains("with 2 requests of 1 text in progress"),
        "{chosen}"
    );
    // A test's flow has this line already.
    let flow = TestFlow::up(&chosen.replace("jtype: Flow\n", ""));
    let mut post = flow_command();
    post.args(["post", &flow.url(), "--on", "/encode", "--text", "a river"]);
    assert!(post.output().unwrap().status.success());
}

#[test]
fn targets_that_no_candidate_meets_are_a_failure() {
    let mut command = flow_command();
    command.args([
        "tune",
        "--seconds",
        "1",
        "--corpus",
        "tutorial",
        "--p99",
        "1us",
    ]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains("no candidate is close enough and fast enough"),
        "{said}"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_reported_before_anything_is_measured() {
    let mut command = flow_command();
    command.args(["tune", "--output", "missing/tuned.yml"]);
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("cannot write `missing/tuned.yml`"), "{said}");
    assert!(!said.contains("texts/s"), "{said}");
}
