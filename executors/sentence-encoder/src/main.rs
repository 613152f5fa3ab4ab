//! The sentence encoder as a separate program.

use std::process::ExitCode;

fn main() -> ExitCode {
    flow_executor::run::<sentence_encoder::SentenceEncoder>()
}
