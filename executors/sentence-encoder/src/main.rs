//! The sentence encoder as a program of its own.

use std::process::ExitCode;

fn main() -> ExitCode {
    flow_executor::run::<sentence_encoder::SentenceEncoder>()
}
