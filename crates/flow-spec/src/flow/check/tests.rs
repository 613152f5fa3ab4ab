//! Names, the graph, inheritance, addresses and ports: what a flow means, and when it has no effect.

use serde_json::{Value, json};

use crate::diagnostics::Problems;
use crate::{Checked, DocumentSource, Flow, FlowSpec, Plan, Run, Variables};

fn load(text: &str) -> Result<Checked, Problems> {
    Flow::check(FlowSpec::parse(text, &Variables::default()).unwrap())
}

/// A flow with these entries of `executors`, one a line, written without their braces.
fn executors(entries: &str) -> Result<Checked, Problems> {
    flow("", entries)
}

/// Entries that run `echo` unless they say otherwise.
fn flow(with: &str, entries: &str) -> Result<Checked, Problems> {
    let mut text = format!("jtype: Flow\nwith: {{{with}}}\nexecutors:\n");
    for entry in entries
        .lines()
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
    {
        let runs = entry.contains("uses") || entry.contains("external: true");
        let uses = if runs { "" } else { ", uses: echo" };
        text += &format!("- {{{entry}{uses}}}\n");
    }
    load(&text)
}

fn plan(checked: Result<Checked, Problems>) -> Plan {
    Plan::from(checked.unwrap_or_else(|problems| panic!("{problems}")).flow)
}

/// A plan in one line: `a(gateway) b~(a) → b`. `~` floats, `?` is not waited for though it does not float.
fn drawn(plan: &Plan) -> String {
    let name = |source: &DocumentSource| match source {
        DocumentSource::Gateway => "gateway",
        DocumentSource::Node(at) => plan.node(*at).name.as_str(),
    };
    let mut drawn = String::new();
    for (_, node) in plan.nodes() {
        let parents: Vec<_> = node.parents.iter().map(name).collect();
        let mark = match (node.floating, node.awaited) {
            (true, _) => "~",
            (false, true) => "",
            (false, false) => "?",
        };
        drawn += &format!("{}{mark}({}) ", node.name, parents.join(", "));
    }
    let exit: Vec<_> = plan.exit.iter().map(name).collect();
    drawn + "→ " + &exit.join(", ")
}

#[track_caller]
fn check(entries: &str, expected: &str) {
    assert_eq!(drawn(&plan(executors(entries))), expected, "{entries}");
}

#[track_caller]
fn check_problems(entries: &str, expected: &str) {
    assert_problems(&executors(entries).unwrap_err(), expected);
}

#[track_caller]
fn check_warnings(entries: &str, expected: &str) {
    assert_problems(&executors(entries).unwrap().warnings, expected);
}

/// As they are shown, with blanks of any number taken as one.
#[track_caller]
fn assert_problems(problems: &Problems, expected: &str) {
    let tidy = |text: &str| -> Vec<String> {
        text.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .filter(|line| !line.is_empty())
            .collect()
    };
    assert_eq!(tidy(&problems.to_string()), tidy(expected));
}

/// What the only executor, `a`, becomes.
fn node(with: &str, options: &str) -> Value {
    let plan = plan(flow(
        with,
        format!("name: a, {options}").trim_end_matches(", "),
    ));
    serde_json::to_value(&plan.nodes[0]).unwrap()
}

#[track_caller]
fn check_addresses(options: &str, expected: &[&str]) {
    let node = node("", &format!("external: true, {options}"));
    let addresses: Vec<crate::Address> =
        serde_json::from_value(node["run"]["external"]["addresses"].clone()).unwrap();
    let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
    assert_eq!(addresses, expected, "{options}");
}

#[track_caller]
fn check_host_problem(host: &str, expected: &str) {
    let entries = format!("name: a, external: true, port: 1, host: '{host}'");
    let problems = executors(&entries).unwrap_err();
    assert_eq!(problems[0].to_string(), expected, "{host}");
}

#[test]
fn an_entry_follows_the_one_before_it() {
    check("name: a", "a(gateway) → a");
    check("name: a\nname: b\nname: c", "a(gateway) b(a) c(b) → c");
}

#[test]
fn a_flow_without_executors_gives_requests_back() {
    assert_eq!(drawn(&plan(load("jtype: Flow"))), "→ gateway");
    let warnings = load("jtype: Flow").unwrap().warnings;
    assert_problems(
        &warnings,
        "1:1 there are no executors, so every reply is its request",
    );
}

