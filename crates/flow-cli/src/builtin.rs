//! The executors that this program holds. A new one is a line in [`BUILTIN`].

use std::process::ExitCode;

use flow_core::closest;
use flow_executor::{BadOption, ExecutorArgs, check_options, run_with};
use flow_spec::NotFound;
use serde_json::{Map, Value};

/// An executor that `flow executor --uses NAME` starts.
pub(crate) struct Builtin {
    /// What stands after `--uses`, and under `uses:` in a flow file.
    pub(crate) name: &'static str,
    /// What it does, in a line.
    pub(crate) about: &'static str,
    /// What the environment must say before the process begins: libraries read it once, at their first
    /// use. A value that the user has set stands.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Finds what is wrong with its options (`uses_with`), without loading anything.
    pub(crate) check_options: fn(&Map<String, Value>) -> Vec<BadOption>,
    /// Serves it until a signal ends the process.
    pub(crate) run: fn(ExecutorArgs) -> ExitCode,
}

/// All of them, by name.
pub(crate) const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "echo",
        about: "gives every document back as it came",
        variables: &[],
        check_options: check_options::<echo::Echo>,
        run: run_with::<echo::Echo>,
    },
    Builtin {
        name: "segmenter",
        about: "cuts texts into chunks: sentences, or windows of words",
        variables: &[],
        check_options: check_options::<segmenter::Segmenter>,
        run: run_with::<segmenter::Segmenter>,
    },
    Builtin {
        name: "sentence-encoder",
        about: "turns texts into vectors with a sentence-transformers model",
        // One text's matrices are small: candle's threads would wait for each other more than they
        // compute. With one, the encoder runs a lane of its own on each core, 1.5 times as fast.
        variables: &[("RAYON_NUM_THREADS", "1")],
        check_options: check_options::<sentence_encoder::SentenceEncoder>,
        run: run_with::<sentence_encoder::SentenceEncoder>,
    },
    Builtin {
        name: "vector-index",
        about: "finds the documents whose vectors are nearest; keeps them through crashes",
        variables: &[],
        check_options: check_options::<vector_index::VectorIndex>,
        run: run_with::<vector_index::VectorIndex>,
    },
];

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
