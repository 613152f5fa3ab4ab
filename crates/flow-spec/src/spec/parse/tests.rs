//! What each value may be: the effect on the plan, or the text of the problem.

#![expect(
    clippy::needless_pass_by_value,
    reason = "`json!` reads best where it is made"
)]

use serde_json::{Value, json};

use crate::diagnostics::Problems;
use crate::{Checked, Flow, FlowSpec, Plan, Variables};

fn check(text: &str) -> Result<Checked, Problems> {
    Flow::check(FlowSpec::parse(text, &Variables::default()).unwrap())
}

/// A flow of one executor `a` with these options, which has a problem or none.
fn entry(options: &str) -> Result<Checked, Problems> {
    check(&format!(
        "jtype: Flow\nexecutors: [{{name: a, uses: echo, {options}}}]"
    ))
}

fn with(options: &str) -> Result<Checked, Problems> {
    check(&format!(
        "jtype: Flow\nwith: {{{options}}}\nexecutors: [{{name: a, uses: echo}}]"
    ))
}

fn gateway(options: &str) -> Result<Checked, Problems> {
    check(&format!(
        "jtype: Flow\ngateway: {{{options}}}\nexecutors: [{{name: a, uses: echo}}]"
    ))
}

/// The plan as JSON, at a JSON pointer.
#[track_caller]
fn at(checked: Result<Checked, Problems>, pointer: &str) -> Value {
    let checked = checked.unwrap_or_else(|problems| panic!("{problems}"));
    assert!(checked.warnings.is_empty(), "{}", checked.warnings);
    let plan = serde_json::to_value(Plan::from(checked.flow)).unwrap();
    plan.pointer(pointer)
        .unwrap_or_else(|| panic!("{pointer} in {plan:#}"))
        .clone()
}

/// Problems, or else warnings, without their places.
fn messages(checked: Result<Checked, Problems>) -> Vec<String> {
    let problems = checked.map_or_else(|problems| problems, |checked| checked.warnings);
    problems.iter().map(ToString::to_string).collect()
}

fn local(key: &str) -> String {
    format!("/nodes/0/run/local/{key}")
}

#[track_caller]
fn check_entry(options: &str, key: &str, expected: Value) {
    assert_eq!(at(entry(options), &local(key)), expected, "{options}");
}

#[track_caller]
fn check_entry_problem(options: &str, expected: &str) {
    assert!(entry(options).is_err(), "{options}");
    assert_eq!(messages(entry(options)), [expected], "{options}");
}

#[track_caller]
fn check_entry_warning(options: &str, expected: &str) {
    assert!(entry(options).is_ok(), "{options}");
    assert_eq!(messages(entry(options)), [expected], "{options}");
}

#[track_caller]
fn check_gateway(options: &str, key: &str, expected: Value) {
    let pointer = format!("/gateway/{key}");
    assert_eq!(
        at(gateway(options), &pointer),
        expected,
        "{options} as `gateway`"
    );
    assert_eq!(at(with(options), &pointer), expected, "{options} as `with`");
}

#[track_caller]
fn check_gateway_problem(options: &str, expected: &str) {
    assert!(gateway(options).is_err(), "{options}");
    assert_eq!(messages(gateway(options)), [expected], "{options}");
}

#[track_caller]
fn check_file(text: &str, expected: &[&str]) {
    assert!(check(text).is_err(), "{text}");
    assert_eq!(messages(check(text)), expected, "{text}");
}

fn millis(millis: u64) -> Value {
    serde_json::to_value(std::time::Duration::from_millis(millis)).unwrap()
}

#[test]
fn a_flow_says_that_it_is_one() {
    assert!(check("jtype: Flow").is_ok());
    assert!(check("!Flow\nwith: {}").is_ok());
    assert!(check("!Flow\njtype: Flow").is_ok());
    let say_so = "write `jtype: Flow` at its top";
    check_file("", &[&format!("the file is empty; {say_so}")]);
    check_file(
        "with: {}",
        &[&format!(
            "the file does not say that it is a flow; {say_so}"
        )],
    );
    check_file(
        "[a]",
        &[
            "must be a mapping, is a list",
            &format!("the file does not say that it is a flow; {say_so}"),
        ],
    );
    check_file(
        "jtype: flow",
        &["must be a `Flow` or a `Deployment`, is `flow`; did you mean `Flow`?"],
    );
    check_file(
        "!Encoder\nwith: {}",
        &["must be a `Flow` or a `Deployment`, is `Encoder`"],
    );
    check_file("jtype: [Flow]", &["must be a text, is a list"]);
}

#[test]
fn a_nested_tag_has_no_meaning() {
    let checked = check("jtype: Flow\nwith: !Options {}\nexecutors: [{uses: echo}]");
    assert!(checked.is_ok(), "{checked:?}");
    assert_eq!(
        messages(checked),
        ["tag `!Options` has no effect here; leave it out"]
    );
}