#[test]
fn needs_is_one_name_or_several() {
    check(
        "name: a\nname: b, needs: gateway\nname: c, needs: [a, b]",
        "a(gateway) b(gateway) c(a, b) → c",
    );
    check("name: a\nname: b, needs: a", "a(gateway) b(a) → b");
    check(
        "name: a\nname: b, needs: [gateway, a]",
        "a(gateway) b(gateway, a) → b",
    );
    check("name: a\nname: b, needs: []", "a(gateway) b(a) → b");
    check("name: a\nname: b, needs: ~", "a(gateway) b(a) → b");
}

#[test]
fn branches_join_in_the_order_written() {
    check(
        "name: a\nname: b, needs: gateway\nname: c, needs: [b, a]",
        "a(gateway) b(gateway) c(b, a) → c",
    );
}

#[test]
fn a_need_may_be_written_further_down() {
    check(
        "name: c, needs: b\nname: b, needs: gateway\nname: d, needs: c",
        "b(gateway) c(b) d(c) → d",
    );
}

#[test]
fn an_entry_does_not_need_a_floating_one_by_default() {
    check(
        "name: a\nname: f, floating: true\nname: b",
        "a(gateway) f~(a) b(a) → b",
    );
    check(
        "name: f, floating: true\nname: a",
        "f~(gateway) a(gateway) → a",
    );
    check("name: f, floating: true", "f~(gateway) → gateway");
    check(
        "name: a\nname: f, floating: true\nname: g, floating: true, needs: f",
        "a(gateway) f~(a) g~(f) → a",
    );
}

#[test]
fn the_reply_waits_only_for_the_last_entry_that_is_not_floating() {
    let entries = "name: a\nname: b, needs: a\nname: c, needs: a";
    check(entries, "a(gateway) b?(a) c(a) → c");
    check_warnings(
        entries,
        "5:3 executors.b no node needs `b`: it runs, and its result is dropped; \
         let a later executor need it, or say `floating: true`",
    );
}

#[test]
fn needs_all_joins_the_nodes_that_no_other_node_needs() {
    check(
        "name: a\nname: b, needs: gateway\nname: c, needs: b\nname: f, floating: true\nname: j, method: needs_all",
        "a(gateway) b(gateway) c(b) f~(c) j(a, c) → j",
    );
    check("name: j, method: needs_all", "j(gateway) → j");
    check_problems(
        "name: a\nname: j, method: needs_all, needs: a",
        "5:39 executors.j.needs `method: needs_all` finds by itself what it needs; leave one out",
    );
}

#[test]
fn joins_need_no_program() {
    check("name: a\nname: j, method: needs_all", "a(gateway) j(a) → j");
    let checked = load("jtype: Flow\nexecutors: [{name: j, method: needs_all}]").unwrap();
    assert!(checked.warnings.is_empty());
    let checked = load("jtype: Flow\nexecutors: [{name: a}]").unwrap();
    assert_problems(
        &checked.warnings,
        "2:13 executors.a there is no `uses`, so documents pass unchanged",
    );
}

#[test]
fn unknown_needs_are_problems_with_a_guess() {
    check_problems(
        "name: encoder\nname: ranker, needs: [gateway, encodr]\nname: x, needs: nobody\nname: y, needs: gatewya",
        "5:35 executors.ranker.needs[1] no executor is named `encodr`; did you mean `encoder`?
         6:20 executors.x.needs no executor is named `nobody`
         7:20 executors.y.needs no executor is named `gatewya`; did you mean `gateway`?",
    );
}

#[test]
fn gateway_is_the_name_of_the_gateway() {
    check_problems(
        "name: a\nname: gateway",
        "5:10 executors.gateway.name `gateway` is the name of the gateway; an executor needs another",
    );
}

#[test]
fn a_repeated_name_gets_the_number_of_executors_before_it() {
    let checked = flow("", "name: a\nname: a2\nname: a\nname: a, needs: a").unwrap();
    let warnings: Vec<String> = checked
        .warnings
        .iter()
        .map(ToString::to_string)
        .filter(|warning| warning.contains("is the name"))
        .collect();
    assert_eq!(
        warnings,
        [
            "`a` is the name of the executor at line 4 too, so this one is called `a3`; give it another name",
            "`a` is the name of the executor at line 4 too, so this one is called `a4`; give it another name",
        ]
    );
    let plan = Plan::from(checked.flow);
    let names: Vec<&str> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "a2", "a3", "a4"]);
    // The name itself is still that of the first one.
    let first = DocumentSource::Node(plan.find("a").unwrap());
    assert_eq!(plan.node(plan.find("a4").unwrap()).parents, [first]);
}

