use crate::{Address, Calls, Flow, FlowSpec, Plan, Run, Variables};

fn load(with: &str, executor: &str) -> Result<Plan, String> {
    let text = format!("jtype: Flow\nwith: {{{with}}}\nexecutors: [{{name: a, {executor}}}]");
    let spec = FlowSpec::parse(&text, &Variables::default()).unwrap();
    let checked = Flow::check(spec).map_err(|problems| problems.to_string())?;
    Ok(Plan::from(checked.flow))
}

#[track_caller]
fn check_problem(with: &str, executor: &str, expected: &str) {
    let problems = load(with, executor).unwrap_err();
    assert!(problems.contains(expected), "{problems}");
}

/// The gateway's TLS as JSON.
#[track_caller]
fn check_gateway(with: &str, expected: &str) {
    let plan = load(with, "uses: echo").unwrap();
    let found = serde_json::to_string(&plan.gateway.tls).unwrap();
    assert_eq!(found, expected, "{with}");
}

const PAIR: &str = "ssl_certfile: c.pem, ssl_keyfile: k.pem";

#[test]
fn the_gateway_has_a_certificate_and_may_ask_for_those_of_clients() {
    let own = r#""own":{"certificate":"c.pem","key":"k.pem"}"#;
    check_gateway("", "null");
    check_gateway(PAIR, &format!("{{{own},\"clients\":null}}"));
    let clients =
        |wanted: &str| format!(r#"{{{own},"clients":{{"roots":"r.pem","wanted":"{wanted}"}}}}"#);
    let roots = format!("{PAIR}, ssl_ca_certs: r.pem");
    check_gateway(&roots, &clients("required"));
    let optional = format!("{roots}, ssl_client_certs: optional");
    check_gateway(&optional, &clients("optional"));
}

#[test]
fn an_incomplete_set_of_the_gateways_certificate_files_is_a_problem() {
    let echo = "uses: echo";
    check_problem(
        "ssl_certfile: c",
        echo,
        "belong together; add `ssl_keyfile`",
    );
    check_problem(
        "ssl_keyfile: k",
        echo,
        "belong together; add `ssl_certfile`",
    );
    check_problem("ssl_ca_certs: r", echo, "need a gateway with TLS");
    let without = format!("{PAIR}, ssl_client_certs: required");
    check_problem(&without, echo, "in `ssl_ca_certs`");
    let other = format!("{PAIR}, ssl_ca_certs: r, ssl_client_certs: all");
    check_problem(&other, echo, "must be `required` or `optional`, is `all`");
}

fn external(options: &str) -> (Vec<Address>, Calls) {
    let plan = load("", &format!("external: true, {options}")).unwrap();
    let node = plan.nodes[0].clone();
    match node.run {
        Run::External { addresses } => (addresses, node.calls),
        Run::Local(_) => panic!("it is external"),
    }
}

#[test]
fn an_external_executor_has_tls_by_its_scheme_or_by_a_key() {
    let tls = |options: &str| {
        let (addresses, calls) = external(options);
        (addresses[0].is_encrypted(), calls.tls.is_some())
    };
    assert_eq!(tls("host: 'grpc://h:1'"), (false, false));
    assert_eq!(tls("host: 'grpcs://h:1'"), (true, true));
    assert_eq!(tls("host: h, port: 1, tls: true"), (true, true));
    assert_eq!(tls("host: h, port: 1, tls: false"), (false, false));
}

#[test]
fn calls_with_tls_have_roots_a_certificate_and_a_name() {
    let options = "host: 'grpcs://h:1', tls_ca_certs: r.pem, tls_certfile: c.pem, \
        tls_keyfile: k.pem, tls_server_name: other";
    let (_, calls) = external(options);
    let mut tls = calls.tls.unwrap();
    let paths: Vec<_> = tls
        .paths_mut()
        .map(|path| path.display().to_string())
        .collect();
    assert_eq!(paths, ["c.pem", "k.pem", "r.pem"]);
    assert_eq!(tls.server_name.as_deref(), Some("other"));
}

#[test]
fn tls_options_without_effect_are_problems() {
    let without = "external: true, host: 'h:1', tls_server_name: n";
    check_problem("", without, "have no effect without TLS");
    check_problem("", "uses: echo, tls: true", "TLS is for external executors");
    check_problem(
        "",
        "uses: echo, tls_ca_certs: r",
        "TLS is for external executors",
    );
    let half = "external: true, host: 'grpcs://h:1', tls_keyfile: k";
    check_problem("", half, "add `tls_certfile`");
    assert!(load("tls: true", "uses: echo").is_ok(), "for others");
}
