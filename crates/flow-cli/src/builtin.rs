//! The executors that this program holds. A new one is a line in [`BUILTIN`].

use std::process::ExitCode;

use flow_executor::{ExecutorArgs, run_with};

/// An executor that `flow executor --uses NAME` starts.
pub(crate) struct Builtin {
    /// What stands after `--uses`, and under `uses:` in a flow file.
    pub(crate) name: &'static str,
    /// What it does, in a line.
    pub(crate) about: &'static str,
    /// What the environment must say before the process begins: libraries read it once, at their first
    /// use. A value that the user has set stands.
    pub(crate) variables: &'static [(&'static str, &'static str)],
    /// Serves it until a signal ends the process.
    pub(crate) run: fn(ExecutorArgs) -> ExitCode,
}

/// All of them, by name.
pub(crate) const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "echo",
        about: "returns every document unchanged",
        variables: &[],
        run: run_with::<echo::Echo>,
    },
    Builtin {
        name: "segmenter",
        about: "splits texts into chunks: sentences, or windows of words",
        variables: &[],
        run: run_with::<segmenter::Segmenter>,
    },
    Builtin {
        name: "sentence-encoder",
        about: "encodes texts as vectors with a sentence-transformers model",
        // One text's matrices are small: candle's threads would wait for each other more than they
        // compute. With one, the encoder runs a lane of its own on each core, 1.5 times as fast.
        variables: &[("RAYON_NUM_THREADS", "1")],
        run: run_with::<sentence_encoder::SentenceEncoder>,
    },
    Builtin {
        name: "vector-index",
        about: "stores documents on disk and finds those with the nearest vectors",
        variables: &[],
        run: run_with::<vector_index::VectorIndex>,
    },
];

/// The executor of this name.
pub(crate) fn find(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|builtin| builtin.name == name)
}

/// What `flow executor --help` says about them.
pub(crate) fn listing() -> String {
    let lines = BUILTIN
        .iter()
        .map(|it| format!("\n  {:18}{}", it.name, it.about));
    format!("BUILT-IN EXECUTORS:{}", lines.collect::<String>())
}
