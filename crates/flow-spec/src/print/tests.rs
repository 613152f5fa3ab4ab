//! A flow file that is read, printed and read again says the same.

use std::path::Path;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use crate::diagnostics::{Diagnostics, Position, SourceSpan};
use crate::forms::Shape;
use crate::keys::{
    ContainerOptions, EntryOptions, ExecutorOptions, FlowOptions, GatewayOptions, InheritedOptions,
    Key, KeySupport, LogOptions, MonitoringOptions, Options as _,
};
use crate::spec::FlowSpec;
use crate::yaml::Variables;

fn parse(text: &str) -> FlowSpec {
    let spec = FlowSpec::parse(text, &Variables::default());
    let spec = spec.unwrap_or_else(|error| panic!("{text}\n{error}"));
    let Diagnostics {
        problems,
        unknown_keys,
        ..
    } = &spec.diagnostics;
    assert!(problems.is_empty(), "{text}\n{problems:?}");
    assert!(unknown_keys.is_empty(), "{text}\n{unknown_keys:?}");
    FlowSpec {
        span: SourceSpan::new(Position::START, ""),
        diagnostics: Diagnostics::default(),
        ..spec
    }
}

#[track_caller]
fn check(text: &str) {
    let spec = parse(text);
    let printed = spec.print();
    assert_eq!(parse(&printed), spec, "{text}\n{printed}");
}

/// An option of a key, in one of the ways in which it can be written.
fn value(key: &'static Key) -> BoxedStrategy<Value> {
    let KeySupport::Supported(shape, _) = key.state else {
        panic!("{} is not supported", key.name)
    };
    match key.name {
        // The name of a registry, and a platform, are texts of their own kind.
        "hub" => one_of(&[json!("registry.example.com/team"), json!("localhost:5000")]),
        "host" => hosts(key),
        "uses" if key.example == "HTTPGateway" => one_of(&[
            json!("GRPCGateway"),
            json!("HTTPGateway"),
            json!("CompositeGateway"),
        ]),
        "expose_endpoints" => mapping("/[a-z]{1,6}", exposed()),
        "models" => mapping("[a-z]{1,6}", text()),
        // A text is split into words as a shell does it.
        "entrypoint" => one_of(&[
            json!("python serve.py"),
            json!("a 'b c'"),
            json!(["a b", "'"]),
        ]),
        "timeout_ready" => prop_oneof![Just(json!(-1)), times()].boxed(),
        "grpc_metadata" => mapping("[a-z][a-z0-9_]{0,5}", single()),
        _ => of_shape(shape),
    }
}

fn of_shape(shape: Shape) -> BoxedStrategy<Value> {
    match shape {
        Shape::Text => text(),
        Shape::Texts => one_or_list(text()),
        Shape::Name => name(),
        Shape::Flag => one_of(&[json!(true), json!(false)]),
        Shape::Count => (1..99_u16).prop_map(Value::from).boxed(),
        Shape::Window => (1..99_999_u32).prop_map(Value::from).boxed(),
        Shape::Workers => {
            prop_oneof![Just(json!("auto")), (1..99_u16).prop_map(Value::from)].boxed()
        }
        Shape::Retries => (-1..99_i32).prop_map(Value::from).boxed(),
        Shape::Hedge => prop_oneof![Just(json!("95%")), Just(json!("50ms"))].boxed(),
        Shape::Time => prop_oneof![Just(json!(-1)), Just(json!(0)), times()].boxed(),
        Shape::Ports => one_or_list((1..=u16::MAX).prop_map(Value::from).boxed()),
        Shape::Word(words) => proptest::sample::select(words)
            .prop_map(Value::from)
            .boxed(),
        Shape::Words(words) => one_or_list(
            proptest::sample::select(words)
                .prop_map(Value::from)
                .boxed(),
        ),
        Shape::Mapping => mapping("[a-z_]{1,6}", json_value()),
        Shape::Values => mapping("[A-Z_]{1,6}", single()),
        Shape::Requests => mapping("/[a-z]{1,6}", text()),
        Shape::Batching => mapping("/[a-z]{1,6}", batching_rule()),
        Shape::Polling => {
            let polls = one_of(&[json!("ANY"), json!("all")]);
            prop_oneof![polls.clone(), mapping("/[a-z]{1,6}", polls)].boxed()
        }
        Shape::Bytes => one_of(&[json!("512MiB"), json!("2g"), json!(1_u64 << 30)]),
        Shape::Cpus => one_of(&[json!(2), json!(1.5), json!("0.25")]),
        Shape::Sandbox => sandbox(),
        Shape::Query => one_of(&[
            json!({}),
            json!({"tags__a": {"$eq": 1}}),
            json!({"$or": [{"text": {"$regex": "^q"}}, {"$not": {"tags__b": {"$in": [1, "x"]}}}]}),
        ]),
        Shape::Gpus => one_of(&[
            json!("all"),
            json!(2),
            json!("device=0,1"),
            json!("device=GPU-3a"),
            json!("count=1,driver=nvidia,\"capabilities=compute,utility\",\"options=a=b,c=d\""),
        ]),
        Shape::Variables => one_of(&[
            json!(true),
            json!("false"),
            json!("A"),
            json!(["AWS_*", "OPENAI_API_KEY"]),
        ]),
        Shape::FlagOr(word) => one_of(&[json!(true), json!(false), json!(word)]),
        Shape::Origins => one_of(&[
            json!(true),
            json!(false),
            json!(["https://a.example", "http://localhost:3000"]),
        ]),
        Shape::Docker => docker_kwargs(),
        Shape::Volumes => one_or_list(volume()),
        Shape::Uses => uses(),
        Shape::Version
        | Shape::With
        | Shape::Gateway
        | Shape::Executors
        | Shape::DeploymentOptions => {
            panic!("{shape:?} is not an option")
        }
    }
}

