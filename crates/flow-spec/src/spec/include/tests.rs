//! Deployments as entries and as files, and gateways with a config of their own.

use serde_json::{Value, json};

use crate::diagnostics::Problems;
use crate::forms::INSTEAD;
use crate::{Checked, Flow, FlowSpec, Plan, Variables};

/// The files there are.
fn files(name: &str) -> Result<String, String> {
    let text = match name {
        "encoder.yml" => {
            "jtype: Deployment\nversion: '1'\nwith:\n  name: encoder\n  uses: my-encoder\n  replicas: 2\n"
        }
        "tag.yml" => "!Deployment\nwith: {uses: '${{ ENV.USES }}', name: tagged}\n",
        "wrong.yml" => {
            "jtype: Deployment\nwith:\n  uses: a\n  replicsa: 2\n  env: {A: '${{ ENV.NONE }}'}\n"
        }
        "flow.yml" => "jtype: Flow\n",
        "broken.yml" => "a: [",
        "gateway.yml" => "jtype: GRPCGateway\nwith: {port: 5, prefetch: 7}\n",
        "python.yml" => "jtype: MyGateway\npy_modules: [gateway.py]\n",
        _ => return Err("no such file".to_owned()),
    };
    Ok(text.to_owned())
}

fn check(text: &str) -> Result<Checked, Problems> {
    let mut variables = Variables::default();
    variables
        .env
        .insert("USES".to_owned(), "from-env".to_owned());
    Flow::check(FlowSpec::parse_with(text, &variables, &files).unwrap())
}

fn plan(text: &str) -> Plan {
    let checked = check(text).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(checked.warnings.is_empty(), "{}", checked.warnings);
    Plan::from(checked.flow)
}

fn node(plan: &Plan, name: &str) -> Value {
    serde_json::to_value(plan.node(plan.find(name).unwrap())).unwrap()
}

