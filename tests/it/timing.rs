//! `flow trace` and `flow post --timing` over real processes: two branches, one of them a stock executor, and a shared call.

use std::process::Output;

use flow_tests::{DocArrayVersion, Stock, TestFlow, flow_command};
use serde_json::Value;

use crate::FAULTY;

/// Runs a command against the flow, with requests to an endpoint.
fn run(flow: &TestFlow, command: &[&str], endpoint: &str, options: &[&str]) -> Output {
    let (name, more) = command.split_first().unwrap();
    let mut command = flow_command();
    command.args([*name, &flow.url(), "--on", endpoint]);
    command.args(more).args(options).output().unwrap()
}

fn traced(flow: &TestFlow, endpoint: &str, options: &[&str]) -> Value {
    let output = run(flow, &["trace", "--json"], endpoint, options);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The hop below this one with this name.
fn hop<'h>(above: &'h Value, name: &str) -> &'h Value {
    let mut hops = above["hops"].as_array().unwrap().iter();
    hops.find(|it| it["name"] == name)
        .unwrap_or_else(|| panic!("no `{name}` in {above:#}"))
}

fn ms(hop: &Value, field: &str) -> f64 {
    hop[field].as_f64().unwrap()
}

/// Every hop is within the one above it.
fn check_inside(above: &Value) {
    let end = |hop: &Value| ms(hop, "start_ms") + ms(hop, "took_ms");
    for hop in above["hops"].as_array().unwrap() {
        let is_inside =
            ms(hop, "start_ms") >= ms(above, "start_ms") - 1e-6 && (end(hop) <= end(above) + 1e-6);
        assert!(is_inside, "{hop:#} in {above:#}");
        check_inside(hop);
    }
}

#[test]
fn branches_are_side_by_side_and_a_stock_executor_has_its_time_only() {
    let Some(stock) = Stock::executor_with(DocArrayVersion::V2, &[]) else {
        return;
    };
    // Ours waits for a batch, so that the other begins meanwhile.
    let yaml = format!(
        "executors:\n- {{name: ours, uses: echo, needs: gateway, uses_dynamic_batching: {{/upper: {{preferred_batch_size: 100, \
         timeout: 200}}}}}}\n- {{name: theirs, external: true, host: 127.0.0.1, \
         port: {}, needs: gateway}}\n- {{name: join, uses: echo, needs: [ours, theirs]}}",
        stock.port()
    );
    let flow = TestFlow::up(&yaml);
    let traced = traced(&flow, "/upper", &["--text", "a", "--docarray", "v2"]);
    let client = &traced["hops"];
    check_inside(client);
    let gateway = hop(client, "gateway");
    let ours = hop(gateway, "ours");
    assert!(ms(hop(ours, "call"), "took_ms") <= ms(ours, "took_ms"));
    let theirs = hop(gateway, "theirs");
    assert_eq!(theirs["hops"], Value::Array(Vec::new()), "{theirs:#}");
    assert!(ms(theirs, "took_ms") > 0.0);
    // Both begin before one of them ends.
    let end = |hop: &Value| ms(hop, "start_ms") + ms(hop, "took_ms");
    let last_start = ms(ours, "start_ms").max(ms(theirs, "start_ms"));
    assert!(last_start <= end(ours).min(end(theirs)), "{gateway:#}");
}

#[test]
fn requests_that_wait_together_share_a_call() {
    let flow = TestFlow::up(
        "executors: [{name: a, uses: echo, uses_dynamic_batching: {/x: {preferred_batch_size: 100, timeout: 200}}}]",
    );
    let one = traced(&flow, "/x", &["--text", "a"]);
    let node = hop(hop(&one["hops"], "gateway"), "a");
    // No other request arrives, so the worker waits for the whole time.
    assert!(ms(hop(node, "batch"), "took_ms") > 150.0, "{node:#}");
    assert!(ms(hop(node, "queue"), "took_ms") < 150.0, "{node:#}");
    assert_eq!(hop(node, "call")["note"], Value::Null);

    let texts = ["--text", "a", "b", "c", "--request-size", "1"];
    let output = run(&flow, &["post", "--timing", "--output", "-"], "/x", &texts);
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    for hop in ["client", "network", "gateway", "batch", "call"] {
        let line = said.lines().find(|line| line.contains(hop));
        let line = line.unwrap_or_else(|| panic!("no `{hop}` in {said}"));
        assert!(line.ends_with(" 3"), "{line}");
    }
}

#[test]
fn a_request_that_fails_is_drawn_with_its_failure() {
    let flow = TestFlow::up(&format!(
        "executors: [{{name: a, uses: echo}}, {{name: faulty, uses: {FAULTY}}}]"
    ));
    flow.expect("panicked").expect("request failed");
    let mut command = flow_command();
    command.args(["trace", &flow.url(), "--on", "/panic", "--text", "a"]);
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (drawn, said) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(1), "{drawn}{said}");
    assert!(drawn.contains("faulty (failed: "), "{drawn}");
    assert!(said.contains("flow: the request failed with "), "{said}");
}