fn sandbox() -> BoxedStrategy<Value> {
    one_of(&[
        json!({}),
        json!({"memory": "2GiB", "cpus": 1.5}),
        json!({"no_network": true, "read_only": "true"}),
    ])
}

/// The route of an exposed endpoint.
fn exposed() -> BoxedStrategy<Value> {
    one_of(&[
        json!({}),
        json!({"methods": ["GET", "put"]}),
        json!({"http_path": "/a", "summary": "b", "tags": ["c"]}),
    ])
}

fn one_of(values: &[Value]) -> BoxedStrategy<Value> {
    proptest::sample::select(values.to_vec()).boxed()
}

fn one_or_list(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let list = proptest::collection::vec(item.clone(), 0..4).prop_map(Value::from);
    prop_oneof![item, list].boxed()
}

fn mapping(key: &'static str, value: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let entries = proptest::collection::btree_map(key, value, 0..4);
    entries
        .prop_map(|entries| Value::Object(entries.into_iter().collect()))
        .boxed()
}

/// Any text, also one that looks like something else; but none that is empty or a reference.
fn text() -> BoxedStrategy<Value> {
    const ODD: &[&str] = &[
        "true", "null", "1", "~", "- a", "a: b", "#", "'", "\"", "é", "!x",
    ];
    let odd = proptest::sample::select(ODD).prop_map(str::to_owned);
    let any = "[ -#%-~äöü]{1,12}".prop_filter("references", |it| !it.contains('$'));
    prop_oneof![odd, any].prop_map(Value::from).boxed()
}

fn name() -> BoxedStrategy<Value> {
    "[a-z][a-z0-9_-]{0,8}".prop_map(Value::from).boxed()
}

fn times() -> BoxedStrategy<Value> {
    const UNITS: &[&str] = &["ms", "s", "min", "h"];
    let units = (1..500_u32, proptest::sample::select(UNITS));
    let with_unit = units.prop_map(|(number, unit)| json!(format!("{number}{unit}")));
    prop_oneof![(1..999_999_u32).prop_map(Value::from), with_unit].boxed()
}

fn single() -> BoxedStrategy<Value> {
    let printable = "[ -#%-~]{0,8}".prop_map(Value::from);
    prop_oneof![
        printable,
        any::<i32>().prop_map(Value::from),
        any::<bool>().prop_map(Value::from),
    ]
    .boxed()
}

fn json_value() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        single(),
        (-9.0..9.0_f64).prop_map(Value::from)
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        let list = proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from);
        prop_oneof![list, mapping("[a-z]{1,4}", inner.boxed())]
    })
    .boxed()
}

fn batching_rule() -> BoxedStrategy<Value> {
    let rules = [
        json!({}),
        json!({"preferred_batch_size": 4, "timeout": 10}),
        json!({"timeout": "2s", "flush_all": true, "metric": "bytes"}),
        json!({"use_custom_metric": true, "use_dynamic_batching": false}),
    ];
    one_of(&rules)
}

