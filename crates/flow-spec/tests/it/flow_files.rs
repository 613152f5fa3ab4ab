//! Whole files, through the public interface only.

use std::path::Path;

use flow_spec::{
    Address, LoadError, NodeAddresses, Placement, Plan, Secret, TextFile, Variables, load,
    metadata_reference,
};

fn load_text(text: &str) -> Result<flow_spec::Checked, LoadError> {
    load(
        TextFile {
            path: Path::new("flows/search.yml"),
            text,
        },
        &Variables::default(),
    )
}

#[test]
fn every_file_in_flows_checks_without_a_warning() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../flows");
    let mut files = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "yml") {
            // The workspace of a flow that was run here.
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let file = TextFile {
            path: &path,
            text: &text,
        };
        let checked = load(file, &Variables::default()).unwrap_or_else(|error| panic!("{error}"));
        assert!(
            checked.warnings.is_empty(),
            "{}\n{}",
            path.display(),
            checked.warnings
        );
        files += 1;
    }
    assert!(files >= 3, "{files} files");
}

#[test]
fn all_problems_of_a_file_are_shown_at_once_in_its_order() {
    let text = "jtype: Flow
with:
  prot: 54321
executors:
  - name: encoder
    uses: sentence-encoder
    replicas: 0
  - name: ranker
    uses: ./ranker
    needs: [gateway, encodr]
    tls: true
";
    let expected = "\
`flows/search.yml` has 4 problems
  3:3    with.prot                   `prot` is not an option of a flow; did you mean `port`?
  7:15   executors.encoder.replicas  must be at least 1, is 0
  10:22  executors.ranker.needs[1]   no executor is named `encodr`; did you mean `encoder`?
  11:10  executors.ranker.tls        TLS is for external executors: the flow calls those that it starts on this machine; leave it out, or write `external: true`";
    assert_eq!(load_text(text).unwrap_err().to_string(), expected);
}

#[test]
fn a_file_that_is_not_yaml_is_reported_with_its_position() {
    let error = load_text("jtype: Flow\nwith: {port: 1").unwrap_err();
    assert_eq!(error.to_string(), "`flows/search.yml` is not valid YAML");
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(
        cause,
        "line 3, column 1: while parsing a flow mapping, did not find expected ',' or '}'"
    );
}

#[test]
fn a_placement_travels_as_json_and_comes_back_the_same() {
    let text = "jtype: Flow
with: {name: search, port: 54321, workspace: w, timeout_send: 1500}
executors:
  - {name: a, uses: echo, uses_with: {x: 1.5}, uses_requests: {/a: b}, replicas: 2, env: {A: b}}
  - {name: b, external: true, host: 'h:1,k:2', grpc_metadata: {token: t}, retries: 2}
  - {name: c, uses: ./c, needs: [b, a], timeout_ready: -1, quiet: true}
";
    let plan = Plan::from(load_text(text).unwrap().flow);
    let local = |_| NodeAddresses::replicas(vec![Address::new("127.0.0.1", 5)]);
    let placement = Placement::new(plan, local);
    let json = serde_json::to_string(&placement).unwrap();
    assert_eq!(serde_json::from_str::<Placement>(&json).unwrap(), placement);

    let node = |name| placement.plan.find(name).unwrap();
    assert_eq!(
        placement.addresses(node("a")).shards,
        [[Address::new("127.0.0.1", 5)]]
    );
    assert_eq!(
        placement.addresses(node("b")).shards,
        [[Address::new("h", 1), Address::new("k", 2)]]
    );
}

fn placement_with_secrets(metadata: &str) -> Placement {
    let text = format!(
        "jtype: Flow
executors:
  - {{name: a, uses: echo, uses_with: {{x: hunter2}}, env: {{A: hunter2}}}}
  - {{name: b, external: true, host: 'h:1', grpc_metadata: {{authorization: '{metadata}', n: 1}}}}
"
    );
    let plan = Plan::from(load_text(&text).unwrap().flow);
    Placement::new(plan, |_| NodeAddresses::default())
}

#[test]
fn the_gateway_gets_no_options_and_variables_of_executors() {
    let placement = placement_with_secrets("none");
    assert!(!format!("{placement:?}").contains("hunter2"));
    assert!(
        serde_json::to_string(&placement)
            .unwrap()
            .contains("hunter2")
    );
    let json = serde_json::to_string(&placement.for_gateway()).unwrap();
    assert!(!json.contains("hunter2"), "{json}");
    assert!(json.contains(r#""with":{"x":null}"#), "{json}");
}

#[test]
fn a_variable_may_stand_for_a_value_of_metadata() {
    let mut placement = placement_with_secrets("none");
    let node = &mut placement.plan.nodes[1];
    let reference = metadata_reference("B_AUTHORIZATION");
    let entries = [("authorization", reference.as_str()), ("n", "1")];
    let entries = entries.map(|(key, value)| (key.to_owned(), value.to_owned()));
    node.calls.metadata = Secret::new(entries.to_vec());
    let error = placement.clone().resolve_metadata(|_| None).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the variable `B_AUTHORIZATION`, with the metadata `authorization` for calls of `b`, is not set: set it in the \
         environment of the gateway"
    );
    let variable = |name: &str| (name == "B_AUTHORIZATION").then(|| "Bearer x".to_owned());
    placement.resolve_metadata(variable).unwrap();
    assert_eq!(placement, placement_with_secrets("Bearer x"));
}

#[test]
fn children_mirror_parents() {
    let text = std::fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../flows/two-branches.yml"),
    );
    let plan = Plan::from(load_text(&text.unwrap()).unwrap().flow);
    let named = |source| -> Vec<&str> {
        plan.children_of(source)
            .iter()
            .map(|at| plan.node(*at).name.as_str())
            .collect()
    };
    let node = |name| flow_spec::DocumentSource::Node(plan.find(name).unwrap());
    assert_eq!(named(flow_spec::DocumentSource::Gateway), ["left", "right"]);
    assert_eq!(named(node("left")), ["joined"]);
    assert_eq!(named(node("joined")), [""; 0]);
    assert_eq!(plan.exit, [node("joined")]);
}

/// Whatever is typed by mistake, the answer is a flow or an error.
#[test]
fn no_misspelt_file_makes_the_parser_panic() {
    let text = "!Flow\nwith: {port: 5, env: {A: $B}}\nexecutors:\n- name: a\n  uses: echo\n  \
                needs: [gateway, b]\n- {external: true, host: 'grpc://[::1]:5', name: b}\n";
    let parts = [
        "", ":", "- ", "[", "}", "*a", "&a ", "!x ", "${{", "'", "\n", "\t", "\0", "é", "-1",
        "<<: ",
    ];
    let mut answers = [0, 0];
    for at in 0..text.len() {
        for part in parts {
            let slip = [&text[..at], part, &text[at + 1..]].concat();
            answers[usize::from(load_text(&slip).is_ok())] += 1;
        }
    }
    assert!(answers.iter().all(|answers| *answers > 0), "{answers:?}");
}