#[test]
fn numbers_and_truth_values_may_be_texts() {
    check_entry("replicas: '2'", "replicas", json!(2));
    check_entry("replicas: ' 2 '", "replicas", json!(2));
    check_entry("port: '12345'", "ports", json!([12345]));
    check_entry("timeout_ready: '-1'", "timeout_ready", json!(null));
    check_entry("timeout_ready: '1500'", "timeout_ready", millis(1500));
    check_entry("workers: '3'", "workers", json!({"number": 3}));
    for yes in ["'true'", "\"True\"", "'TRUE'"] {
        let floating = at(entry(&format!("floating: {yes}")), "/nodes/0/floating");
        assert_eq!(floating, json!(true), "{yes}");
    }
    let external = at(entry("floating: 'false'"), "/nodes/0/floating");
    assert_eq!(external, json!(false));
    check_gateway("port: '5'", "port", json!(5));
    check_gateway("prefetch: '7'", "prefetch", json!(7));
}

#[test]
fn names_of_jina_2_are_understood_with_a_warning() {
    check_entry_warning(
        "parallel: 2",
        "`parallel` is what Jina 2 called `shards`; write `shards`",
    );
    let pods = check("jtype: Flow\npods: [{uses: echo}]");
    assert!(pods.is_ok(), "{pods:?}");
    assert_eq!(
        messages(pods),
        ["`pods` is what Jina 2 called `executors`; write `executors`"]
    );
    for checked in [with("port_expose: 2"), gateway("port_expose: 2")] {
        assert_eq!(
            messages(checked),
            ["`port_expose` is what Jina 2 called `port`; write `port`"]
        );
    }
    check_entry_warning(
        "on_error_strategy: SKIP_HANDLE",
        "`on_error_strategy` has no effect: it is an option of Jina 1 or 2 that Jina 3 no longer has",
    );
    check_entry_warning(
        "restful: true",
        "`restful` has no effect: every port of the gateway serves HTTP too; write `protocol: http` to say so",
    );
}

#[test]
fn keys_of_the_cloud_and_of_kubernetes_are_accepted_with_a_warning() {
    let check = |options: &str, expected: &str| check_entry_warning(options, expected);
    check(
        "jcloud: {resources: {cpu: 1}}",
        "`jcloud` has no effect: it configures Jina's cloud; the flow runs here",
    );
    check(
        "env_from_secret: {A: {name: b, key: c}}",
        "`env_from_secret` has no effect: it names a Kubernetes secret; set the variable where `flow up` runs, \
         or in `env`",
    );
    check(
        "force_update: true",
        "`force_update` has no effect: `uses` names no image (`docker://…`)",
    );
}

#[test]
fn a_lenient_file_may_have_unknown_keys() {
    let text = "jtype: Flow\nwith: {lenient: true, prot: 5}\nexecutors: [{uses: echo, uess: x, needs: gateway}]";
    let checked = check(text);
    assert!(checked.is_ok(), "{checked:?}");
    assert_eq!(
        messages(checked),
        [
            "`prot` is not an option of a flow; did you mean `port`?",
            "`uess` is not an option of an executor; did you mean `uses`?",
        ]
    );
    let strict = check(&text.replace("lenient: true", "lenient: false"));
    assert_eq!(messages(strict).len(), 2);
}

#[test]
fn only_version_1_is_known() {
    for version in ["1", "'1'", "1.0", "'1.0'"] {
        assert!(
            check(&format!("jtype: Flow\nversion: {version}")).is_ok(),
            "{version}"
        );
    }
    check_file("jtype: Flow\nversion: 2", &["must be `1`, is `2`"]);
    check_file("jtype: Flow\nversion: [1]", &["must be `1`, is a list"]);
}

#[test]
fn executors_have_two_names_and_may_be_written_once() {
    for key in ["executors", "deployments"] {
        let checked = check(&format!("jtype: Flow\n{key}: [{{name: a, uses: echo}}]"));
        assert_eq!(at(checked, "/nodes/0/name"), json!("a"));
    }
    check_file(
        "jtype: Flow\nexecutors: []\npods: []",
        &["`pods` means `executors`, which is given here too; keep one of them"],
    );
    check_file(
        "jtype: Flow\nexecutors: {a: {}}",
        &["must be a list of executors, is a mapping"],
    );
    check_file(
        "jtype: Flow\nexecutors: [[a]]",
        &["must be an executor's options, or the path of a Deployment, is a list"],
    );
    check_file(
        "jtype: Flow\nexecutors: [~]",
        &["must be an executor's options, or the path of a Deployment, is empty"],
    );
}

#[test]
fn unknown_keys_are_problems_with_a_guess() {
    check_file(
        "jtype: Flow\nexecuters: []",
        &["`executers` is not a key of a flow file; did you mean `executors`?"],
    );
    check_file(
        "jtype: Flow\nport: 1",
        &["`port` is not a key of a flow file; it belongs in `gateway`"],
    );
    check_entry_problem(
        "uess: x",
        "`uess` is not an option of an executor; did you mean `uses`?",
    );
    check_entry_problem(
        "prefetch: 1",
        "`prefetch` is not an option of an executor; it belongs in `gateway`",
    );
    check_entry_problem("xyzzy: 1", "`xyzzy` is not an option of an executor");
    check_gateway_problem(
        "Port: 1",
        "`Port` is not an option of the gateway; did you mean `port`?",
    );
}