#[test]
fn entries_without_a_name_are_numbered() {
    check(
        "uses: echo\nname: b\nuses: echo",
        "executor0(gateway) b(executor0) executor2(b) → executor2",
    );
    check(
        "uses: echo\nname: executor0",
        "executor1(gateway) executor0(executor1) → executor0",
    );
}

#[test]
fn a_cycle_is_named_from_its_first_executor() {
    check_problems(
        "name: a, needs: c\nname: b, needs: a\nname: c, needs: b",
        "4:20 executors.a.needs executors need each other in a cycle: `a` → `b` → `c` → `a`",
    );
    check_problems(
        "name: a, needs: [gateway, b]\nname: b\nname: c, needs: d\nname: d, needs: c",
        "4:20 executors.a.needs executors need each other in a cycle: `a` → `b` → `a`
         6:20 executors.c.needs executors need each other in a cycle: `c` → `d` → `c`",
    );
    check_problems(
        "name: a, needs: a",
        "4:20 executors.a.needs an executor cannot need itself",
    );
}

#[test]
fn a_repeated_need_is_a_warning() {
    check("name: a\nname: b, needs: [a, a]", "a(gateway) b(a) → b");
    check_warnings(
        "name: a\nname: b, needs: [a, a]",
        "5:24 executors.b.needs[1] `a` is needed already; once is enough",
    );
}

#[test]
fn a_floating_executor_cannot_be_needed() {
    check_problems(
        "name: f, floating: true\nname: a, needs: f",
        "5:20 executors.a.needs `f` is floating, so its result is dropped; do not need it, or take `floating` away",
    );
}

#[test]
fn there_is_a_limit_of_executors() {
    let entries = |len| "- {uses: echo}\n".repeat(len);
    assert!(load(&format!("jtype: Flow\nexecutors:\n{}", entries(1024))).is_ok());
    let problems = load(&format!("jtype: Flow\nexecutors:\n{}", entries(1025))).unwrap_err();
    assert_problems(
        &problems,
        "1:1 at most 1024 executors are possible, there are 1025",
    );
}

#[test]
fn a_value_of_the_entry_overrides_the_inherited_one() {
    assert_eq!(
        node("replicas: 2", "replicas: 3")["run"]["local"]["replicas"],
        3
    );
    assert_eq!(node("replicas: 2", "")["run"]["local"]["replicas"], 2);
    assert_eq!(node("floating: true", "floating: false")["floating"], false);
    assert_eq!(node("workspace: w", "")["run"]["local"]["workspace"], "w");
    assert_eq!(
        node("quiet: true", "quiet: false")["run"]["local"]["log"],
        json!(null)
    );
    assert_eq!(
        node("grpc_metadata: {a: b}", "")["calls"]["metadata"],
        json!([["a", "b"]])
    );
}

#[test]
fn ports_of_the_gateway_are_not_inherited() {
    assert_eq!(node("port: 5", "")["run"]["local"]["ports"], json!([]));
}

#[test]
fn environments_are_merged_variable_by_variable() {
    let env = node("env: {A: 1, B: 1}", "env: {B: 2, C: 2}")["run"]["local"]["env"].clone();
    assert_eq!(env, json!({"A": "1", "B": "2", "C": "2"}));
}

#[test]
fn gateway_call_options_override_flow_options() {
    let timeout = |options: &str| {
        let text = format!(
            "jtype: Flow\nwith: {{timeout_send: 1s, retries: 1}}\n\
             gateway: {{timeout_send: 2s, retries: 2}}\nexecutors: [{{uses: echo, {options}}}]"
        );
        let calls = plan(load(&text)).nodes[0].calls.clone();
        (calls.timeout.map(|it| it.as_secs()), calls.retries)
    };
    assert_eq!(timeout(""), (Some(2), crate::Retries::Times(2)));
    assert_eq!(
        timeout("timeout_send: 3s, retries: -1"),
        (Some(3), crate::Retries::Default)
    );
    assert_eq!(
        timeout("timeout_send: -1"),
        (None, crate::Retries::Times(2))
    );
}