#[track_caller]
fn check_problems(text: &str, expected: &[&str]) {
    let problems = check(text).unwrap_err().to_string();
    let tidy = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = problems.lines().map(tidy).collect();
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn an_inline_deployment_is_an_entry() {
    let plan = plan(
        "jtype: Flow\nexecutors:\n\
         - {name: a, uses: echo}\n\
         - jtype: Deployment\n  with: {name: b, uses: echo, shards: 2}\n\
         - !Deployment {with: {name: c, uses: echo, needs: [a, b]}}\n\
         - {jtype: Deployment, name: d, needs: c, with: {uses: echo, name: ignored, workers: 2}}\n",
    );
    assert_eq!(node(&plan, "b")["run"]["local"]["shards"], 2);
    assert_eq!(
        node(&plan, "c")["parents"],
        json!([{"node": 0}, {"node": 1}])
    );
    assert_eq!(
        node(&plan, "d")["run"]["local"]["workers"],
        json!({"number": 2})
    );
}

#[test]
fn a_deployment_in_a_file_is_an_entry() {
    let plan = plan("jtype: Flow\nwith: {replicas: 3}\nexecutors: [encoder.yml, tag.yml]");
    let run = |name| node(&plan, name)["run"]["local"].clone();
    assert_eq!(run("encoder")["replicas"], 2);
    assert_eq!(run("encoder")["uses"], json!({"named": "my-encoder"}));
    assert_eq!(run("tagged")["replicas"], 3);
    assert_eq!(run("tagged")["uses"], json!({"named": "from-env"}));
}

#[test]
fn problems_of_a_file_say_which_file() {
    check_problems(
        "jtype: Flow\nexecutors: [wrong.yml, {uses: echo, replicas: 0}]",
        &[
            "2:47 executors[1].replicas must be at least 1, is 0",
            "wrong.yml:4:3 with.replicsa `replicsa` is not an option of an executor; did you mean `replicas`?",
            "wrong.yml:5:12 with.env.A `${{ ENV.NONE }}` cannot be replaced: environment variable `NONE` is not set",
        ],
    );
}

#[test]
fn an_invalid_entry_is_reported_with_the_reason() {
    let check = |entry: &str, expected: &str| {
        check_problems(&format!("jtype: Flow\nexecutors: [{entry}]"), &[expected]);
    };
    check(
        "nothing.yml",
        "2:13 executors[0] cannot read `nothing.yml`: no such file",
    );
    check(
        "broken.yml",
        "2:13 executors[0] `broken.yml` is not valid YAML: line 2, column 1: while parsing a node, \
         did not find expected node content",
    );
    check(
        "flow.yml",
        "flow.yml:1:1 an entry of `executors` in a file of its own must be a Deployment; \
         write `jtype: Deployment` at its top",
    );
    check(
        "{jtype: Deploymnt, with: {uses: a}}",
        "2:21 executors[0].jtype must be `Deployment`, is the text `Deploymnt`; did you mean `Deployment`?",
    );
    check(
        "{jtype: Deployment, wiht: {uses: a}, with: {uses: b}}",
        "2:33 executors[0].wiht `wiht` is not a key of a Deployment; did you mean `with`?",
    );
    check(
        "{jtype: Deployment, with: {uses: a, prefetch: 5}}",
        "2:49 executors[0].with.prefetch `prefetch` is not an option of an executor; it belongs in `gateway`",
    );
}

#[test]
fn a_deployment_alone_is_a_flow_of_one_executor() {
    let plan = plan(
        "jtype: Deployment\nwith: {name: encoder, uses: echo, port: 54321, host: 127.0.0.1, \
         protocol: grpc, prefetch: 9, replicas: 2, env: {A: 1}}",
    );
    assert_eq!(
        (plan.gateway.port, plan.gateway.prefetch.get()),
        (Some(54321), 9)
    );
    assert_eq!(plan.gateway.host.as_deref(), Some("127.0.0.1"));
    let run = node(&plan, "encoder")["run"]["local"].clone();
    assert_eq!(
        (&run["replicas"], &run["ports"], &run["host"]),
        (&json!(2), &json!([]), &json!(null))
    );
    assert_eq!(run["env"], json!({"A": "1"}));
    assert!(check("!Deployment\nwith: {uses: echo}").is_ok());
}

#[test]
fn problems_of_a_lone_deployment_are_reported_once() {
    check_problems(
        "jtype: Deployment\nwith:\n  uses: echo\n  prot: 5\n  replicas: 0\n  port: x\nneds: a",
        &[
            "4:3 with.prot `prot` is not an option of a Deployment; did you mean `port`?",
            "5:13 with.replicas must be at least 1, is 0",
            "6:9 with.port must be a port from 1 to 65535, or 0 for any free one, is the text `x`",
            "7:1 neds `neds` is not a key of a Deployment; did you mean `needs`?",
        ],
    );
    check_problems(
        "jtype: Deployment\nwith: 5",
        &[
            "2:7 with must be a mapping, is something else, which is not shown because it may be a secret",
        ],
    );
}

#[test]
fn a_gateway_may_have_a_config() {
    let gateway = |options: &str| {
        let text = format!("jtype: Flow\ngateway: {{{options}}}\nexecutors: [{{uses: echo}}]");
        let gateway = plan(&text).gateway;
        (gateway.port, gateway.prefetch.get())
    };
    assert_eq!(gateway("uses: gateway.yml"), (Some(5), 7));
    assert_eq!(gateway("uses: gateway.yml, port: 6"), (Some(6), 7));
    assert_eq!(gateway("uses: GRPCGateway"), (None, 1000));
}

#[test]
fn other_gateways_are_refused_with_a_reason() {
    let check = |uses: &str, expected: &str| {
        let text = format!("jtype: Flow\ngateway: {{uses: {uses}}}\nexecutors: [{{uses: echo}}]");
        check_problems(&text, &[expected]);
    };
    check("docker://x", &own_gateway("2:17 gateway.uses `docker://x`"));
    check(
        "my.MyGateway",
        &own_gateway("2:17 gateway.uses `my.MyGateway`"),
    );
    check(
        "GRPCGatway",
        "2:17 gateway.uses `GRPCGatway` is not a gateway of flow, and gateways of your own do not run; \
         did you mean `GRPCGateway`?",
    );
    check(
        "none.yml",
        "2:17 gateway.uses cannot read `none.yml`: no such file",
    );
    check_problems(
        "jtype: Flow\ngateway: {uses: python.yml}",
        &[
            &own_gateway("python.yml:1:8 jtype `MyGateway`"),
            "python.yml:2:1 py_modules `py_modules` is not supported: it is for a gateway of your own, and flow runs \
             its own gateway; `expose_endpoints` gives endpoints of executors routes",
        ],
    );
}

/// What is said of a gateway that is not flow's.
fn own_gateway(at: &str) -> String {
    format!("{at} is not a gateway of flow, and gateways of your own do not run; {INSTEAD}")
}

#[test]
fn what_a_gateway_of_ones_own_is_replaced_with_is_a_valid_flow_file() {
    let yaml = INSTEAD.split('`').nth(1).unwrap();
    let text = format!("jtype: Flow\ngateway: {{{yaml}}}\nexecutors: [{{uses: echo}}]");
    let exposed = plan(&text).gateway.http.exposed;
    assert_eq!(exposed["/search"].path, "/find");
}

#[test]
fn tags_have_a_meaning_in_two_places_only() {
    let text =
        "jtype: Flow\nexecutors: [!Executor {uses: echo}, {uses: echo, uses_with: !A {b: 1}}]";
    let warnings = check(text).unwrap().warnings;
    let warnings: Vec<String> = warnings
        .iter()
        .map(|it| format!("{} {it}", it.span.path))
        .collect();
    assert_eq!(
        warnings,
        [
            "executors[0] tag `!Executor` has no effect here; leave it out",
            "executors[1].uses_with tag `!A` has no effect here; leave it out",
        ]
    );
}
