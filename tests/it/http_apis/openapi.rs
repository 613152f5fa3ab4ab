//! The OpenAPI document of a flow: `openapi-spec-validator` accepts it, and `schemathesis` makes requests of it.
//!
//! `FLOW_GOLDEN=write` rewrites the recorded list of operations.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use flow_tests::{Program, TestFlow, flow_command, openapi_python};
use http::Method;
use serde_json::{Value, json};

use super::client::send;
use crate::tiny_model::TinyModel;

/// The operations of a flow with routes of every API, and with keys.
const GOLDEN: &str = "golden/openapi.txt";

/// What must hold of each response, however odd the request is. Executors themselves decide which documents they take and
/// return, so those are not compared with their schemas.
const CHECKS: &str = "\
[checks]
enabled = false
not_a_server_error.enabled = true
status_code_conformance.enabled = true
content_type_conformance.enabled = true
response_schema_conformance.enabled = true

[[operations]]
include-tag = 'Jina'
checks.response_schema_conformance.enabled = false
";

/// The most requests for an operation in a phase: all of them take less than a minute.
const REQUESTS_MAX: &str = "10";

/// Runs a program in a folder; it must succeed.
#[track_caller]
fn run(folder: &Path, program: impl AsRef<std::ffi::OsStr>, arguments: &[&str]) -> Program {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    program
}

/// A flow with routes of every API whose requests need the key, the document, and the key.
async fn flow(folder: &Path) -> (TestFlow, Value, String) {
    let made = run(
        folder,
        flow_command().get_program(),
        &["key", "new", "somebody"],
    );
    let key = made.stdout().trim().to_owned();
    let ranker = TinyModel::classifier("bert", 1);
    let labels = json!({"0": "bad", "1": "good"});
    let classifier = TinyModel::classifier("bert", 2).configured("id2label", labels);
    let sparse = TinyModel::masked_lm("bert", true);
    let flow = TestFlow::up(&format!(
        "with: {{expose_endpoints: {{/encode: {{http_path: /vectors, methods: [PUT]}}}}}}\n\
         gateway: {{api_keys: {}/keys.yml}}\n\
         executors:\n\
         - {{name: encoder, uses: sentence-encoder}}\n\
         - {{name: ranker, uses: reranker, uses_with: {{model: '{}'}}}}\n\
         - {{name: classifier, uses: text-classifier, uses_with: {{model: '{}'}}}}\n\
         - {{name: sparse, uses: sparse-encoder, uses_with: {{model: '{}'}}}}",
        folder.display(),
        ranker.path().display(),
        classifier.path().display(),
        sparse.path().display()
    ));
    let bearer = ("authorization", format!("Bearer {key}"));
    let reply = send(&flow, (Method::GET, "/openapi.json"), &[bearer], "").await;
    (flow, reply.json(), key)
}

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN)
}

/// A line for each operation: its method and path, its API, its bodies, its status codes, and whether it needs a key.
fn operations(document: &Value) -> String {
    let paths = document["paths"].as_object().unwrap();
    let lines = paths.iter().flat_map(|(path, methods)| {
        let methods = methods.as_object().unwrap().iter();
        methods.map(move |(method, operation)| {
            let request = &operation["requestBody"]["content"]["application/json"]["schema"];
            let reply = &operation["responses"]["200"]["content"]["application/json"]["schema"];
            let statuses = operation["responses"].as_object().unwrap().keys();
            let statuses: Vec<&str> = statuses.map(String::as_str).collect();
            let key = match operation["security"].is_null() {
                true => "with a key",
                false => "open",
            };
            format!(
                "{} {path} | {} | {} -> {} | {} | {key}\n",
                method.to_uppercase(),
                operation["tags"][0].as_str().unwrap(),
                name(request),
                name(reply),
                statuses.join(" "),
            )
        })
    });
    lines.collect()
}

/// The name of a schema, if it has one.
fn name(schema: &Value) -> &str {
    let name = schema["$ref"].as_str().unwrap_or("-");
    name.rsplit('/').next().unwrap()
}

#[tokio::test]
async fn the_openapi_document_lists_the_routes_of_all_apis_as_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let (_flow, document, _) = flow(folder.path()).await;
    let text = operations(&document);
    if std::env::var_os("FLOW_GOLDEN").is_some_and(|it| it == "write") {
        fs::write(golden(), text).unwrap();
        return;
    }
    let recorded = fs::read_to_string(golden()).unwrap();
    assert_eq!(text, recorded, "`FLOW_GOLDEN=write` rewrites it");
    let needed = json!([{"bearer": []}, {"key": []}]);
    assert_eq!(document["security"], needed);
}

#[tokio::test]
async fn the_openapi_document_is_valid() {
    let Some(python) = openapi_python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (_flow, document, _) = flow(folder.path()).await;
    let file = folder.path().join("openapi.json");
    fs::write(file, document.to_string()).unwrap();
    let arguments = [
        "-m",
        "openapi_spec_validator",
        "--errors",
        "all",
        "openapi.json",
    ];
    run(folder.path(), python, &arguments);
}

#[tokio::test]
async fn requests_made_of_the_openapi_document_get_the_replies_that_it_describes() {
    let Some(python) = openapi_python() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (flow, document, key) = flow(folder.path()).await;
    let file = folder.path().join("openapi.json");
    fs::write(file, document.to_string()).unwrap();
    fs::write(folder.path().join("schemathesis.toml"), CHECKS).unwrap();
    let url = format!("http://127.0.0.1:{}", flow.port());
    let key = format!("authorization: Bearer {key}");
    let program = python.with_file_name("schemathesis");
    let of_document = ["run", "openapi.json", "--url", &url, "--header", &key];
    let bounded = [
        "--seed",
        "1",
        "--max-examples",
        REQUESTS_MAX,
        "--workers",
        "1",
    ];
    let told = ["--continue-on-failure", "--no-color"];
    let arguments = [&of_document[..], &bounded, &told].concat();
    flow.expect("documents without a text get no vector");
    flow.expect("documents without a text get no scores");
    run(folder.path(), program, &arguments);
}
