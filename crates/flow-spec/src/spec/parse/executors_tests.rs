//! Shards, conditions, batching and threads: the effect on the plan, or the text of the problem.

use serde_json::{Value, json};

use crate::diagnostics::Problems;
use crate::{Checked, Flow, FlowSpec, Plan, Variables};

fn entry(options: &str) -> Result<Checked, Problems> {
    let text = format!("jtype: Flow\nexecutors: [{{name: a, uses: echo, {options}}}]");
    Flow::check(FlowSpec::parse(&text, &Variables::default()).unwrap())
}

/// What the only node becomes, at a JSON pointer; it comes without warnings.
#[track_caller]
fn check(options: &str, pointer: &str, expected: &Value) {
    let checked = entry(options).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(checked.warnings.is_empty(), "{}", checked.warnings);
    let node = serde_json::to_value(&Plan::from(checked.flow).nodes[0]).unwrap();
    let null = Value::Null;
    assert_eq!(
        node.pointer(pointer).unwrap_or(&null),
        expected,
        "{options}"
    );
}

/// Path and text of each problem, or else of each warning.
fn said(options: &str) -> Vec<String> {
    let problems = entry(options).map_or_else(|problems| problems, |checked| checked.warnings);
    let path = |path: &str| path.trim_start_matches("executors.a").to_owned();
    problems
        .iter()
        .map(|it| format!("{} {it}", path(&it.span.path)))
        .collect()
}

#[track_caller]
fn check_problem(options: &str, expected: &str) {
    assert!(entry(options).is_err(), "{options}");
    assert_eq!(said(options), [expected], "{options}");
}

#[track_caller]
fn check_warning(options: &str, expected: &str) {
    assert!(entry(options).is_ok(), "{options}");
    assert_eq!(said(options), [expected], "{options}");
}

#[test]
fn shards_are_counted_as_replicas_are() {
    check("shards: 3", "/run/local/shards", &json!(3));
    check_problem("shards: 0", ".shards must be at least 1, is 0");
    check(
        "shards: 2, port: [5, 6, 7, 8], replicas: 2",
        "/run/local/ports",
        &json!([5, 6, 7, 8]),
    );
    check_problem(
        "shards: 2, port: [5, 6, 7]",
        ".port has 3 ports for 1 replicas of each of 2 shards; one each is enough",
    );
}

#[test]
fn polling_is_one_word_or_one_for_each_endpoint() {
    let polling =
        |default: &str, endpoints: Value| json!({"default": default, "by_endpoint": endpoints});
    let check = |written: &str, expected: &Value| {
        check(
            &format!("shards: 2, polling: {written}"),
            "/calls/polling",
            expected,
        );
    };
    check("ANY", &polling("ANY", json!({})));
    check("all", &polling("ALL", json!({})));
    let by_endpoint = polling("ALL", json!({"/index": "ANY", "/search": "ALL"}));
    check("{/index: any, /search: ALL, '*': ALL}", &by_endpoint);
    check(
        r#"'{"/index": "ANY", "/search": "ALL", "*": "ALL"}'"#,
        &by_endpoint,
    );

    check_problem(
        "shards: 2, polling: all_async",
        ".polling must be `ANY` or `ALL`, is `all_async`",
    );
    check_problem(
        "shards: 2, polling: {/a: AL}",
        ".polling./a must be `ANY` or `ALL`, is `AL`; did you mean `ALL`?",
    );
    check_problem(
        "shards: 2, polling: {index: ANY}",
        ".polling.index `index` is not an endpoint: it must start with `/`; did you mean `/index`?",
    );
    check_problem(
        "shards: 2, polling: '{\"/a\": '",
        ".polling is not valid JSON: while parsing a node, did not find expected node content",
    );
    check_problem(
        "shards: 2, polling: [ANY]",
        ".polling must be a text, is a list",
    );
    check_warning(
        "polling: ALL",
        ".polling `polling` has no effect: there is one shard only",
    );
}

#[test]
fn documents_stay_in_parts_where_reducing_is_off() {
    check("shards: 2, no_reduce: true", "/calls/reduce", &json!(false));
    check(
        "shards: 2, disable_reduce: true",
        "/calls/reduce",
        &json!(false),
    );
    check("no_reduce: false", "/calls/reduce", &json!(true));
    check_warning(
        "no_reduce: true",
        ".no_reduce `no_reduce` has no effect: there is one input and one shard only",
    );
}

