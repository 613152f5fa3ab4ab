//! Clients and flows of the Python package `flow_serve`.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use flow_tests::{
    DocArrayVersion, Program, TestFlow, flow_command, flow_serve, flow_serve_alone,
    http_clients_python, last_json, notebook_python, python_script, script, sentence_transformers,
};
use serde_json::{Value, json};

use crate::FAULTY;
use crate::images::model;

/// Where flow_serve's client differs from Jina's on purpose: the case, the pointer into its result, Jina's value, and ours.
fn differences() -> Vec<(&'static str, &'static str, Value, Value)> {
    // Jina's clients cancel themselves, and leave the reason in the log.
    let cancelled = || json!(["CancelledError"]);
    vec![
        (
            "inputs_that_fail",
            "/0",
            cancelled(),
            json!(["KeyError", "LookupError"]),
        ),
        (
            "inputs_that_fail",
            "/1",
            cancelled(),
            json!(["BadClientInput", "BadClient"]),
        ),
        // DocArray counts levels again when it reads a document; ours are as they were sent.
        ("nested", "/places/1", json!(2), json!(1)),
    ]
}

/// Runs the table of cases with one of the packages.
fn table(mut command: Command, flow: &TestFlow) -> Value {
    command.arg(flow.port().to_string());
    last_json(command)
}

#[test]
fn the_client_behaves_as_jinas_client() {
    let Some(python) = flow_serve() else { return };
    let Some(stock) = script(DocArrayVersion::V1, "../python/client_table.py") else {
        return;
    };
    let faulty = format!("{{name: faulty, uses: {FAULTY}, uses_with: {{mark: '!'}}}}");
    let flow = TestFlow::up(&format!(
        "executors: [{{name: echo, uses: echo}}, {faulty}]"
    ));
    let mut own = flow_command();
    own.arg("python").arg(python_script("client_table.py"));
    own.env("FLOW_PYTHON", python);
    let (mut stock, own) = (table(stock, &flow), table(own, &flow));
    for (case, pointer, jinas, ours) in differences() {
        let found = own[case].pointer(pointer);
        assert_eq!(found, Some(&ours), "{case}{pointer}");
        let theirs = stock[case].pointer_mut(pointer);
        let theirs = theirs.unwrap_or_else(|| panic!("{case}{pointer}"));
        assert_eq!(std::mem::replace(theirs, ours), jinas, "{case}{pointer}");
    }
    for (case, of_stock) in stock.as_object().unwrap() {
        assert_eq!(&own[case], of_stock, "{case}");
        assert!(of_stock.get("raised").is_none(), "{case}: {of_stock}");
    }
}

/// Runs a script of `python/` with flow_serve, which starts this tree's program.
#[track_caller]
fn check(name: &str) {
    let Some(python) = flow_serve() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut command = flow_command();
    command
        .arg("python")
        .arg(python_script(name))
        .arg(folder.path());
    command.env("FLOW_PYTHON", python);
    command.env("XDG_STATE_HOME", folder.path().join("state"));
    assert_eq!(last_json(command), json!("fine"), "{name}");
}

#[test]
fn flows_are_built_started_and_closed_by_python() {
    check("flows.py");
}

#[test]
fn executors_that_a_script_defines_run_in_their_own_processes() {
    check("own_executors.py");
}

#[test]
fn ten_thousand_posts_and_calls_leave_no_object_and_no_memory_behind() {
    check("leaks.py");
}

#[test]
fn arrays_are_searched_grouped_and_merged() {
    check("arrays.py");
}

/// Both generations of docarray, each in the environment of its Jina, with our package beside it.
#[test]
fn documents_of_docarray_are_taken_and_given_back() {
    let Some(folder) = flow_serve_alone() else {
        return;
    };
    let flow = TestFlow::up("executors: [{uses: echo}]");
    for version in DocArrayVersion::ALL {
        let name = "../python/docarray_documents.py";
        if let Some(mut command) = script(version, name) {
            command.env("PYTHONPATH", folder.path());
            command.arg(flow.port().to_string());
            assert_eq!(last_json(command), json!("fine"), "{version:?}");
        }
    }
}

