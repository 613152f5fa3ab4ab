//! Warnings about whole flows, and inspections.

use crate::diagnostics::Problems;
use crate::{Checked, DocumentSource, Flow, FlowSpec, Plan, Variables};

fn flow(with: &str, entries: &[&str]) -> Result<Checked, Problems> {
    let entries: Vec<_> = entries.iter().map(|it| format!("- {{{it}}}\n")).collect();
    let text = format!(
        "jtype: Flow\nwith: {{{with}}}\nexecutors:\n{}",
        entries.concat()
    );
    Flow::check(FlowSpec::parse(&text, &Variables::default()).unwrap())
}

fn warnings(entries: &[&str]) -> Vec<String> {
    let checked = flow("", entries).unwrap_or_else(|problems| panic!("{problems}"));
    checked.warnings.iter().map(ToString::to_string).collect()
}

fn problems(with: &str, entries: &[&str]) -> Vec<String> {
    let problems = flow(with, entries).unwrap_err();
    problems.iter().map(ToString::to_string).collect()
}

/// `a(gateway) b(a) → b, a`, with `?` after a node whose result is unused.
fn drawn(with: &str, entries: &[&str]) -> String {
    let checked = flow(with, entries).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(checked.warnings.is_empty(), "{}", checked.warnings);
    let plan = Plan::from(checked.flow);
    let name = |source: &DocumentSource| match source {
        DocumentSource::Gateway => "gateway",
        DocumentSource::Node(at) => plan.node(*at).name.as_str(),
    };
    let list = |sources: &[DocumentSource]| sources.iter().map(name).collect::<Vec<_>>().join(", ");
    let node = |node: &crate::NodePlan| {
        let mark = if node.awaited { "" } else { "?" };
        format!("{}{mark}({}) ", node.name, list(&node.parents))
    };
    plan.nodes.iter().map(node).collect::<String>() + "→ " + &list(&plan.exit)
}

#[test]
fn branches_that_run_the_same_executor_are_a_warning() {
    let join = "name: j, uses: echo, needs: [a, b]";
    let expected = "`a` and `b` run the same: where both set a field, what `a` set counts; \
                    the branch that `needs` names first wins";
    assert_eq!(
        warnings(&[
            "name: a, uses: enc",
            "name: b, uses: enc, needs: gateway",
            join
        ]),
        [expected]
    );
    let turned = "name: j, uses: echo, needs: [b, a]";
    assert_eq!(
        warnings(&[
            "name: a, uses: enc",
            "name: b, uses: enc, needs: gateway",
            turned
        ])
        .len(),
        1
    );
}

#[test]
fn branches_that_cannot_meet_in_a_field_are_fine() {
    let check = |a: &str, b: &str, join: &str| {
        let a = format!("name: a, {a}");
        let b = format!("name: b, needs: gateway, {b}");
        let join = format!("name: j, uses: echo, needs: [a, b], {join}");
        assert_eq!(warnings(&[&a, &b, &join]), [""; 0], "{a} {b} {join}");
    };
    check("uses: enc", "uses: other", "");
    check("uses: echo", "uses: echo", "");
    check("uses: enc", "uses: enc", "no_reduce: true");
    check("uses: enc", "uses: enc, when: {text: {$exists: true}}", "");
    check(
        "uses: enc, uses_with: {access_paths: '@r'}",
        "uses: enc, uses_with: {access_paths: '@c'}",
        "",
    );
}

#[test]
fn fields_that_both_branches_share_do_not_conflict() {
    let entries = [
        "name: s, uses: enc",
        "name: a, uses: x, needs: s",
        "name: b, uses: y, needs: s",
        "name: j, uses: echo, needs: [a, b]",
    ];
    assert_eq!(warnings(&entries), [""; 0]);
}

