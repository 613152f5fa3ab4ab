//! `flow bench`: measures the speed of this machine.

mod corpus;
mod devices;
mod encoder;

use clap::Subcommand;

#[cfg(feature = "launch")]
pub(crate) use self::corpus::Corpus;
use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

const CORPUS_EXAMPLES: &str = "\
EXAMPLES:
  flow bench corpus tutorial | flow post grpc://127.0.0.1:54321 --on /encode --input -

Exit codes: 0 success, 1 failure, 2 bad usage.";

/// The commands below `flow bench`.
#[derive(Debug, Subcommand)]
pub(crate) enum Bench {
    /// Measure the sentence encoder alone, in texts per second
    Encoder(encoder::Encoder),
    /// Compare each GPU with the processor in a few experiments
    Devices(devices::Devices),
    /// Print the texts of a corpus, one JSON document per line
    #[command(after_help = CORPUS_EXAMPLES)]
    Corpus {
        /// Corpus to print
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
