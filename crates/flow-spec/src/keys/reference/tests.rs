//! The page describes every key, and its examples are read by the parser.

use super::super::mappings::MAPPINGS;
use super::*;
use crate::{FlowSpec, Variables};

#[test]
fn every_key_of_every_mapping_is_on_the_page() {
    let page = key_reference();
    for key in MAPPINGS.iter().flat_map(|(_, mapping)| mapping.keys()) {
        let heading = [format!(".{}`\n", key.name), format!("### `{}`\n", key.name)];
        let row = |name: &str| page.contains(&format!("\n| `{name}` | "));
        let is_there = match key.state {
            KeySupport::Supported(..) => heading.iter().any(|it| page.contains(it.as_str())),
            _ => row(key.name),
        };
        assert!(is_there, "{}", key.name);
        assert!(key.names().skip(1).all(row), "{}", key.name);
    }
}

#[test]
fn every_supported_key_has_a_default_and_an_example() {
    for part in PARTS {
        for key in part.keys().filter(|key| key.is_supported()) {
            assert!(
                !key.default.is_empty() && !key.example.is_empty(),
                "{}.{}",
                part.path,
                key.name
            );
        }
    }
}

/// A file that contains the example of a key of this part.
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
        "executors[].sandbox" => {
            format!("jtype: Flow\nexecutors: [{{sandbox: {{{entry}}}}}]")
        }
        // A file of its own.
        _ => return None,
    })
}

#[test]
fn every_example_is_read_without_a_problem() {
    let mut count = 0;
    for part in PARTS {
        for key in part.keys().filter(|key| key.is_supported()) {
            let Some(text) = file(part, key) else {
                continue;
            };
            let spec = FlowSpec::parse(&text, &Variables::default()).unwrap();
            assert!(
                spec.diagnostics.problems.is_empty() && spec.diagnostics.unknown_keys.is_empty(),
                "{text}\n{:?}",
                spec.diagnostics
            );
            count += 1;
        }
    }
    assert!(count > 70, "{count}");
}
