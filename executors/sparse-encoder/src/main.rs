//! The sparse encoder as a separate program.

use std::process::ExitCode;

fn main() -> ExitCode {
    flow_executor::run::<sparse_encoder::SparseEncoderExecutor>()
}