#[test]
fn a_condition_anywhere_on_a_branch_parts_the_documents() {
    let entries = [
        "name: f, uses: echo, needs: gateway, when: {text: {$exists: true}}",
        "name: a, uses: enc, needs: f",
        "name: b, uses: enc, needs: gateway",
        "name: j, uses: echo, needs: [a, b]",
    ];
    assert_eq!(warnings(&entries), [""; 0]);
}

#[test]
fn shard_options_of_an_external_executor_are_a_warning() {
    let entry =
        "name: a, external: true, port: 1, shards: 2, polling: ALL, workers: 2, uses_after: x";
    let decides = "has no effect: it is set where the external executor is started";
    assert_eq!(
        warnings(&[entry]),
        ["shards", "polling", "workers", "uses_after"].map(|key| format!("`{key}` {decides}"))
    );
}

const INSPECTED: &[&str] = &[
    "name: a, uses: echo",
    "name: look, uses: x, method: inspect",
    "name: b, uses: echo",
    "name: see, uses: y, method: inspect",
];

#[test]
fn inspections_run_beside_the_flow_and_are_collected() {
    assert_eq!(
        drawn("", INSPECTED),
        "a(gateway) look(a) b(a) see(b) → b, look, see"
    );
    assert_eq!(drawn("inspect: COLLECT", INSPECTED), drawn("", INSPECTED));
    assert_eq!(
        drawn("", &["name: look, uses: x, method: inspect"]),
        "look(gateway) → gateway, look"
    );
}

#[test]
fn inspections_may_float_or_be_left_out() {
    assert_eq!(
        drawn("inspect: HANG", INSPECTED),
        "a(gateway) look?(a) b(a) see?(b) → b"
    );
    assert_eq!(drawn("inspect: remove", INSPECTED), "a(gateway) b(a) → b");
    let needing = [INSPECTED, &["name: c, uses: echo, needs: [b, see]"]].concat();
    assert_eq!(
        problems("inspect: REMOVE", &needing),
        ["`see` is left out, as `inspect: REMOVE` asks; do not need it"]
    );
    assert_eq!(
        problems("inspect: COLECT", INSPECTED),
        ["must be `COLLECT`, `HANG` or `REMOVE`, is `COLECT`; did you mean `COLLECT`?"]
    );
}

#[test]
fn inspections_are_gathered_once() {
    let gathered = [
        INSPECTED,
        &["method: gather_inspect", "name: c, uses: echo"],
    ]
    .concat();
    assert_eq!(
        drawn("", &gathered),
        "a(gateway) look(a) b(a) see(b) gather_inspect(b, look, see) c(gather_inspect) → c"
    );
    assert_eq!(
        drawn("inspect: REMOVE", &gathered),
        "a(gateway) b(a) c(b) → c"
    );
    assert_eq!(
        warnings(&["name: a, uses: echo", "method: gather_inspect"]),
        ["there is no `method: inspect` before it to gather"]
    );
    assert_eq!(
        problems(
            "",
            &[INSPECTED, &["method: gather_inspect, needs: a"]].concat()
        ),
        ["`method: gather_inspect` finds by itself what it needs; leave one out"]
    );
}

#[test]
fn needs_all_does_not_join_inspections() {
    assert_eq!(
        drawn(
            "inspect: HANG",
            &[INSPECTED, &["method: needs_all"]].concat()
        ),
        "a(gateway) look?(a) b(a) see?(b) joiner(b) → joiner"
    );
}

#[test]
fn entries_without_a_name_are_named_by_their_method() {
    let entries = [
        "uses: x, method: inspect",
        "uses: y, method: inspect",
        "method: needs_all",
    ];
    assert_eq!(
        drawn("", &entries),
        "inspect(gateway) executor1(gateway) joiner(gateway) → joiner, inspect, executor1"
    );
}

#[test]
fn a_flow_may_follow_its_file() {
    let reload = |with| Plan::from(flow(with, &["uses: echo"]).unwrap().flow).reload;
    assert!(reload("reload: true"));
    assert!(!reload(""));
    assert!(!reload("reload: false"));
}
