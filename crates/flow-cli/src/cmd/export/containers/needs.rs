//! The memory and the downloads of built-in executors, as far as they are known before a start.

use flow_launch::render::Needs;
use flow_models::source::{ModelName, SourceEnvironment};
use flow_spec::{Plan, Run, Uses};
use indexmap::IndexMap;
use reranker::RerankerConfig;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use sparse_encoder::SparseEncoderConfig;
use text_classifier::TextClassifierConfig;

use crate::shell::Shell;

/// Memory of an executor that stores nothing: 16 MB when idle, and the documents of a call.
const SMALL_MEMORY: u64 = 64 << 20;

/// The needs of the built-in executors in a plan, by the names that `--image` accepts.
pub(super) fn needs(plan: &Plan, shell: &Shell) -> IndexMap<String, Needs> {
    let mut needs = IndexMap::new();
    let no_options = Map::new();
    for node in &plan.nodes {
        let Run::Local(run) = &node.run else { continue };
        let name = &node.name;
        let before = run.before.as_ref();
        let before = before.map(|uses| (format!("{name}-uses-before"), uses, &no_options));
        let after = run.after.as_ref();
        let after = after.map(|uses| (format!("{name}-uses-after"), uses, &no_options));
        let own = (name.to_string(), &run.uses, run.with.reveal());
        for (key, uses, with) in [Some(own), before, after].into_iter().flatten() {
            if let Uses::Named(uses) = uses
                && let Some(found) = needs_of(uses, with, shell)
            {
                needs.insert(key, found);
            }
        }
    }
    needs
}

/// The needs of a built-in executor with these options.
fn needs_of(name: &str, with: &Map<String, Value>, shell: &Shell) -> Option<Needs> {
    match name {
        "echo" | "pgvector-index" | "segmenter" => Some(Needs {
            memory: Some(SMALL_MEMORY),
            downloads_models: false,
        }),
        "reranker" => Some(of_model(with, |with: RerankerConfig| {
            (with.model, with.revision)
        })),
        "sparse-encoder" => Some(of_model(with, |with: SparseEncoderConfig| {
            (with.model, with.revision)
        })),
        "text-classifier" => Some(of_model(with, |with: TextClassifierConfig| {
            (with.model, with.revision)
        })),
        "sentence-encoder" => Some(encoder(with, shell)),
        // It grows with the documents that it stores, whose number is not known here.
        "vector-index" => Some(Needs::default()),
        _ => None,
    }
}

/// The needs of an executor with a model, whose size is not known here. `model` is its name and revision.
fn of_model<C: DeserializeOwned>(
    with: &Map<String, Value>,
    model: impl FnOnce(C) -> (String, Option<String>),
) -> Needs {
    let with: Result<C, _> = serde_json::from_value(Value::Object(with.clone()));
    let name = with.map(|with| {
        let (model, revision) = model(with);
        ModelName::parse(&model, revision.as_deref())
    });
    Needs {
        memory: None,
        downloads_models: matches!(name, Ok(Ok(ModelName::Hub(_)))),
    }
}

/// Invalid options are reported where the flow file is checked.
fn encoder(with: &Map<String, Value>, shell: &Shell) -> Needs {
    let Ok(with) = serde_json::from_value(Value::Object(with.clone())) else {
        return Needs::default();
    };
    let environment = SourceEnvironment::from_variables(|name| shell.variable(name));
    let needs = sentence_encoder::estimate_resources(&with, &environment);
    Needs {
        memory: needs.memory,
        downloads_models: needs.downloads_model,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::BUILTIN;

    #[test]
    fn the_needs_of_every_built_in_executor_are_defined() {
        let shell = Shell::of([].into());
        for builtin in BUILTIN {
            assert!(
                needs_of(builtin.name, &Map::new(), &shell).is_some(),
                "{}",
                builtin.name
            );
        }
    }
}