fn hosts(key: &Key) -> BoxedStrategy<Value> {
    let plain = [json!("a"), json!("10.0.0.1"), json!("::1")];
    let many = [json!("a:1,b"), json!("grpc://c:5"), json!("[::1]:7")];
    match key.example {
        // The gateway listens on one host without a port.
        "0.0.0.0" => one_or_list(one_of(&plain)),
        _ => one_or_list(one_of(&[plain.as_slice(), &many].concat())),
    }
}

fn uses() -> BoxedStrategy<Value> {
    let forms = [
        json!("sentence-encoder"),
        json!("BaseExecutor"),
        json!("./folder/config.yml"),
        json!("docker://registry:5000/team/image:1.2"),
        json!("hub://me/SentenceEncoder:gpu"),
        json!("jinahub+docker://Encoder/v1"),
        json!("!Encoder | {a: 1}"),
        json!({"jtype": "Encoder", "with": {"a": [1]}, "requests": {"/a": "b"}, "workspace": "w"}),
        json!({"jtype": "Encoder", "metas": {"name": "x"}, "dynamic_batching": {"/a": {"timeout": 3}}}),
    ];
    one_of(&forms)
}

fn volume() -> BoxedStrategy<Value> {
    one_of(&[
        json!("data"),
        json!("~/a:/b:ro"),
        json!({"type": "volume", "source": "cache", "target": "/cache"}),
        json!({"type": "bind", "source": "a", "target": "/b", "read_only": true}),
    ])
}

fn docker_kwargs() -> BoxedStrategy<Value> {
    one_of(&[
        json!({}),
        json!({"mem_limit": "512m", "labels": ["a=b", "c"], "cap_drop": "ALL"}),
        json!({"devices": ["/dev/fuse", "/dev/a:/dev/b:r"], "extra_hosts": {"db": "10.0.0.1"}}),
        json!({"ulimits": [{"name": "nofile", "soft": 5}], "log_config": {"type": "local"}}),
        json!({"platform": "linux/arm64", "network": "team", "init": true, "cpu_shares": 3}),
    ])
}

/// Some of these options.
fn options(tables: &[&'static [&'static Key]]) -> BoxedStrategy<Map<String, Value>> {
    some_of(tables.iter().copied().flatten().copied().collect())
}

fn some_of(keys: Vec<&'static Key>) -> BoxedStrategy<Map<String, Value>> {
    let chosen = proptest::sample::subsequence(keys, 0..=4);
    let written = chosen.prop_flat_map(|keys| {
        let entries: Vec<_> = keys
            .into_iter()
            .map(|key| value(key).prop_map(|value| (key.name.to_owned(), value)))
            .collect();
        entries
    });
    written
        .prop_map(|entries| entries.into_iter().collect())
        .boxed()
}

fn executor() -> BoxedStrategy<Map<String, Value>> {
    options(&[
        EntryOptions::KEYS,
        ExecutorOptions::KEYS,
        InheritedOptions::KEYS,
        LogOptions::KEYS,
        MonitoringOptions::KEYS,
        ContainerOptions::KEYS,
    ])
}

fn flow() -> BoxedStrategy<Value> {
    let gateway = options(&[
        GatewayOptions::KEYS,
        LogOptions::KEYS,
        MonitoringOptions::KEYS,
    ]);
    let with = [
        FlowOptions::KEYS,
        InheritedOptions::KEYS,
        LogOptions::KEYS,
        ContainerOptions::KEYS,
    ];
    let with = with.iter().copied().flatten().copied();
    // The gateway inherits a host too, and has only one.
    let with = some_of(with.filter(|key| key.name != "host").collect());
    let executors = proptest::collection::vec(executor(), 0..4);
    let parts = (with, gateway, executors);
    parts
        .prop_map(|(with, gateway, executors)| {
            json!({"jtype": "Flow", "with": with, "gateway": gateway, "executors": executors})
        })
        .boxed()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn printed_flows_parse_to_the_same_flow(flow in flow()) {
        check(&flow.to_string());
    }
}

#[test]
fn every_flow_in_the_repository_prints_and_parses_to_the_same_flow() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../flows");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        check(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
        files += 1;
    }
    assert!(files >= 3, "{files} files");
}