#[test]
fn keys_without_effect_are_taken_with_a_warning() {
    check_entry_warning(
        "timeout_ctrl: 60",
        "`timeout_ctrl` has no effect: flow sends no control requests",
    );
    check_entry_warning(
        "port_monitoring: 1",
        "`port_monitoring` has no effect without `monitoring`",
    );
    let checked = check("jtype: Flow\njcloud: {a: b}\nexecutors: [{uses: echo}]");
    assert_eq!(
        messages(checked),
        ["`jcloud` has no effect: it configures Jina's cloud; the flow runs here"]
    );
}

#[test]
fn dead_keys_of_executors_are_taken_with_what_happens_instead() {
    for (option, why) in [
        (
            "output_array_type: torch",
            "flow's executors hand out plain arrays, which every client reads",
        ),
        (
            "reload: true",
            "flow does not watch the code of executors; `flow restart NODE` loads it again, and `reload: true` in `with` \
             follows the flow file",
        ),
        (
            "provider: sagemaker",
            "executors serve gRPC; at the gateway, for which SageMaker wants `port: 8080`, `POST /invocations` calls the endpoint `/invocations`, and \
             `GET /ping` asks for its health",
        ),
        (
            "extra_search_paths: [lib]",
            "paths start at the flow file, and Python also looks for modules in `PYTHONPATH`, which `env` can set",
        ),
        (
            "read_only: true",
            "it is an option of Jina 1 or 2 that Jina 3 no longer has",
        ),
    ] {
        let key = option.split(':').next().unwrap();
        check_entry_warning(option, &format!("`{key}` has no effect: {why}"));
    }
}

#[test]
fn dead_keys_of_the_gateway_are_taken_with_what_happens_instead() {
    for (option, why) in [
        ("name: door", "replies and `needs` know it as `gateway`"),
        (
            "proxy: true",
            "flow connects to executors directly, whatever proxies are set",
        ),
        (
            "reload: true",
            "it watches the code of a gateway of your own; `reload: true` in `with` follows the flow file",
        ),
        (
            "replicas: 2",
            "`flow up` runs one gateway; `flow export kubernetes --autoscale gateway=2..4` runs several",
        ),
    ] {
        let key = option.split(':').next().unwrap();
        assert!(gateway(option).is_ok(), "{option}");
        let expected = format!("`{key}` has no effect: {why}");
        assert_eq!(messages(gateway(option)), [expected]);
    }
}

#[test]
fn planned_keys_are_problems_unless_they_have_their_default() {
    check_entry_problem(
        "stateful: true",
        "`stateful` is a key of Jina's that flow does not support yet; leave it out, or write `false`",
    );
    let nothing = [
        "shards: 1",
        "polling: ANY",
        "polling: any",
        "tls: false",
        "tls: False",
        "when: ~",
        "when: {}",
        "volumes: []",
        "monitoring: false",
        "metrics: false",
        "gpus: ''",
        "compression: NoCompression",
        "reload: false",
        "no_reduce: false",
        "py_modules: []",
        "scheduling: load_balance",
        "native: false",
        "native: true",
        "output_array_type: numpy",
        "force_network_mode: AUTO",
        "provider: NONE",
        "install_requirements: false",
        "stateful: false",
        "shard_id: 0",
        "disable_auto_volume: false",
    ];
    for option in nothing {
        assert_eq!(messages(entry(option)), [""; 0], "{option}");
    }
    for option in [
        "uses: GRPCGateway",
        "name: gateway",
        "graph_description: '{}'",
        "replicas: 1",
    ] {
        assert_eq!(messages(gateway(option)), [""; 0], "{option}");
    }
}

#[test]
fn refused_keys_give_a_reason() {
    check_entry_problem(
        "connection_list: x",
        "`connection_list` is not supported: it belongs to Jina's head processes, and flow has none",
    );
    check_gateway_problem(
        "graph_description: x",
        "`graph_description` is not supported: the gateway learns it from `executors`",
    );
    check_gateway_problem(
        "uses_with: {a: 1}",
        "`uses_with` is not supported: it is for a gateway of your own, and flow runs its own gateway; \
         `expose_endpoints` gives endpoints of executors routes",
    );
    assert_eq!(
        messages(with("uses: x")),
        ["`uses` is not supported: here it reaches neither the gateway nor an executor"],
    );
}

#[test]
fn uses_names_a_program_or_a_path() {
    for (uses, expected) in [
        ("echo", json!({"named": "echo"})),
        ("Encoder", json!({"named": "Encoder"})),
        ("BaseExecutor", json!({"named": "echo"})),
        ("./my/program", json!({"path": "./my/program"})),
        ("folder/", json!({"path": "folder/"})),
        ("config.yml", json!({"path": "config.yml"})),
        ("docker://x", json!({"image": "x"})),
        (
            "docker://registry.example.com:5000/team/x:1.2",
            json!({"image": "registry.example.com:5000/team/x:1.2"}),
        ),
    ] {
        let checked = check(&format!("jtype: Flow\nexecutors: [{{uses: {uses}}}]"));
        assert_eq!(at(checked, &local("uses")), expected);
    }
}