#[test]
fn requests_are_compressed_as_the_executor_the_gateway_or_the_flow_says() {
    let compression = |gateway: &str, options: &str| {
        let text = format!(
            "jtype: Flow\nwith: {{compression: deflate}}\ngateway: {{{gateway}}}\n\
             executors: [{{uses: echo, {options}}}]"
        );
        plan(load(&text)).nodes[0].calls.compression
    };
    use crate::Compression::{Deflate, Gzip};
    assert_eq!(compression("", ""), Some(Deflate));
    assert_eq!(compression("compression: Gzip", ""), Some(Gzip));
    assert_eq!(
        compression("compression: Gzip", "compression: DEFLATE"),
        Some(Deflate)
    );
    assert_eq!(
        compression("compression: Gzip", "compression: NoCompression"),
        None
    );
    assert_eq!(compression("compression: Gzip", "compression: None"), None);
}

#[test]
fn a_model_may_have_further_names_for_an_executor_of_the_flow() {
    let models = plan(flow("models: {small: enc}", "name: enc"))
        .gateway
        .models;
    let node: flow_core::NodeName = "enc".parse().unwrap();
    assert_eq!(models["small"], node.into());
    let models = plan(flow("models: {small: enc/text/embed}", "name: enc"))
        .gateway
        .models;
    let target = &models["small"];
    assert_eq!(target.node.as_str(), "enc");
    assert_eq!(target.endpoint.as_deref(), Some("/text/embed"));
    let unknown = flow("models: {small: encc}", "name: enc");
    let problem = unknown.unwrap_err()[0].to_string();
    assert!(
        problem.contains("which is not an executor of this flow"),
        "{problem}"
    );
    assert!(problem.contains("did you mean `enc`?"), "{problem}");
}

#[test]
fn an_external_executor_has_an_address() {
    check_addresses("port: 5", &["http://127.0.0.1:5"]);
    check_addresses("host: h, port: 5", &["http://h:5"]);
    check_addresses("host: [], port: 5", &["http://127.0.0.1:5"]);
    check_addresses("host: h:5", &["http://h:5"]);
    check_addresses("host: 'h:5', port: 6", &["http://h:5"]);
    check_addresses("host: 'grpc://h:5'", &["http://h:5"]);
    check_addresses("host: 'grpc://h:5/'", &["http://h:5"]);
    check_addresses("host: '[::1]:5'", &["http://[::1]:5"]);
    check_addresses("host: '::1', port: 5", &["http://[::1]:5"]);
    check_addresses("host: 'h:5, k:6'", &["http://h:5", "http://k:6"]);
    check_addresses(
        "host: ['grpc://h:5', k], port: 6",
        &["http://h:5", "http://k:6"],
    );
}

#[test]
fn hosts_and_ports_are_paired() {
    check_addresses("host: [h, k], port: [1, 2]", &["http://h:1", "http://k:2"]);
    check_addresses("host: h, port: [1, 2]", &["http://h:1", "http://h:2"]);
    check_addresses("host: [h, k], port: 1", &["http://h:1", "http://k:1"]);
    check_problems(
        "name: a, external: true, host: [h, k], port: [1, 2, 3]",
        "4:3 executors.a has 2 hosts and 3 ports; write as many ports as hosts, or one",
    );
}

#[test]
fn an_external_executor_without_an_address_is_a_problem() {
    let expected = "4:3 executors.a an external executor needs an address; \
                    write `host: name:port`, `host` and `port`, or `host: srv://service`";
    check_problems("name: a, external: true", expected);
    check_problems("name: a, external: true, host: h", expected);
    check_problems("name: a, external: true, host: [], port: []", expected);
}

#[test]
fn invalid_hosts_are_refused_with_a_reason() {
    check_host_problem(
        "http://h:1",
        "`http://h:1` is not a gRPC address, and flow calls executors only over gRPC",
    );
    check_host_problem(
        "ftp://h:1",
        "`ftp://h:1` has an unknown scheme; `grpc://host:port` or `srv://service` is expected",
    );
    check_host_problem("h:0", "`h:0` has a port that is not from 1 to 65535");
    check_host_problem(
        "h:65536",
        "`h:65536` has a port that is not from 1 to 65535",
    );
    check_host_problem("h:+1", "`h:+1` has a port that is not from 1 to 65535");
    check_host_problem(
        "a b",
        "`a b` is not a host; `host`, `host:port` or `grpc://host:port` is expected",
    );
    check_host_problem(
        ":5",
        "`:5` is not a host; `host`, `host:port` or `grpc://host:port` is expected",
    );
    check_host_problem("[::1", "`[::1` lacks the `]` after its address");
    check_host_problem("[::1]x", "`[::1]x` has more after `]` than a port");
}

