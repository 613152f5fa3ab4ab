//! Real Python clients that give up, and the same when the gateway shuts down in the middle of their requests.

use flow_tests::{TestFlow, eventually, free_port, scrape};
use serde_json::{Value, json};

use super::MODEL;

/// Clients of `http_client_calls.py`.
const CLIENTS: usize = 8;

/// The gateway's number of requests in progress.
const PENDING: &str = "jina_number_of_pending_requests{runtime_name=\"gateway/rep-0\"}";

/// A flow with an encoder, and the address of its metrics.
fn encoder() -> (TestFlow, String) {
    let port = free_port();
    let yaml = format!(
        "with: {{monitoring: true}}\ngateway: {{port_monitoring: {port}}}\n\
         executors: [{{name: encoder, uses: sentence-encoder}}]"
    );
    // A busy machine may take longer for the requests in progress than a flow usually gives them.
    let flow = TestFlow::up_with(&yaml, &["--grace", "60s"]);
    (flow, format!("http://127.0.0.1:{port}/metrics"))
}

/// A request with so many texts of about 160 tokens.
fn long(flow: &TestFlow, texts: usize) -> Value {
    let text = "a long text, of which there are many ".repeat(20);
    let url = format!("http://127.0.0.1:{}", flow.port());
    json!({"url": url, "model": MODEL, "key": "none", "texts": vec![text; texts]})
}

#[test]
fn requests_of_clients_that_give_up_are_cancelled() {
    let (flow, metrics) = encoder();
    let mut case = long(&flow, 64);
    case["timeout"] = json!(0.2);
    let arguments = ["cancel".to_owned(), case.to_string()];
    let Some(got) = flow_tests::http_clients("http_client_interruptions.py", &arguments) else {
        return;
    };
    let exception = |client: &str| got[client][0].as_str().unwrap_or_default().to_owned();
    for client in ["openai", "async_openai", "langchain", "llama_index"] {
        assert_eq!(exception(client), "APITimeoutError", "{client}: {got}");
    }
    assert_eq!(got.as_object().unwrap().len(), CLIENTS, "{got}");
    for (client, outcome) in got.as_object().unwrap() {
        assert_ne!(outcome, "answered", "{client}: {got}");
    }
    eventually("all requests have ended", || {
        scrape(&metrics).get(PENDING) == 0
    });
}

#[test]
fn a_gateway_that_shuts_down_answers_the_requests_in_progress() {
    let (mut flow, metrics) = encoder();
    let pid = flow.program().pid().to_string();
    let case = long(&flow, 8).to_string();
    let arguments = ["drain".to_owned(), case, metrics, pid];
    let Some(got) = flow_tests::http_clients("http_client_interruptions.py", &arguments) else {
        return;
    };
    let of = |part: &str| got[part].as_object().unwrap().clone();
    assert_eq!(of("before").len(), CLIENTS, "{got}");
    assert!(got["in_progress"].as_f64().unwrap() >= 1.0, "{got}");
    for (client, outcome) in of("before") {
        assert_eq!(outcome, "answered", "{client}: {got}");
    }
    for (client, outcome) in of("after") {
        assert_ne!(outcome, "answered", "{client}: {got}");
    }
    for client in ["openai", "async_openai", "langchain", "llama_index"] {
        assert_eq!(
            got["after"][client][0], "APIConnectionError",
            "{client}: {got}"
        );
    }
    assert!(flow.program_mut().end().success());
}