#[test]
fn unsupported_uses_are_reported_with_the_reason() {
    let cases = [
        (
            "docker://",
            "`docker://` names no image; write `docker://image` or `docker://image:tag`",
        ),
        (
            "docker://me/Encoder:1",
            "names of images are in lower-case letters, and `Encoder` is not; did you mean \
             `docker://me/encoder:1`?",
        ),
        (
            "https://a/b",
            "`https://a/b` is a URL, and flow does not download executors; name a program or a folder",
        ),
        ("[a]", "must be a program, a folder or a config, is a list"),
        ("5", "must be a text, is `5`"),
        ("''", "must be a text, is the text ``"),
    ];
    for (uses, expected) in cases {
        check_file(
            &format!("jtype: Flow\nexecutors: [{{uses: {uses}}}]"),
            &[expected],
        );
    }
}

#[test]
fn options_of_an_executor_are_passed_on_unchecked() {
    check_entry(
        "uses_with: {a: 1, b: [x, {c: ~}]}",
        "with",
        json!({"a": 1, "b": ["x", {"c": null}]}),
    );
    check_entry("uses_metas: {name: x}", "metas", json!({"name": "x"}));
    check_entry("uses_with: ~", "with", json!({}));
    check_entry_problem("uses_with: [a]", "must be a mapping, is a list");
    check_entry_problem("uses_with: {a: .nan}", "must be a finite number, is `.nan`");
}

#[test]
fn requests_bind_endpoints_to_methods() {
    check_entry(
        "uses_requests: {/a: f, /default: g}",
        "requests",
        json!({"/a": "f", "/default": "g"}),
    );
    check_entry_problem(
        "uses_requests: {a: f}",
        "`a` is not an endpoint: it must start with `/`; did you mean `/a`?",
    );
    check_entry_problem("uses_requests: {/a: 1}", "must be a text, is `1`");
}

#[test]
fn replicas_are_at_least_one() {
    check_entry("replicas: 1", "replicas", json!(1));
    check_entry("replicas: 65535", "replicas", json!(65535));
    check_entry_problem("replicas: 0", "must be at least 1, is 0");
    check_entry_problem("replicas: -1", "must be at least 1, is -1");
    check_entry_problem(
        "replicas: 65536",
        "must be a whole number from 1 to 65535, is `65536`",
    );
    check_entry_problem(
        "replicas: 1.5",
        "must be a whole number from 1 to 65535, is `1.5`",
    );
    check_entry_problem(
        "replicas: '2x'",
        "must be a whole number from 1 to 65535, is the text `2x`",
    );
}

#[test]
fn truth_values_are_true_and_false() {
    for yes in ["true", "True", "TRUE"] {
        assert_eq!(
            at(entry(&format!("floating: {yes}")), "/nodes/0/floating"),
            json!(true)
        );
    }
    let must = "must be `true` or `false`, is";
    check_entry_problem(
        "floating: yes",
        &format!("{must} the text `yes`; did you mean `true`?"),
    );
    check_entry_problem(
        "floating: Off",
        &format!("{must} the text `Off`; did you mean `false`?"),
    );
    check_entry_problem("floating: 1", &format!("{must} `1`"));
    check_entry_problem("floating: 'maybe'", &format!("{must} the text `maybe`"));
}

#[test]
fn the_environment_is_texts() {
    check_entry(
        "env: {A: 1, B: true, C: x, D: , E: 08, F: '8'}",
        "env",
        json!({"A": "1", "B": "true", "C": "x", "D": "", "E": "08", "F": "8"}),
    );
    check_entry("inherit_env: false", "inherit_env", json!({"listed": []}));
    check_entry("inherit_env: 'true'", "inherit_env", json!("all"));
    let names = json!({"listed": ["A", "AWS_*"]});
    check_entry("inherit_env: [A, 'AWS_*']", "inherit_env", names);
    check_entry_problem(
        "inherit_env: ['*']",
        "must be the name of a variable, or the beginning of names such as `AWS_*`, is the text `*`",
    );
    check_entry_problem("env: [A]", "must be a mapping, is a list");
    check_entry_problem("env: {A: [1]}", "must be a single value, is a list");
    check_entry_problem(
        "env: {'A=B': 1}",
        "`A=B` cannot be the name of an environment variable",
    );
    check_entry(
        "env: {CUDA_VISIBLE_DEVICES: '0,1'}",
        "env",
        json!({"CUDA_VISIBLE_DEVICES": "0,1"}),
    );
}

#[test]
fn times_are_milliseconds_or_have_a_unit() {
    check_entry("timeout_ready: 1500", "timeout_ready", millis(1500));
    check_entry("timeout_ready: 5s", "timeout_ready", millis(5000));
    check_entry("timeout_ready: 2min", "timeout_ready", millis(120_000));
    check_entry("timeout_ready: -1", "timeout_ready", json!(null));
    check_entry("floating: false", "timeout_ready", millis(600_000));
    check_entry_problem("timeout_ready: 0", "must be more than 0; -1 waits forever");
    let must =
        "must be a time, as milliseconds or with a unit (`5s`, `2min`), or -1 for no limit, is";
    check_entry_problem("timeout_ready: -2", &format!("{must} `-2`"));
    check_entry_problem("timeout_ready: 1.5", &format!("{must} `1.5`"));
    check_entry_problem("timeout_ready: soon", &format!("{must} the text `soon`"));
    check_entry_problem(
        "timeout_ready: 366d",
        "must be at most 365 days, is the text `366d`",
    );
    for (written, expected) in [
        ("500", millis(500)),
        ("-1", json!(null)),
        ("0", json!(null)),
    ] {
        let timeout = at(
            entry(&format!("timeout_send: {written}")),
            "/nodes/0/calls/timeout",
        );
        assert_eq!(timeout, expected);
    }
}