#[test]
fn the_records_of_a_service_say_where_its_replicas_are() {
    let service = "srv://_grpc._tcp.encoder.example";
    check_addresses(&format!("host: '{service}'"), &[service]);
    check_addresses(
        "host: ['srv://127.0.0.1:8600/a.consul', 'h, srv:///b'], port: 5",
        &["srv://127.0.0.1:8600/a.consul", "http://h:5", "srv://b"],
    );
    let encrypted = node("", "external: true, tls: true, host: 'srv://a'");
    let addresses = &encrypted["run"]["external"]["addresses"];
    assert_eq!(*addresses, json!([{ "tls": true, "service": "a" }]));
}

#[test]
fn a_service_has_no_port_in_the_flow_file() {
    check_problems(
        "name: a, external: true, host: 'srv://a.example:5'",
        "4:35 executors.a.host `srv://a.example:5` has a port, but the records of a service contain the ports; leave it out",
    );
    check_problems(
        "name: a, external: true, host: 'srv://a', port: 5",
        "4:52 executors.a.port `port` has no effect: the records of a service contain the ports; leave it out",
    );
    check_host_problem(
        "srv://dns.example/a",
        "`srv://dns.example/a` names no name server before its `/`; `srv://10.0.0.1:53/service` is expected",
    );
    let problems = executors("name: a, host: 'srv://a'").unwrap_err();
    assert!(problems[0].to_string().contains("listens at one host"));
}

#[test]
fn process_options_of_an_external_executor_are_a_warning() {
    check_warnings(
        "name: a, external: true, port: 1, uses: echo, env: {A: 1}, replicas: 2",
        "4:44 executors.a.uses `uses` has no effect: it is set where the external executor is started
         4:55 executors.a.env `env` has no effect: it is set where the external executor is started
         4:73 executors.a.replicas `replicas` has no effect: an external executor has one for each address",
    );
}

#[test]
fn a_local_executor_listens_at_one_host() {
    assert_eq!(
        node("", "host: 127.0.0.1")["run"]["local"]["host"],
        "127.0.0.1"
    );
    for host in ["h:5", "'grpc://h'", "[h, k]"] {
        let problems = executors(&format!("name: a, host: {host}")).unwrap_err();
        assert_eq!(
            problems[0].to_string(),
            "an executor that the flow starts listens at one host, without scheme and port; \
             write `external: true` if the flow does not start it",
        );
    }
}

#[test]
fn replicas_may_have_fixed_ports() {
    assert_eq!(
        node("", "port: 5, replicas: 3")["run"]["local"]["ports"],
        json!([5])
    );
    assert_eq!(
        node("", "port: [5, 6], replicas: 2")["run"]["local"]["ports"],
        json!([5, 6])
    );
    check_problems(
        "name: a, port: [5, 6, 7], replicas: 2",
        "4:19 executors.a.port has 3 ports for 2 replicas; one each is enough",
    );
}

#[test]
fn a_port_is_taken_once() {
    let problems = flow(
        "port: 5",
        "name: a, port: 5\nname: b, port: 6\nname: c, port: 6",
    )
    .unwrap_err();
    assert_problems(
        &problems,
        "4:19 executors.a.port port 5 is taken already, at line 2
         6:19 executors.c.port port 6 is taken already, at line 5",
    );
    assert!(flow("port: 5", "name: a, external: true, port: 5").is_ok());
}

#[test]
fn repeated_keys_are_problems_and_the_first_one_counts() {
    check_problems(
        "name: a, uses: x, uses: y",
        "4:22 executors.a.uses `uses` is given twice; the first is at line 4",
    );
}

#[test]
fn a_workspace_in_metas_is_used_unless_another_one_is_written() {
    let check = |with: &str, entry: &str, expected: &str| {
        let plan = plan(flow(with, &format!("name: a, {entry}")));
        let Run::Local(run) = &plan.nodes[0].run else {
            panic!("{plan:?}")
        };
        assert_eq!(run.workspace.as_deref(), Some(expected.as_ref()), "{entry}");
    };
    check("", "uses: echo, uses_metas: {workspace: m}", "m");
    check("", "uses: {jtype: Echo, metas: {workspace: m}}", "m");
    check(
        "",
        "uses: {jtype: Echo, metas: {workspace: m}, workspace: c}",
        "c",
    );
    check(
        "workspace: f",
        "uses: {jtype: Echo, metas: {workspace: m}}",
        "f",
    );
    check(
        "",
        "uses: echo, uses_metas: {workspace: m}, workspace: e",
        "e",
    );
}
