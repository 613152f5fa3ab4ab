//! The page describes every key, and its examples are read by the parser.

use super::*;
use crate::keys;
use crate::{FlowSpec, Variables};

#[test]
fn every_key_of_every_mapping_is_on_the_page() {
    let page = key_reference();
    let mappings = [
        &keys::TOP,
        &keys::WITH,
        &keys::GATEWAY_SECTION,
        &keys::GATEWAY_CONFIG,
        &keys::ENTRY,
        &keys::DEPLOYMENT,
        &keys::DEPLOYMENT_WITH,
        &keys::EXECUTOR_CONFIG,
        &keys::BATCHING,
    ];
    for key in mappings.iter().flat_map(|keys| keys.all()) {
        let heading = [format!(".{}`\n", key.name), format!("### `{}`\n", key.name)];
        let row = format!("\n| `{}` | ", key.name);
        let is_there = match key.state {
            State::Supported(..) => heading.iter().any(|it| page.contains(it.as_str())),
            _ => page.contains(&row),
        };
        assert!(is_there, "{}", key.name);
    }
}

#[test]
fn every_supported_key_has_a_default_and_an_example() {
    for part in PARTS {
        for key in keys(part).filter(|key| matches!(key.state, State::Supported(..))) {
            assert!(
                !key.default.is_empty() && !key.example.is_empty(),
                "{}.{}",
                part.path,
                key.name
            );
        }
    }
}

/// A file in which the example of a key of this part stands.
fn file(part: &Part, key: &Key) -> Option<String> {
    let Key { name, example, .. } = key;
    let entry = format!("{name}: {example}");
    Some(match part.path {
        "" if *name == "jtype" => entry,
        "" => format!("jtype: Flow\n{entry}"),
        "with" | "gateway" => format!("jtype: Flow\n{}: {{{entry}}}", part.path),
        "executors[]" => format!("jtype: Flow\nexecutors: [{{{entry}}}]"),
        "config" if *name == "jtype" => format!("jtype: Flow\nexecutors: [{{uses: {{{entry}}}}}]"),
        "config" => format!("jtype: Flow\nexecutors: [{{uses: {{jtype: Echo, {entry}}}}}]"),
        "deployment" if *name == "jtype" => format!("jtype: Flow\nexecutors: [{{{entry}}}]"),
        "deployment" => format!("jtype: Flow\nexecutors: [{{jtype: Deployment, {entry}}}]"),
        "uses_dynamic_batching./endpoint" => {
            format!("jtype: Flow\nexecutors: [{{uses_dynamic_batching: {{/a: {{{entry}}}}}}}]")
        }
        // A file of its own.
        _ => return None,
    })
}

#[test]
fn every_example_is_read_without_a_problem() {
    let mut count = 0;
    for part in PARTS {
        for key in keys(part).filter(|key| matches!(key.state, State::Supported(..))) {
            let Some(text) = file(part, key) else {
                continue;
            };
            let spec = FlowSpec::parse(&text, &Variables::default()).unwrap();
            assert!(
                spec.findings.problems.is_empty(),
                "{text}\n{:?}",
                spec.findings
            );
            count += 1;
        }
    }
    assert!(count > 70, "{count}");
}