#[test]
fn a_replica_starts_slowly_if_the_file_says_so() {
    let of = |options| {
        at(entry(options), "/nodes/0/calls")
            .get("slow_start")
            .cloned()
    };
    assert_eq!(of(""), None);
    assert_eq!(of("slow_start: 0"), None);
    assert_eq!(of("slow_start: 1500"), Some(millis(1500)));
}

#[test]
fn requests_to_idempotent_executors_are_hedged_after_a_time_or_a_percentage() {
    let of = |written: &str| {
        let options = format!("idempotent: true, hedge: {written}");
        at(entry(&options), "/nodes/0/calls/hedge")
    };
    assert_eq!(of("95%"), json!({"percentile": 95}));
    assert_eq!(of("50ms"), json!({"after": millis(50)}));
    assert_eq!(of("50"), json!({"after": millis(50)}));
    let must = "must be a time (`50ms`), or a percentage of calls from `50%` to `99%`, is";
    for written in ["100%", "5%", "x%"] {
        let problem = format!("{must} the text `{written}`");
        check_entry_problem(&format!("idempotent: true, hedge: {written}"), &problem);
    }
    check_entry_problem("idempotent: true, hedge: 0", &format!("{must} `0`"));
    check_entry_problem(
        "hedge: 95%",
        "`hedge` lets a request run at two replicas, and the executor is not `idempotent`; say `idempotent: true` if that does \
         no harm, or remove `hedge`",
    );
}

#[test]
fn retries_are_counted_or_left_to_flow() {
    for (written, expected) in [
        ("-1", json!("default")),
        ("0", json!({"times": 0})),
        ("3", json!({"times": 3})),
    ] {
        assert_eq!(
            at(
                entry(&format!("retries: {written}")),
                "/nodes/0/calls/retries"
            ),
            expected
        );
    }
    check_entry_problem(
        "retries: -2",
        "must be a number of retries, or -1 for flow's own choice, is `-2`",
    );
}

#[test]
fn metadata_must_be_fit_for_grpc() {
    let metadata = at(
        entry("grpc_metadata: {authorization: Bearer x, n: 1}"),
        "/nodes/0/calls/metadata",
    );
    assert_eq!(metadata, json!([["authorization", "Bearer x"], ["n", "1"]]));
    let rule = "cannot be the name of gRPC metadata: lower-case letters, digits, `_`, `-` and `.`, not `grpc-…` or `…-bin`";
    check_entry_problem(
        "grpc_metadata: {Token: x}",
        &format!("`Token` {rule}; did you mean `token`?"),
    );
    check_entry_problem(
        "grpc_metadata: {grpc-timeout: x}",
        &format!("`grpc-timeout` {rule}"),
    );
    check_entry_problem("grpc_metadata: {a-bin: x}", &format!("`a-bin` {rule}"));
    check_entry_problem("grpc_metadata: {'a b': x}", &format!("`a b` {rule}"));
    check_entry_problem(
        "grpc_metadata: {a: é}",
        "must be printable ASCII, is the text `é`",
    );
}

#[test]
fn names_of_executors_are_checked() {
    check_file(
        "jtype: Flow\nexecutors: [{uses: echo, name: 1a}]",
        &[
            "`1a` is not a name: a letter or `_` first, then letters, digits, `_` and `-`, at most 63 in all",
        ],
    );
    check_file(
        "jtype: Flow\nexecutors: [{uses: echo, name: 1}]",
        &["must be a text, is `1`"],
    );
}

#[test]
fn logs_are_for_people_or_programs() {
    for (options, expected) in [
        ("log_config: default", json!(null)),
        ("log_config: plain", json!("text")),
        ("log_config: json", json!("json")),
        ("log_config: quiet", json!("off")),
        ("quiet: true", json!("off")),
        ("quiet: true, log_config: json", json!("off")),
        ("quiet: false, log_config: json", json!("json")),
    ] {
        check_gateway(options, "log", expected.clone());
        check_entry(options, "log", expected);
    }
    check_entry_problem(
        "log_config: my.yml",
        "must be `default`, `plain`, `json` or `quiet`, is the text `my.yml`; flow does not read Python's log configurations",
    );
}

#[test]
fn methods_are_jina_s() {
    for method in ["add", "needs", "needs_all", "inspect"] {
        assert!(entry(&format!("method: {method}")).is_ok(), "{method}");
    }
    check_entry_problem(
        "method: need_all",
        "must be `add`, `needs`, `needs_all`, `inspect` or `gather_inspect`, is `need_all`; \
         did you mean `needs_all`?",
    );
}

