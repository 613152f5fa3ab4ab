//! The text classifier as a separate program.

use std::process::ExitCode;

fn main() -> ExitCode {
    flow_executor::run::<text_classifier::TextClassifierExecutor>()
}
