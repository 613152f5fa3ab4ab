//! The schema and the parser agree: on keys, for both are made of the tables, and on values.

use jsonschema::Validator;
use serde_json::{Value, json};

use super::*;
use crate::{Flow, FlowSpec, Variables};

fn validator() -> Validator {
    jsonschema::draft202012::new(&json_schema()).unwrap()
}

fn from_yaml(text: &str) -> Value {
    serde_yaml::from_str(text).unwrap_or_else(|error| panic!("{text}\n{error}"))
}

#[test]
fn it_is_a_schema_and_knows_every_key() {
    let schema = json_schema();
    assert!(jsonschema::draft202012::meta::is_valid(&schema));
    for (name, keys) in MAPPINGS {
        let properties = &schema["$defs"][name]["properties"];
        for key in keys.keys() {
            let about = properties[key.name]["description"].as_str();
            assert!(
                about.is_some_and(|it| it.ends_with('.')),
                "{name}.{}",
                key.name
            );
        }
    }
}

#[test]
fn every_comparison_is_one_of_queries() {
    for (operator, with) in COMPARISONS {
        let value = match *with {
            "list" => json!([1]),
            "number" => json!(1),
            "flag" => json!(true),
            _ => json!("a"),
        };
        let query = json!({"text": {*operator: value}});
        assert!(flow_core::query::Query::parse(&query).is_ok(), "{query}");
    }
}

/// Options of the mapping `part`, on which schema and parser say the same.
#[track_caller]
fn check(part: &str, options: &str, fine: bool) {
    let text = match part {
        "executor" => format!("jtype: Flow\nexecutors: [{{uses: echo, {options}}}]"),
        "deployment" => format!("jtype: Deployment\nwith: {{uses: echo, {options}}}"),
        part => format!("jtype: Flow\n{part}: {{{options}}}\nexecutors: [{{uses: echo}}]"),
    };
    let by_schema = validator().is_valid(&from_yaml(&text));
    let spec = FlowSpec::parse(&text, &Variables::default()).unwrap();
    let by_parser = Flow::check(spec);
    assert_eq!(by_parser.is_ok(), fine, "parser on {text}: {by_parser:?}");
    assert_eq!(by_schema, fine, "schema on {text}");
}

#[test]
fn schema_and_parser_take_the_same() {
    for options in [
        "name: a, needs: gateway",
        "needs: [gateway]",
        "method: needs_all",
        "replicas: '2', floating: 'true', port: ['5'], retries: '-1', timeout_send: '7'",
        "jcloud: {a: b}, install_requirements: true, on_error_strategy: SKIP_HANDLE, parallel: 2",
        "replicas: 2, timeout_ready: 5s, timeout_send: -1, retries: -1",
        "uses_with: {a: [1, {b: c}]}",
        "uses_with: '{\"a\": 1}'",
        "uses_requests: {/a: b}",
        "uses_dynamic_batching: {/a: {preferred_batch_size: 4, timeout: 10}}",
        "shards: 2, polling: {/a: ALL, '*': ANY}",
        "shards: 2, polling: all",
        "shards: 2, uses_after: {jtype: Ranker}",
        "when: {$or: [{tags__a: {$eq: 1}}, {$not: {text: {$regex: x}}}]}",
        "when: '{\"tags__a\": {\"$eq\": 1}}'",
        "workers: auto",
        "exit_on_exceptions: [panic]",
        "env: {A: 1, B: true, C: x}",
        "sandbox: {memory: 2GiB, cpus: 1.5, no_network: true, read_only: 'true'}",
        "external: true, host: [a, b], port: 5",
        "port: [5], protocol: GRPC",
        "tls: false, volumes: [], monitoring: false, output_array_type: numpy, py_modules: ~",
        "monitoring: true, port_monitoring: 5",
        "force_network_mode: AUTO, timeout_ctrl: 60",
        "gpus: 'device=0,1', volumes: ['~/a:/b:ro'], entrypoint: [a, b]",
        "volumes: [{type: volume, source: cache, target: /cache}, {type: bind, source: a, target: /b, read_only: true}]",
        "volumes: {type: volume, source: cache, target: /cache}",
        "gpus: 2, docker_kwargs: {mem_limit: 1g, extra_hosts: {a: b}, init: true}",
        "quiet: false, log_config: json",
        "grpc_metadata: {token: x}",
    ] {
        check("executor", options, true);
        check("deployment", options, true);
    }
    check(
        "with",
        "port: 5, inspect: HANG, reload: true, prefetch: 0, name: x",
        true,
    );
    check("with", "replicas: 3, env: {A: b}, workspace: w", true);
    check(
        "gateway",
        "port: [5], uses: GRPCGateway, in_flight_max: 9, name: gateway",
        true,
    );
    check("gateway", "port: ~, host: 127.0.0.1", true);
    check("deployment", "port: 5, prefetch: 9", true);
}

#[test]
fn schema_and_parser_refuse_the_same() {
    for options in [
        "uess: a",
        "prefetch: 5",
        "replicas: 0",
        "shards: x",
        "floating: maybe",
        "polling: some",
        "uses_requests: {a: b}",
        "uses_dynamic_batching: {/a: {size: 4}}",
        "sandbox: true",
        "sandbox: {read_ony: true}",
        "sandbox: {cpus: 0}",
        "when: {text: {$is: a}}",
        "when: [a]",
        "volumes: [{type: volume, source: cache}]",
        "volumes: [{type: volume, source: cache, target: /cache, size: 1}]",
        "method: join",
        "env: [A]",
        "stateful: true",
        "protocol: [carrier-pigeon]",
        "retries: -2",
        "port: 65536",
        "connection_list: x",
        "jtype: Executor",
    ] {
        check("executor", options, false);
    }
    check("with", "inspect: MAYBE", false);
    check("with", "executors: []", false);
    check("gateway", "graph_description: x", false);
    check("gateway", "in_flight_max: 0", false);
    check("gateway", "needs: a", false);
    check("deployment", "inspect: HANG", false);
}

#[test]
fn other_files_have_their_own_forms() {
    let check = |text: &str, fine: bool| {
        assert_eq!(validator().is_valid(&from_yaml(text)), fine, "{text}");
    };
    check("jtype: Encoder\nwith: {a: 1}\nrequests: {/a: b}", true);
    check("jtype: Encoder\nexecutors: []", false);
    check("jtype: GRPCGateway\nwith: {port: 5}", true);
    check("jtype: GRPCGateway\nwith: {prot: 5}", false);
    check(
        "jtype: Flow\nexecutors: [a.yml, {jtype: Deployment, with: {uses: a}}]",
        true,
    );
    check(
        "jtype: Flow\nexecutors: [{jtype: Deployment, wiht: {uses: a}}]",
        false,
    );
    check("jtype: Flow\nwith: {port: '${{ ENV.PORT }}'}", true);
}

#[test]
fn every_file_in_flows_fits() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../flows");
    let validator = validator();
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let fault = validator
            .validate(&from_yaml(&text))
            .map_err(|it| it.to_string());
        assert_eq!(fault, Ok(()), "{}", path.display());
        files += 1;
    }
    assert!(files >= 3, "{files} files");
}