#[test]
fn the_gateway_listens_on_the_given_host_and_port() {
    check_gateway("port: 54321", "port", json!(54321));
    check_gateway("port: [54321]", "port", json!(54321));
    check_gateway("ports: 1", "port", json!(1));
    check_gateway("port_in: 2", "port", json!(2));
    check_gateway("port: 0", "port", json!(null));
    check_gateway("port: ~", "port", json!(null));
    check_gateway("prefetch: 5", "host", json!(null));
    check_gateway("host: 127.0.0.1", "host", json!("127.0.0.1"));
    check_gateway("host: [localhost]", "host", json!("localhost"));
    check_gateway("host: '::'", "host", json!("::"));
    let must = "must be a port from 1 to 65535, or 0 for any free one, is";
    check_gateway_problem("port: 65536", &format!("{must} `65536`"));
    check_gateway_problem("port: -1", &format!("{must} `-1`"));
    check_gateway_problem("port: http", &format!("{must} the text `http`"));
    check_gateway_problem(
        "host: [a, b]",
        "a gateway listens on one of the hosts only; keep one",
    );
    check_gateway_problem(
        "host: 'grpc://a:1'",
        "must be a host without scheme and port, is the text `grpc://a:1`",
    );
    check_gateway_problem(
        "port: 1, ports: 2",
        "`ports` means `port`, which is given here too; keep one of them",
    );
}

#[test]
fn options_of_uvicorn_that_the_gateway_has_are_its_own() {
    let tls = "uvicorn_kwargs: {ssl_certfile: c.pem, ssl_keyfile: k.pem, ssl_ca_certs: ca.pem";
    let own = json!({"certificate": "c.pem", "key": "k.pem"});
    for (more, clients) in [
        ("}", json!(null)),
        (", ssl_cert_reqs: 0}", json!(null)),
        (
            ", ssl_cert_reqs: 1}",
            json!({"roots": "ca.pem", "wanted": "optional"}),
        ),
        (
            ", ssl_cert_reqs: 2}",
            json!({"roots": "ca.pem", "wanted": "required"}),
        ),
    ] {
        let expected = json!({"own": own, "clients": clients});
        check_gateway(&format!("{tls}{more}"), "tls", expected);
    }
    let limit = "uvicorn_kwargs: '{\"limit_concurrency\": 100}'";
    check_gateway(limit, "in_flight_max", json!(100));
    let both = "in_flight_max: 5, uvicorn_kwargs: {limit_concurrency: 100}";
    check_gateway(both, "in_flight_max", json!(5));
    assert_eq!(
        messages(gateway("uvicorn_kwargs: {workers: 2, loop: asyncio}")),
        [
            "`workers` has no effect: the gateway is one process with several threads",
            "`loop` has no effect: flow's server is not uvicorn",
        ]
    );
    check_gateway_problem(
        "uvicorn_kwargs: {ssl_certfile: c, ssl_keyfile: k, ssl_keyfile_password: x}",
        "`ssl_keyfile_password` is not supported: flow reads keys without a password; decrypt the key with `openssl \
         pkey`, and protect its file",
    );
}

