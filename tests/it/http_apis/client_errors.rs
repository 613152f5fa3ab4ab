//! What the real Python clients raise when the gateway refuses a request, or cannot answer it.
//!
//! A Python takes seconds to start, so `peers/http_client_errors.py` runs all clients on all flows once.

use std::path::Path;

use flow_tests::{Program, TestFlow, flow_command, free_port};
use serde_json::{Value, json};

use super::{MODEL, TEXTS};

/// A flow with an encoder, with these options of the gateway.
fn encoder_with(options: &str) -> TestFlow {
    TestFlow::up(&format!(
        "with: {{{options}}}\nexecutors: [{{name: encoder, uses: sentence-encoder}}]"
    ))
}

/// A new key in a file.
fn new_key(file: &Path, name: &str, options: &[&str]) -> String {
    let mut command = flow_command();
    command.args(["key", "new", name, "--file"]).arg(file);
    command.args(options);
    let (code, said) = Program::run(command);
    assert_eq!(code, Some(0), "{}", said.said());
    said.stdout().trim().to_owned()
}

fn case(name: &str, flow: &TestFlow, key: &str) -> Value {
    json!({"name": name, "port": flow.port(), "model": MODEL, "key": key, "texts": TEXTS})
}

/// A flow whose executor is not there.
fn dead() -> TestFlow {
    let port = free_port();
    let flow = TestFlow::up(&format!(
        "with: {{models: {{m: encoder}}}}\nexecutors: [{{name: encoder, external: true, port: {port}, retries: 0}}]"
    ));
    flow.expect("replica cannot be reached");
    flow
}

#[test]
fn clients_raise_what_they_raise_for_the_services_that_they_are_made_for() {
    let folder = tempfile::tempdir().unwrap();
    let keys = folder.path().join("keys.yml");
    let elsewhere = new_key(&keys, "elsewhere", &["--endpoint", "/elsewhere"]);
    let few = new_key(&keys, "few", &["--tokens-per-day", "5"]);
    let with_keys = encoder_with(&format!("api_keys: '{}'", keys.display()));
    let small = encoder_with("documents_max: 1");
    let late =
        TestFlow::up("executors: [{name: encoder, uses: sentence-encoder, timeout_send: 5ms}]");
    let dead = dead();
    let long = vec!["a long text, of which there are many ".repeat(20); 64];
    let mut too_late = case("late", &late, "none");
    too_late["texts"] = json!(long);
    let mut without = case("dead", &dead, "none");
    without["model"] = json!("m");
    let mut throttled = case("throttled", &with_keys, &few);
    throttled["is_first_answered"] = json!(true);
    let cases = json!([
        case("unauthorised", &with_keys, "wrong"),
        case("forbidden", &with_keys, &elsewhere),
        throttled,
        case("too large", &small, "none"),
        too_late,
        without,
    ]);
    let Some(got) = flow_tests::http_clients("http_client_errors.py", &[cases.to_string()]) else {
        return;
    };
    check(
        &got,
        "unauthorised",
        ("AuthenticationError", "UnauthorizedError"),
        401,
        "UNAUTHENTICATED",
    );
    check(
        &got,
        "forbidden",
        ("PermissionDeniedError", "ForbiddenError"),
        403,
        "PERMISSION_DENIED",
    );
    check(
        &got,
        "throttled",
        ("RateLimitError", "TooManyRequestsError"),
        429,
        "RESOURCE_EXHAUSTED",
    );
    check(
        &got,
        "too large",
        ("BadRequestError", "BadRequestError"),
        400,
        "INVALID_ARGUMENT",
    );
    check(
        &got,
        "late",
        ("InternalServerError", "GatewayTimeoutError"),
        504,
        "DEADLINE_EXCEEDED",
    );
    check(
        &got,
        "dead",
        ("InternalServerError", "ServiceUnavailableError"),
        503,
        "UNAVAILABLE",
    );
}

/// Checks what each client of a case raised: those of OpenAI and Cohere, the status of HTTP, and that of gRPC.
#[track_caller]
fn check(got: &Value, name: &str, (openai, cohere): (&str, &str), status: u16, grpc: &str) {
    let found = &got[name];
    for client in ["openai", "async_openai", "langchain", "llama_index"] {
        assert_eq!(
            found[client],
            json!([openai, status]),
            "{name}, {client}: {found}"
        );
    }
    assert_eq!(found["cohere"], json!([cohere, status]), "{name}: {found}");
    // TEI, whose API this client speaks, has another status for invalid inputs.
    let of_tei = if status == 400 { 422 } else { status };
    assert_eq!(found["hugging_face"][1], of_tei, "{name}: {found}");
    assert_eq!(
        found["triton_http"],
        json!(["InferenceServerException", status.to_string()]),
        "{name}: {found}"
    );
    let grpc = format!("StatusCode.{grpc}");
    assert_eq!(
        found["triton_grpc"],
        json!(["InferenceServerException", grpc]),
        "{name}: {found}"
    );
}
