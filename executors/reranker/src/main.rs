//! The reranker as a separate program.

use std::process::ExitCode;

fn main() -> ExitCode {
    flow_executor::run::<reranker::Reranker>()
}