#[test]
fn programs_around_shards_need_shards() {
    check(
        "shards: 2, uses_before: ./split, uses_after: {jtype: MyRanker}",
        "/run/local/before",
        &json!({"path": "./split"}),
    );
    check(
        "shards: 2, uses_after: {jtype: MyRanker}",
        "/run/local/after",
        &json!({"named": "my-ranker"}),
    );
    check_warning(
        "uses_after: ranker",
        ".uses_after `uses_after` has no effect: there is one shard only",
    );
    check_problem(
        "shards: 2, uses_before: {jtype: A, with: {b: 1}}",
        ".uses_before `uses_before` takes no config with options of its own; \
         name a program, or a folder with a `config.yml`",
    );
    check_problem(
        "shards: 2, uses_before: jinahub://x",
        ".uses_before is a name in a hub, and no hub is set; write `hub: registry.example.com/team` under `with`, or set \
         FLOW_HUB",
    );
}

#[test]
fn conditions_are_queries() {
    let query = json!({"tags__k": {"$eq": 1}});
    check("when: {tags__k: {$eq: 1}}", "/calls/when", &query);
    check(r#"when: '{"tags__k": {"$eq": 1}}'"#, "/calls/when", &query);
    check("when: {}", "/calls/when", &json!(null));
    check_problem("when: [a]", ".when must be a mapping, is a list");
    check_problem(
        "when: {a: {$eq: .nan}}",
        ".when.a.$eq must be a finite number, is `.nan`",
    );
}

#[test]
fn an_invalid_condition_is_reported_with_its_position() {
    let problems = entry("when: {$or: [{text: {$eq: a}}, {tags__n: {$gtt: 1}}]}").unwrap_err();
    let problem = &problems[0];
    assert_eq!(problem.span.path, "executors.a.when.$or[1].tags__n.$gtt");
    assert_eq!(problem.span.position.line, 2);
    let column =
        "executors: [{name: a, uses: echo, when: {$or: [{text: {$eq: a}}, {tags__n: {$gtt: ".len();
    assert_eq!(problem.span.position.column, column + 1);
    assert!(
        problem.to_string().ends_with("did you mean `$gt`?"),
        "{problem}"
    );
}

#[test]
fn a_condition_that_is_never_true_is_a_warning() {
    let never = ".when no document can fulfil this, so none goes to `a`";
    for query in [
        "{text: {$in: []}}",
        "{$and: [{text: {$eq: a}}, {text: {$eq: b}}]}",
        "{$or: [{text: {$in: []}}, {uri: {$in: []}}]}",
        "{uri: {$exists: true}, text: {$in: []}}",
    ] {
        check_warning(&format!("when: {query}"), never);
    }
    for query in [
        "{$or: [{text: {$eq: a}}, {text: {$eq: b}}]}",
        "{$and: [{text: {$eq: a}}, {text: {$eq: a}}]}",
        "{$not: {text: {$in: []}}}",
    ] {
        assert_eq!(said(&format!("when: {query}")), [""; 0], "{query}");
    }
}

#[test]
fn workers_are_threads_or_as_many_as_there_are_cores() {
    check("workers: 4", "/run/local/workers", &json!({"number": 4}));
    check("workers: auto", "/run/local/workers", &json!("auto"));
    check(
        "allow_concurrent: true",
        "/run/local/workers",
        &json!("auto"),
    );
    check(
        "allow_concurrent: true, workers: 2",
        "/run/local/workers",
        &json!({"number": 2}),
    );
    check(
        "allow_concurrent: false",
        "/run/local/workers",
        &json!({"number": 1}),
    );
    check_problem("workers: 0", ".workers must be at least 1, is 0");
    check_problem(
        "workers: many",
        ".workers must be a whole number from 1 to 65535, is the text `many`",
    );
}

#[test]
fn exit_on_exceptions_is_one_name_or_several() {
    let pointer = "/run/local/exit_on_exceptions";
    check("exit_on_exceptions: panic", pointer, &json!(["panic"]));
    check(
        "exit_on_exceptions: [panic, OSError]",
        pointer,
        &json!(["panic", "OSError"]),
    );
    check_problem(
        "exit_on_exceptions: [1]",
        ".exit_on_exceptions[0] must be a text, is `1`",
    );
}

#[test]
fn batching_has_rules_by_endpoint_or_method() {
    check(
        "uses_dynamic_batching: {/a: {preferred_batch_size: 4, timeout: 10, use_custom_metric: true}, f: {flush_all: false}}",
        "/run/local/batching",
        &json!({
            "/a": {"preferred_batch_size": 4, "timeout": 10, "use_custom_metric": true},
            "f": {"flush_all": false},
        }),
    );
    check(
        r#"uses_dynamic_batching: '{"/a": {"metric": "BYTES"}}'"#,
        "/run/local/batching",
        &json!({"/a": {"metric": "bytes"}}),
    );
    let problem = |rule: &str, expected: &str| {
        check_problem(
            &format!("uses_dynamic_batching: {{f: {{{rule}}}}}"),
            &format!(".uses_dynamic_batching.f{expected}"),
        );
    };
    problem(
        "preferred_batch_size: 0",
        ".preferred_batch_size must be a whole number, at least 1, is `0`",
    );
    problem(
        "timeout: -1",
        ".timeout must end at some time, is `-1`; documents of a batch that never fills would wait forever",
    );
    problem(
        "prefered_batch_size: 1",
        ".prefered_batch_size `prefered_batch_size` is not an option of dynamic batching; did you mean `preferred_batch_size`?",
    );
    problem(
        "metric: tokens",
        ".metric must be `documents`, `bytes` or `custom`, is `tokens`",
    );
    problem(
        "custom_metric: f",
        ".custom_metric `custom_metric` is not supported: it names a function of Python; `metric: custom` asks the executor",
    );
    problem(
        "metric: bytes, use_custom_metric: true",
        ".use_custom_metric `use_custom_metric` and `metric` say different things; keep one of them",
    );
    check_problem(
        "uses_dynamic_batching: {f: 5}",
        ".uses_dynamic_batching.f must be a mapping, is `5`",
    );
}

#[test]
fn a_config_may_be_inline() {
    let local = |uses: &str| {
        let text =
            format!("jtype: Flow\nexecutors: [{{name: a, uses_with: {{b: 9}}, uses: {uses}}}]");
        let checked = Flow::check(FlowSpec::parse(&text, &Variables::default()).unwrap());
        let plan = Plan::from(
            checked
                .unwrap_or_else(|problems| panic!("{uses}\n{problems}"))
                .flow,
        );
        let node = serde_json::to_value(&plan.nodes[0].run).unwrap();
        (node["local"]["uses"].clone(), node["local"]["with"].clone())
    };
    let expected = (json!({"named": "my-encoder"}), json!({"a": 1, "b": 9}));
    for uses in [
        "{jtype: MyEncoder, with: {a: 1, b: 2}, py_modules: []}",
        "!MyEncoder {with: {a: 1, b: 2}}",
        r#"'{"jtype": "MyEncoder", "with": {"a": 1, "b": 2}}'"#,
        r#""jtype: MyEncoder\nwith:\n  a: 1\n  b: 2""#,
        r#""!MyEncoder\nwith: {a: 1, b: 2}""#,
        "'!MyEncoder | {a: 1, b: 2}'",
        "'jtype: MyEncoder | {a: 1, b: 2}'",
    ] {
        assert_eq!(local(uses), expected, "{uses}");
    }
}

#[test]
fn an_inline_config_is_read_as_strictly_as_a_file() {
    let said = |uses: &str| {
        let text = format!("jtype: Flow\nexecutors: [{{name: a, uses: {uses}}}]");
        let checked = Flow::check(FlowSpec::parse(&text, &Variables::default()).unwrap());
        checked.unwrap_err().to_string().trim().to_owned()
    };
    assert_eq!(
        said("{jtype: A, wiht: {}}"),
        "2:40  executors.a.uses.wiht  `wiht` is not a key of an executor's config; did you mean `with`?"
    );
    assert_eq!(
        said("'{\"jtype\": \"A\", \"wiht\": {}}'"),
        "2:29  executors.a.uses.wiht  `wiht` is not a key of an executor's config; did you mean `with`?"
    );
    assert_eq!(
        said("{with: {a: 1}}"),
        "2:29  executors.a.uses  the config does not say which executor it is for; \
         write `jtype:` and its name at the top"
    );
    assert_eq!(
        said("'jtype: ['"),
        "2:29  executors.a.uses  is an executor's config that is not valid YAML: \
         while parsing a node, did not find expected node content"
    );
}

#[test]
fn mappings_may_be_json() {
    check(
        r#"uses_with: '{"a": 1}'"#,
        "/run/local/with",
        &json!({"a": 1}),
    );
    check_problem(
        "uses_with: 'a: 1'",
        ".uses_with must be a mapping, is something else, which is not shown because it may be a secret",
    );
}
