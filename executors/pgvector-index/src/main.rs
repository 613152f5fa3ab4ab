//! Runs the index in PostgreSQL as a standalone program.

use std::process::ExitCode;

fn main() -> ExitCode {
    flow_executor::run::<pgvector_index::PgvectorIndex>()
}
