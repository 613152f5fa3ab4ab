//! `flow bench`: how fast this machine does what flows are made for.

mod corpus;
mod devices;
mod encoder;

use clap::Subcommand;

use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

/// What can be measured.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Texts per second of the sentence encoder, without a flow around it
    Encoder(encoder::Encoder),
    /// What each GPU is good for and what it is not, beside the processor
    Devices(devices::Devices),
    /// Print the texts of a corpus, a JSON document a line
    Corpus {
        /// Which.
        #[arg(value_enum)]
        corpus: corpus::Corpus,
    },
}

pub(crate) fn run(bench: Bench, shell: &Shell) -> anyhow::Result<Exit> {
    match bench {
        Bench::Encoder(encoder) => encoder::run(&encoder, shell),
        Bench::Devices(devices) => devices::run(&devices, shell),
        Bench::Corpus { corpus } => {
            for text in corpus.texts() {
                output::line(&serde_json::json!({ "text": text }).to_string())?;
            }
            Ok(Exit::Fine)
        }
    }
}
