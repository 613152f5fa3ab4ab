//! The built-in executors. A new one is a row of [`BUILTIN`].

use std::collections::BTreeMap;
use std::process::ExitCode;

use flow_core::closest;
use flow_executor::{
    BadOption, ColocateError, ColocatedExecutor, Executor, ExecutorArgs, check_options, endpoints,
    run_colocated, run_with,
};
use flow_spec::NotFound;
use futures_util::future::LocalBoxFuture;
use serde_json::{Map, Value};

/// An executor that `flow executor --uses NAME` starts.
pub(crate) struct Builtin {
    /// Its name in `--uses`, and in `uses:` in a flow file.
    pub(crate) name: &'static str,
    /// What it does, in one line.
    pub(crate) about: &'static str,
    /// Checks its options (`uses_with`) without loading anything.
    pub(crate) check_options: fn(&Map<String, Value>) -> Vec<BadOption>,
    /// Its endpoints.
    pub(crate) endpoints: fn() -> Vec<String>,
    /// Variables that only it reads, of those which its user keeps secret.
    #[cfg_attr(
        not(feature = "launch"),
        allow(dead_code, reason = "only a launcher asks")
    )]
    pub(crate) variables: &'static [&'static str],
    /// Whether each of its processes keeps what requests change.
    pub(crate) keeps_state: bool,
    /// Whether its calls compute on all cores, as those of models do.
    #[cfg_attr(
        not(feature = "launch"),
        allow(dead_code, reason = "only a launcher asks")
    )]
    pub(crate) uses_all_cores: bool,
    /// Serves it until a signal stops the process.
    pub(crate) run: fn(ExecutorArgs) -> ExitCode,
    /// Loads it in this process, for the gateway.
    pub(crate) colocate: Colocate,
}

/// Loads an executor in this process.
type Colocate = fn(
    ExecutorArgs,
    BTreeMap<String, String>,
) -> LocalBoxFuture<'static, Result<ColocatedExecutor, ColocateError>>;

fn colocate<E: Executor>(
    args: ExecutorArgs,
    variables: BTreeMap<String, String>,
) -> LocalBoxFuture<'static, Result<ColocatedExecutor, ColocateError>> {
    Box::pin(run_colocated::<E>(args, variables))
}

/// Variables with the token for the hub of models.
const HUB_TOKENS: &[&str] = &["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"];

/// All built-in executors, by name.
pub(crate) const BUILTIN: &[Builtin] = &[
    Builtin {
        name: "echo",
        about: "returns every document unchanged",
        check_options: check_options::<echo::Echo>,
        endpoints: endpoints::<echo::Echo>,
        variables: &[],
        keeps_state: false,
        uses_all_cores: false,
        run: run_with::<echo::Echo>,
        colocate: colocate::<echo::Echo>,
    },
    #[cfg(feature = "pgvector")]
    Builtin {
        name: "pgvector-index",
        about: "stores documents in PostgreSQL and finds those with the nearest vectors",
        check_options: check_options::<pgvector_index::PgvectorIndex>,
        endpoints: endpoints::<pgvector_index::PgvectorIndex>,
        variables: &[
            pgvector_index::URL_VARIABLE,
            pgvector_index::PASSWORD_VARIABLE,
        ],
        keeps_state: false,
        uses_all_cores: false,
        run: run_with::<pgvector_index::PgvectorIndex>,
        colocate: colocate::<pgvector_index::PgvectorIndex>,
    },
    Builtin {
        name: "reranker",
        about: "orders matches by how well they answer their query, with a cross-encoder",
        check_options: check_options::<reranker::Reranker>,
        endpoints: endpoints::<reranker::Reranker>,
        variables: HUB_TOKENS,
        keeps_state: false,
        uses_all_cores: true,
        run: run_with::<reranker::Reranker>,
        colocate: colocate::<reranker::Reranker>,
    },
    Builtin {
        name: "segmenter",
        about: "splits texts into chunks: sentences, or windows of words",
        check_options: check_options::<segmenter::Segmenter>,
        endpoints: endpoints::<segmenter::Segmenter>,
        variables: &[],
        keeps_state: false,
        uses_all_cores: false,
        run: run_with::<segmenter::Segmenter>,
        colocate: colocate::<segmenter::Segmenter>,
    },
    Builtin {
        name: "sentence-encoder",
        about: "encodes texts as vectors with a sentence-transformers model",
        check_options: check_options::<sentence_encoder::SentenceEncoder>,
        endpoints: endpoints::<sentence_encoder::SentenceEncoder>,
        variables: HUB_TOKENS,
        keeps_state: false,
        uses_all_cores: true,
        run: run_with::<sentence_encoder::SentenceEncoder>,
        colocate: colocate::<sentence_encoder::SentenceEncoder>,
    },
    Builtin {
        name: "sparse-encoder",
        about: "gives texts a weight for each word that they are about",
        check_options: check_options::<sparse_encoder::SparseEncoderExecutor>,
        endpoints: endpoints::<sparse_encoder::SparseEncoderExecutor>,
        variables: HUB_TOKENS,
        keeps_state: false,
        uses_all_cores: true,
        run: run_with::<sparse_encoder::SparseEncoderExecutor>,
        colocate: colocate::<sparse_encoder::SparseEncoderExecutor>,
    },
    Builtin {
        name: "text-classifier",
        about: "gives texts a score for each label of a classifier",
        check_options: check_options::<text_classifier::TextClassifierExecutor>,
        endpoints: endpoints::<text_classifier::TextClassifierExecutor>,
        variables: HUB_TOKENS,
        keeps_state: false,
        uses_all_cores: true,
        run: run_with::<text_classifier::TextClassifierExecutor>,
        colocate: colocate::<text_classifier::TextClassifierExecutor>,
    },
    Builtin {
        name: "vector-index",
        about: "stores documents on disk and finds those with the nearest vectors",
        check_options: check_options::<vector_index::VectorIndex>,
        endpoints: endpoints::<vector_index::VectorIndex>,
        variables: &[],
        keeps_state: true,
        uses_all_cores: false,
        run: run_with::<vector_index::VectorIndex>,
        colocate: colocate::<vector_index::VectorIndex>,
    },
];

/// The built-in executor of this name.
pub(crate) fn find(name: &str) -> Option<&'static Builtin> {
    BUILTIN.iter().find(|builtin| builtin.name == name)
}

/// The error for a name that is no executor. `others` are further valid names.
pub(crate) fn not_found(name: &str, others: &[String]) -> NotFound {
    let built_in = BUILTIN.iter().map(|it| it.name);
    let known = built_in.clone().chain(others.iter().map(String::as_str));
    let remedy = match closest(name, known) {
        _ if name == "pgvector-index" => {
            "this program was built without the feature `pgvector`".to_owned()
        }
        Some(meant) => format!("did you mean `{meant}`?"),
        None => {
            let names: Vec<String> = built_in.map(|it| format!("`{it}`")).collect();
            let names = names.join(", ");
            format!(
                "the built-in executors are {names}; for one of your own, write its path, such as `./{name}`"
            )
        }
    };
    NotFound {
        message: format!("there is no executor `{name}`"),
        remedy: Some(remedy),
    }
}

/// The list of built-in executors in the help of `flow executor`.
pub(crate) fn listing() -> String {
    let lines = BUILTIN
        .iter()
        .map(|it| format!("\n  {:18}{}", it.name, it.about));
    format!("BUILT-IN EXECUTORS:{}", lines.collect::<String>())
}
