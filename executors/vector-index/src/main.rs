//! The vector index as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    flow_executor::run::<vector_index::VectorIndex>()
}
