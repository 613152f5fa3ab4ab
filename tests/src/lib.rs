//! Helpers of the end-to-end tests: the real program, stock peers, and clients of both.
//!
//! The tests in `it/` say what holds; this says how processes are started, watched and ended. Nothing
//! waits for a time: everything waits for a state, and fails when that takes longer than a limit.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, and its helpers with it"
)]

mod flow;
mod lines;
mod metrics;
mod peers;
mod postgres;
mod program;
mod random;
pub mod raw;
mod requests;
mod stock;

pub use flow::{TestFlow, flow_command, flow_file};
pub use lines::{Line, Stream};
pub use metrics::{Numbers, scrape};
pub use peers::{
    DocArrayVersion, cyclonedx, flow_serve, flow_serve_alone, helm_chart, http_clients,
    http_clients_python, interpreter, kubectl, kubernetes, last_json, measured, notebook_python,
    openapi_python, other_pythons, prometheus, python, python_script, registry, run_python, script,
    sentence_transformers, skipped, type_checkers, unknown_to_grafana,
};
pub use postgres::Postgres;
pub use program::{Program, eventually, eventually_or, is_alive, send};
pub use random::SplitMix64;
pub use requests::{PlainReply, TUTORIAL_SENTENCE, client, post, request, said, texts, texts_of};
pub use stock::{Stock, free_port};