/// LangChain's and LlamaIndex' own classes, in the environment of the clients of HTTP APIs.
#[test]
fn langchain_and_llama_index_take_the_encoder() {
    if let (Some(folder), Some(python)) = (flow_serve_alone(), http_clients_python()) {
        let mut command = Command::new(python);
        command.arg(python_script("adapters.py"));
        command.env("PYTHONPATH", folder.path());
        assert_eq!(last_json(command), json!("fine"));
    }
}

/// A kernel of Jupyter, whose cells run inside an event loop.
#[test]
fn a_notebook_shows_flows_and_documents_and_posts_to_executors_of_its_own() {
    let (Some(package), Some(python)) = (flow_serve_alone(), notebook_python()) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(python);
    command
        .arg(python_script("notebook.py"))
        .arg(folder.path())
        .current_dir(folder.path());
    command.env("PYTHONPATH", package.path());
    command.env("FLOW_BIN", flow_command().get_program());
    command.env("HOME", folder.path());
    command.env("XDG_STATE_HOME", folder.path().join("state"));
    assert_eq!(last_json(command), json!("fine"));
}

#[test]
fn the_encoder_gives_the_vectors_of_sentence_transformers() {
    let Some(python) = flow_serve() else { return };
    let fidelity = python_script("../../crates/flow-models/tests/fidelity");
    let mut command = Command::new(python);
    command.arg(python_script("encoder.py"));
    command.args([fidelity.join("texts.jsonl"), fidelity.join("vectors.f32")]);
    command.arg(crate::images::model());
    assert_eq!(last_json(command), json!("fine"));
}

#[test]
fn flow_migrate_analyses_a_project_without_running_it() {
    check("migrate.py");
}

/// Documents that the tutorial sends here, rather than 10,000.
const TUTORIAL_DOCUMENTS: usize = 320;

/// The tutorial's files, as it prints them. PyTorch and sentence-transformers, which take gigabytes, are replaced by modules
/// that compute the same with flow's encoder.
#[test]
fn the_tutorials_script_runs_unchanged() {
    let Some(python) = flow_serve() else { return };
    run_tutorial(&python, &python_script("tutorial/stand_ins"), |_| {});
}

/// The same with the libraries themselves, where `cargo xtask setup --only torch` has installed them.
#[test]
fn the_tutorials_script_runs_unchanged_with_sentence_transformers() {
    let (Some(python), Some(package)) = (sentence_transformers(), flow_serve_alone()) else {
        return;
    };
    let model = model();
    run_tutorial(&python, package.path(), |folder| {
        // The script uses the model's name on the hub. sentence-transformers prefers a folder with this name in the working directory.
        symlink(&model, folder.join("all-MiniLM-L6-v2")).unwrap();
    });
}

/// Runs the tutorial's script on an interpreter that also finds the packages of a folder.
fn run_tutorial(python: &Path, packages: &Path, prepare: impl Fn(&Path)) {
    let folder = tempfile::tempdir().unwrap();
    for name in ["executor.py", "main.py"] {
        let text = std::fs::read_to_string(python_script("tutorial").join(name)).unwrap();
        let text = text.replace("10_000", &TUTORIAL_DOCUMENTS.to_string());
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    prepare(folder.path());
    let mut command = flow_command();
    command.arg("python").arg(folder.path().join("main.py"));
    command.current_dir(folder.path());
    command.env("FLOW_PYTHON", python);
    command.env("PYTHONPATH", packages);
    command.env("XDG_STATE_HOME", folder.path().join("state"));
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    let out = program.stdout();
    for part in ["Flow is ready to serve!", "DONE", "10 steps done in "] {
        assert!(out.contains(part), "{part:?} is not in {}", program.said());
    }
    let said = program.said();
    assert!(said.contains("executor0@"), "{said}");
    assert!(said.contains("ready and listening"), "{said}");
}
