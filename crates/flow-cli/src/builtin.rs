//! The executors that this program holds. A new one is a line in [`BUILTIN`].

use std::process::ExitCode;

use flow_core::closest;
use flow_executor::{BadOption, ExecutorArgs, check_options, run_with};
use flow_launch::render::Needs;
use flow_models::source::SourceEnvironment;
use flow_spec::NotFound;
use serde_json::{Map, Value};

use crate::shell::Shell;

/// Memory of an executor that keeps nothing: 16 MB when it has nothing to do, and what the documents of a call take.
const LITTLE: u64 = 64 << 20;

/// An executor that `flow executor --uses NAME` starts.
pub(crate) struct Builtin {
    /// What stands after `--uses`, and under `uses:` in a flow file.
    pub(crate) name: &'static str,
    /// What it does, in a line.
    pub(crate) about: &'static str,
    /// What a process of it needs that is built with these options (`uses_with`).
    pub(crate) needs: fn(&Map<String, Value>, &Shell) -> Needs,
    /// Finds what is wrong with its options (`uses_with`), without loading anything.
    pub(crate) check_options: fn(&Map<String, Value>) -> Vec<BadOption>,
    /// Serves it until a signal ends the process.
    pub(crate) run: fn(ExecutorArgs) -> ExitCode,
}

/// All of them, by name.
pub(crate) const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "echo",
        about: "returns every document unchanged",
        needs: |_, _| little(),
        check_options: check_options::<echo::Echo>,
        run: run_with::<echo::Echo>,
    },
    Builtin {
        name: "segmenter",
        about: "splits texts into chunks: sentences, or windows of words",
        needs: |_, _| little(),
        check_options: check_options::<segmenter::Segmenter>,
        run: run_with::<segmenter::Segmenter>,
    },
    Builtin {
        name: "sentence-encoder",
        about: "encodes texts as vectors with a sentence-transformers model",
        needs: encoder,
        check_options: check_options::<sentence_encoder::SentenceEncoder>,
        run: run_with::<sentence_encoder::SentenceEncoder>,
    },
    Builtin {
        name: "vector-index",
        about: "stores documents on disk and finds those with the nearest vectors",
        // It grows with what is indexed, which is not known here.
        needs: |_, _| Needs::default(),
        check_options: check_options::<vector_index::VectorIndex>,
        run: run_with::<vector_index::VectorIndex>,
    },
];

fn little() -> Needs {
    Needs {
        memory: Some(LITTLE),
        downloads_models: false,
    }
}

/// Options that make no sense are reported where the flow file is checked.
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

/// The executor of this name.
pub(crate) fn find(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|builtin| builtin.name == name)
}

/// What to say of a name that is no executor. `others` are names that would be, besides those built in.
pub(crate) fn not_found(name: &str, others: &[String]) -> NotFound {
    let built_in = BUILTIN.iter().map(|it| it.name);
    let known = built_in.clone().chain(others.iter().map(String::as_str));
    let remedy = match closest(name, known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let names: Vec<String> = built_in.map(|it| format!("`{it}`")).collect();
            let names = names.join(", ");
            format!("built in are {names}; write the path of your own, such as `./{name}`")
        }
    };
    NotFound {
        message: format!("there is no executor `{name}`"),
        remedy: Some(remedy),
    }
}

/// What `flow executor --help` says about them.
pub(crate) fn listing() -> String {
    let lines = BUILTIN
        .iter()
        .map(|it| format!("\n  {:18}{}", it.name, it.about));
    format!("BUILT-IN EXECUTORS:{}", lines.collect::<String>())
}