#[test]
fn a_sandbox_limits_what_it_names() {
    let off = json!({"no_network": false, "read_only": false});
    let with = |key: &str, value: Value| {
        let mut sandbox = off.clone();
        sandbox[key] = value;
        sandbox
    };
    let check = |written: &str, expected: Value| {
        check_entry(&format!("sandbox: {written}"), "sandbox", expected);
    };
    check("{memory: 2GiB}", with("memory", json!(2_u64 << 30)));
    check("{memory: 512m}", with("memory", json!(512 << 20)));
    check("{memory: 33554432}", with("memory", json!(32 << 20)));
    check("{cpus: 1.5}", with("cpus", json!(1500)));
    check("{cpus: 2}", with("cpus", json!(2000)));
    check("{cpus: '0.25'}", with("cpus", json!(250)));
    check("{no_network: true}", with("no_network", json!(true)));
    check("{read_only: 'true'}", with("read_only", json!(true)));
    check(r#"'{"cpus": 1}'"#, with("cpus", json!(1000)));
    let plan = serde_json::to_value(Plan::from(entry("sandbox: {}").unwrap().flow)).unwrap();
    assert_eq!(plan.pointer(&local("sandbox")), None);
}

#[test]
fn a_limit_that_no_kernel_could_enforce_is_a_problem() {
    let check = |written: &str, expected: &str| {
        check_entry_problem(&format!("sandbox: {{{written}}}"), expected);
    };
    let unit = "write a number with a unit, such as `2GiB`";
    check(
        "memory: 2",
        &format!("must be at least 16 MiB, is `2`; {unit}"),
    );
    check(
        "memory: -1",
        &format!("must be at least 16 MiB, is `-1`; {unit}"),
    );
    check(
        "memory: much",
        "must be bytes, as a number or with a unit (`512m`, `2g`), is the text `much`",
    );
    let number = "must be a number of processors, at least 0.01, such as `1.5`";
    check("cpus: 0", &format!("{number}, is `0`"));
    check("cpus: -1", &format!("{number}, is `-1`"));
    check("cpus: all", &format!("{number}, is the text `all`"));
    check("cpus: .nan", &format!("{number}, is `.nan`"));
    check_entry_problem("sandbox: true", "must be a mapping, is `true`");
    check(
        "read_ony: true",
        "`read_ony` is not a limit of a sandbox; did you mean `read_only`?",
    );
}

#[test]
fn a_sandbox_without_network_excludes_ports() {
    let check = |options: &str, expected: &str| {
        let options = format!("sandbox: {{no_network: true}}, {options}");
        let message = format!("`no_network` allows Unix sockets only, and {expected}");
        check_entry_problem(&options, &message);
    };
    let listens = "this executor listens at a port; leave out `port` and `host`: the gateway then reaches the executor through \
         a Unix socket";
    check("port: 5", listens);
    check("host: 127.0.0.1", listens);
    check(
        "monitoring: true",
        "its metrics are served at a port; write `monitoring: false` for this executor; the gateway's metrics count its calls",
    );
    check(
        "tracing: true, traces_exporter_host: a, traces_exporter_port: 4317",
        "it exports to a collector of OpenTelemetry; write `tracing: false` and `metrics: false` for this executor",
    );
    assert!(entry("sandbox: {read_only: true}, port: 5, monitoring: true").is_ok());
}

#[test]
fn a_read_only_executor_needs_a_workspace_of_its_own() {
    let file = |executor: &str| {
        let limit = "sandbox: {read_only: true}";
        check(&format!(
            "jtype: Flow\nwith: {{workspace: w}}\nexecutors: [{{name: a, uses: echo, {limit}{executor}}}]"
        ))
    };
    let shared = "`read_only` leaves the `workspace` writable, and this is that of the whole flow, with the flow's own state \
         and the files of other executors; give the executor a `workspace` of its own";
    assert_eq!(messages(file("")), [shared]);
    assert!(file("").is_ok());
    assert_eq!(messages(file(", workspace: own")), [""; 0]);
    assert_eq!(messages(entry("sandbox: {read_only: true}")), [""; 0]);
}

#[test]
fn a_sandbox_is_for_processes_that_the_flow_starts() {
    let container = "`sandbox` is for processes of this machine, and this executor runs in a container; limit the container \
         with `docker_kwargs`, such as `{mem_limit: 2g, nano_cpus: 1500000000, read_only: true}`, and write `sandbox: {}` here \
         if `with` has a sandbox";
    let external = "`sandbox` is for processes that the flow starts, and this executor is external; limit it where it is started";
    let file = |with: &str, executor: &str| {
        format!("jtype: Flow\nwith: {{{with}}}\nexecutors: [{{name: a, {executor}}}]")
    };
    let (limit, image) = ("sandbox: {cpus: 1}", "uses: docker://x");
    check_file(&file("", &format!("{image}, {limit}")), &[container]);
    check_file(&file(limit, image), &[container]);
    assert!(check(&file(limit, &format!("{image}, sandbox: {{}}"))).is_ok());
    let around = format!("uses: echo, shards: 2, uses_after: docker://x, {limit}");
    check_file(&file("", &around), &[container]);
    let outside = "external: true, port: 5";
    check_file(&file("", &format!("{outside}, {limit}")), &[external]);
    assert!(check(&file(limit, outside)).is_ok());
    assert_eq!(
        at(check(&file(limit, "uses: echo")), &local("sandbox/cpus")),
        json!(1000)
    );
}

#[test]
fn the_gateway_has_protocols_and_a_port_for_each_of_them_or_one_for_all() {
    for protocol in ["grpc", "GRPC", "[GRPC]"] {
        check_gateway(
            &format!("protocol: {protocol}"),
            "protocols",
            json!(["grpc"]),
        );
    }
    check_gateway("prefetch: 5", "protocols", json!(["grpc"]));
    let of_kind = |options: &str| at(gateway(options), "/gateway/protocols");
    assert_eq!(of_kind("uses: HTTPGateway"), json!(["http"]));
    assert_eq!(of_kind("uses: WebSocketGateway"), json!(["websocket"]));
    assert_eq!(
        of_kind("uses: CompositeGateway, protocol: [http, grpc]"),
        json!(["http", "grpc"])
    );
    check_gateway(
        "protocol: [HTTP, websocket, grpc], port: ['1']",
        "protocols",
        json!(["http", "websocket", "grpc"]),
    );
    let three = "protocol: [grpc, http, websocket], port: [1, '2', 0]";
    check_gateway(three, "port", json!(1));
    check_gateway(three, "protocols", json!(["grpc"]));
    check_gateway(
        three,
        "more_ports",
        json!([
            {"port": 2, "protocols": ["http"]},
            {"port": null, "protocols": ["websocket"]},
        ]),
    );
    check_gateway(
        "protocol: http, ports: [1, 2]",
        "more_ports",
        json!([{"port": 2, "protocols": ["http"]}]),
    );
    check_gateway_problem(
        "protocol: [grpc, http], port: [1, 2, 3]",
        "3 ports for 2 protocols; write a port for each protocol, or one for all",
    );
    check_gateway_problem(
        "protocol: gprc",
        "must be `grpc`, `http` or `websocket`, is `gprc`; did you mean `grpc`?",
    );
    check_entry_warning(
        "protocol: http",
        "the executor serves gRPC, and not HTTP; clients reach it over HTTP at the gateway",
    );
    check_entry_problem(
        "protocol: [grpc, http], external: true, port: 5",
        "executors are called over gRPC, and this one speaks HTTP; start it with `protocol: grpc`",
    );
}

#[test]
fn the_gateway_has_options_for_its_http_routes() {
    check_gateway("only_protocols: true", "only_protocols", json!(true));
    check_gateway("cors: 'true'", "http/cors", json!("any"));
    check_gateway(
        "cors: https://a.b",
        "http/cors",
        json!({"origins": ["https://a.b"]}),
    );
    check_gateway(
        "cors: [https://a.b, 'http://c:1']",
        "http/cors",
        json!({"origins": ["https://a.b", "http://c:1"]}),
    );
    check_gateway("cors: ['*']", "http/cors", json!("any"));
    check_gateway_problem(
        "cors: [a.b]",
        "must be an origin such as `https://example.com`, is the text `a.b`",
    );
    for (written, expected) in [
        ("'False'", "off"),
        ("read-only", "read-only"),
        ("Read_Only", "read-only"),
    ] {
        check_gateway(
            &format!("console: {written}"),
            "http/console",
            json!(expected),
        );
    }
    check_gateway_problem(
        "console: readonly",
        "must be `true`, `false` or `read-only`, is the text `readonly`",
    );
    check_gateway("title: A", "http/title", json!("A"));
    check_gateway("description: B", "http/description", json!("B"));
    for key in ["no_debug_endpoints", "no_crud_endpoints"] {
        check_gateway(&format!("{key}: true"), &format!("http/{key}"), json!(true));
    }
    let plain = json!({"/a": {"path": "/a", "methods": ["POST"]}});
    for written in ["{/a: {}}", "{/a: }", "'{\"/a\": {\"tags\": [\"x\"]}}'"] {
        check_gateway(
            &format!("expose_endpoints: {written}"),
            "http/exposed",
            plain.clone(),
        );
    }
    check_gateway(
        "expose_endpoints: {/a: {http_path: /b, methods: [get], summary: c}}",
        "http/exposed",
        json!({"/a": {"path": "/b", "methods": ["GET"], "summary": "c"}}),
    );
    check_gateway_problem(
        "expose_endpoints: {/a: {metods: [GET]}}",
        "`metods` is not an option of an exposed endpoint; did you mean `methods`?",
    );
    check_gateway_problem(
        "expose_graphql_endpoint: true",
        "`expose_graphql_endpoint` is not supported: the gateway speaks no GraphQL; its HTTP routes take the same \
         documents as JSON",
    );
}

#[test]
fn one_of_several_ports_may_be_the_only_one_with_the_console() {
    for (port, expected) in [(7000, 0), (7001, 1)] {
        check_gateway(
            &format!("port: [7000, 7001], console_port: {port}"),
            "http/console_port",
            json!(expected),
        );
    }
    check_gateway_problem(
        "port: [7000, 7001], console_port: 7002",
        "`console_port` is 7002, which is not a port of the gateway; write it under `port`, too, as in `port: [8080, 7002]`",
    );
    check_gateway_problem(
        "port: [7000, 7001], protocol: [http, grpc], only_protocols: true, console_port: 7001",
        "`console_port` is 7001, which serves no HTTP because of `only_protocols`; choose a port whose protocol is `http`",
    );
}

#[test]
fn the_gateway_has_limits_on_what_clients_send() {
    for key in [
        "memory_max",
        "decompressed_max",
        "documents_max",
        "nesting_max",
        "connections_max",
    ] {
        check_gateway(&format!("{key}: 7"), &format!("limits/{key}"), json!(7));
        check_gateway_problem(
            &format!("{key}: 0"),
            match key {
                "nesting_max" => "must be a whole number from 1 to 128, is `0`",
                _ => "must be a whole number, at least 1, is `0`",
            },
        );
    }
    let per_address = "limits/per_address_max";
    check_gateway("connections_per_address_max: 7", per_address, json!(7));
    let age = "limits/connection_age_max";
    let half_an_hour = json!({"secs": 1800, "nanos": 0});
    check_gateway("connection_age_max: 30min", age, half_an_hour);
    check_gateway(
        "connection_age_max: -1, connections_max: 7",
        age,
        json!(null),
    );
    let too_deep = "must be a whole number from 1 to 128, is `129`";
    check_gateway_problem("nesting_max: 129", too_deep);
}

#[test]
fn a_stream_has_a_window() {
    check_gateway("port: 1", "prefetch", json!(1000));
    check_gateway("prefetch: 1", "prefetch", json!(1));
    check_gateway_problem(
        "prefetch: -1",
        "must be a whole number of requests, at least 1, is `-1`",
    );
    check_gateway_problem(
        "prefetch: x",
        "must be a whole number of requests, at least 1, is the text `x`",
    );
    check_gateway("port: 1", "in_flight_max", json!(16_384));
    check_gateway("in_flight_max: 5", "in_flight_max", json!(5));
    check_gateway_problem(
        "in_flight_max: 0",
        "must be a whole number of requests, at least 1, is `0`",
    );
    let checked = gateway("prefetch: 0");
    assert_eq!(
        messages(checked),
        ["0 means no limit in Jina; flow uses 1000 instead"]
    );
}

#[test]
fn a_bad_value_in_with_is_reported_once() {
    assert_eq!(messages(with("retries: x")).len(), 1);
    assert_eq!(messages(with("host: 'ftp://x'")).len(), 1);
}
