//! `flow verify`: compares the vectors of a flow with stored ones, or with those of another flow.
//!
//! ```text
//! texts.rs       input → texts, with their vectors if a file has them; on a thread of its own
//! references.rs  texts → requests, each with the vectors that are expected
//! flow-client    requests → replies
//! answers.rs     which document of a reply answers which of its request    pure
//! comparison.rs  vectors → cosines, and the texts that differ most    pure
//! report.rs      cosines → text or JSON
//! ```

mod answers;
mod comparison;
mod references;
mod report;
mod texts;

use std::num::NonZeroUsize;

use clap::Args;
use flow_client::{Client, Exchange, ExchangeOptions};

use self::comparison::{Bars, Comparison};
use self::references::{Expected, Reference};
use super::post::RequestOptions;
use crate::count::count;
use crate::exit::{BadUsage, Exit};
use crate::output::{self, Painter};
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow post grpc://127.0.0.1:54321 --on /encode --input docs.jsonl --output vectors.jsonl
  flow verify grpc://127.0.0.1:54321 --on /encode --reference vectors.jsonl
  flow verify grpc://127.0.0.1:54321 --on /encode --reference grpc://127.0.0.1:54322 --input docs.jsonl
  flow verify grpc://127.0.0.1:54321 --on /encode --reference vectors.jsonl --min-cosine 0.9999 --json

REFERENCE:
  A file has one document per line, with its text and its embedding, as `flow post --output` writes them.
  Its documents are sent without their embeddings. A URL is a gateway or an executor that gets the same
  documents; the options of requests and of the connection hold for both.

Exit codes: 0 every vector is close enough, 1 some vector is not or is missing, 2 bad usage.";

/// Options of `flow verify`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Verify {
    #[command(flatten)]
    request: RequestOptions,
    /// Source of the reference vectors: a file of JSON lines, or the URL of another flow
    #[arg(long, value_name = "FILE|URL")]
    reference: Reference,
    /// Lowest cosine that a vector may have with its reference
    #[arg(long, value_name = "COSINE", value_parser = cosine_bar, default_value = "0.999")]
    min_cosine: f64,
    /// Lowest mean of all cosines [default: that of --min-cosine]
    #[arg(long, value_name = "COSINE", value_parser = cosine_bar)]
    min_mean: Option<f64>,
    /// Number of texts to show, those that differ most first
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, default_value = "5")]
    worst: NonZeroUsize,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// Parses the lowest cosine that is good enough.
pub(crate) fn cosine_bar(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if (-1.0..=1.0).contains(&value) => Ok(value),
        _ => Err("needs to be a number from -1 to 1".to_owned()),
    }
}

impl Verify {
    fn bars(&self) -> Bars {
        Bars {
            lowest: self.min_cosine,
            mean: self.min_mean.unwrap_or(self.min_cosine),
        }
    }

    /// Replies keep the order of the requests, so that two runs show the same texts.
    fn exchange_options(&self) -> ExchangeOptions {
        ExchangeOptions {
            in_order: true,
            timeout: self.request.timeout,
            compression: self.request.compression(),
            ..ExchangeOptions::default()
        }
    }
}

pub(crate) async fn run(verify: Verify, shell: &Shell) -> anyhow::Result<Exit> {
    shell.log.start(shell.wants_colour);
    let options = &verify.request;
    let template = options.template()?;
    let source = verify.reference.source(options)?;
    let connection = &options.connection;
    let client = Client::from(connection.connect(&options.url, shell).await?);
    let version = options.check_flow(&client, &template).await?;
    let source = source.with_version(version);

    let (documents, reading) = texts::read(source, template.request_size);
    let requests = match &verify.reference {
        Reference::File(_) => references::stored(documents, &template),
        Reference::Flow(url) => {
            let other = Client::from(connection.connect(url, shell).await?);
            options.check_flow(&other, &template).await?;
            references::of_flow(&other, documents, &template, &verify.exchange_options())
        }
    };
    let exchange = client.exchange(&verify.exchange_options(), requests);
    let mut comparison = Comparison::new(verify.worst);
    compare(exchange, &mut comparison).await?;
    reading.await??;
    if comparison.texts() == 0 {
        return Err(BadUsage("the input has no documents to compare".to_owned()).into());
    }
    let bars = verify.bars();
    let text = match verify.json {
        true => report::json(&comparison, bars),
        false => report::text(&comparison, bars, Painter::stdout(shell)),
    };
    output::bytes(text.as_bytes())?;
    Ok(match comparison.holds(bars) {
        true => Exit::Fine,
        false => Exit::Failed,
    })
}

/// Compares each reply with what is expected.
async fn compare(
    mut exchange: Exchange<Vec<Expected>>,
    comparison: &mut Comparison,
) -> anyhow::Result<()> {
    while let Some(outcome) = exchange.next().await {
        match outcome.result {
            Ok(reply) => comparison.add_reply(outcome.tag, &reply.documents),
            Err(failure) => comparison.add_failure(outcome.tag, &failure),
        }
    }
    match exchange.end() {
        Some(Err(failure)) => Err(anyhow::Error::new(failure.clone())),
        Some(Ok(())) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cosine_is_a_number_from_minus_1_to_1() {
        assert_eq!(cosine_bar("0.999"), Ok(0.999));
        assert_eq!(cosine_bar("-1"), Ok(-1.0));
        for wrong in ["1.1", "NaN", "x", ""] {
            assert!(cosine_bar(wrong).is_err(), "{wrong}");
        }
    }
}
