//! What can be typed after `flow post`, and what it comes to.

use std::fs::File;
use std::io::{self, BufReader};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use flow_core::parameters::from_options;
use flow_core::{Chain, Endpoint, Flavour};
use flow_net::{Compression, PostOptions};

use super::entries::{Form, Source};
use super::requests::Template;
use super::tally::Unit;
use crate::exit::BadUsage;

/// Requests under way if nothing else is said: enough to keep every replica of a large flow busy, and
/// few enough that their documents need some megabytes only.
const PREFETCH: usize = 64;

const EXAMPLES: &str = "\
EXAMPLES:
  flow post grpc://127.0.0.1:54321 --on /encode --text \"hello world\"
  flow post grpc://127.0.0.1:54321 --on /encode --input docs.jsonl --output out.jsonl
  flow post grpc://127.0.0.1:54321 --on /encode --input names.txt --lines --output - | head
  zcat docs.jsonl.gz | flow post grpc://127.0.0.1:54321 --on /search --input - --parameters top_k:5

INPUT:
  Each line is one document: a JSON object with DocArray's field names, such as {\"text\": \"hello\",
  \"tags\": {\"page\": 3}}, or a JSON string, which becomes the text. With --lines each line is the text
  itself. Other lines are reported and skipped.

OUTPUT:
  Each line is one document as a JSON object. Where executors return results besides documents, a line
  {\"__results__\": {\"EXECUTOR\": …}} follows the documents of that request; as input such a line is ignored.

Exit codes: 0 success, 1 a request failed or a line was skipped, 2 bad usage.";

/// Options of `flow post`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Post {
    /// Address of a gateway or an executor, as grpc://HOST:PORT
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Endpoint to call, such as /encode
    #[arg(long, value_name = "ENDPOINT")]
    pub(super) on: Endpoint,
    /// Send these texts as documents; the replies are printed for people unless --output is given
    #[arg(long, value_name = "TEXT", num_args = 1.., conflicts_with = "input")]
    text: Vec<String>,
    /// Send the documents in FILE, one per line; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Treat each line of the input as plain text instead of JSON
    #[arg(long, requires = "input")]
    lines: bool,
    /// Write the documents that come back to FILE, as JSON lines in the order of the input; `-` writes to
    /// standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Number of documents in each request
    #[arg(long, value_name = "N", default_value = "100")]
    request_size: NonZeroUsize,
    /// Parameters for the executors, as a JSON object or as KEY:VALUE; can be given several times
    #[arg(long, value_name = "JSON|KEY:VALUE")]
    parameters: Vec<String>,
    /// Send only to executors whose names match this regular expression
    #[arg(long, value_name = "REGEX")]
    target_executor: Option<String>,
    /// Maximum number of requests under way [default: 64, or fewer if the gateway allows fewer]
    #[arg(long, value_name = "N")]
    prefetch: Option<NonZeroUsize>,
    /// Give up after this time, such as 30s or 5m [default: never]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Document format to send: v1 for DocArray up to 0.21, v2 for 0.30 and later [default: the format that
    /// the executors report, otherwise v1]
    #[arg(long, value_enum)]
    flavour: Option<FlavourName>,
    /// Send even if no executor declares the endpoint
    #[arg(long)]
    pub(super) any_endpoint: bool,
    /// Compress requests with this algorithm [default: none]
    #[arg(long, value_enum, value_name = "ALGORITHM")]
    compression: Option<CompressionName>,
    /// Do not show a progress bar
    #[arg(long)]
    pub(crate) no_progress: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum FlavourName {
    V1,
    V2,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompressionName {
    Gzip,
    Deflate,
}

/// Where replies go.
#[derive(Debug, Clone, Copy)]
pub(super) enum Output<'p> {
    Nowhere,
    /// To standard output, for people.
    Readable,
    /// To standard output, as JSON lines.
    Stdout,
    /// To a file, as JSON lines.
    File(&'p Path),
}

impl Post {
    /// What all requests have in common.
    pub(super) fn template(&self) -> Result<Template, BadUsage> {
        Ok(Template {
            endpoint: self.on.clone(),
            target_executor: self.target_executor.clone(),
            parameters: from_options(&self.parameters)
                .map_err(|error| BadUsage(format!("`--parameters`: {}", Chain(&error))))?,
            request_size: self.request_size,
        })
    }

    /// Where documents come from.
    pub(super) fn source(&self) -> anyhow::Result<Source> {
        let flavour = Flavour::default();
        let form = if self.lines { Form::Plain } else { Form::Json };
        match self.input.as_deref() {
            None => Ok(Source::texts(self.text.clone(), flavour)),
            Some(path) if is_standard(path) => Ok(Source::lines(
                Box::new(BufReader::new(io::stdin())),
                form,
                flavour,
            )),
            Some(path) => {
                let (file, len) = open(path)
                    .with_context(|| BadUsage(format!("cannot read `{}`", path.display())))?;
                let source = Source::lines(Box::new(BufReader::new(file)), form, flavour);
                Ok(source.with_len(len))
            }
        }
    }

    /// The format that documents are sent in, if the user has chosen one.
    pub(super) fn flavour(&self) -> Option<Flavour> {
        self.flavour.map(|name| match name {
            FlavourName::V1 => Flavour::V1,
            FlavourName::V2 => Flavour::V2,
        })
    }

    pub(super) fn output(&self) -> Output<'_> {
        match &self.output {
            Some(path) if is_standard(path) => Output::Stdout,
            Some(path) => Output::File(path),
            None if self.input.is_none() => Output::Readable,
            None => Output::Nowhere,
        }
    }

    pub(super) fn options(&self) -> PostOptions {
        PostOptions {
            prefetch: self.prefetch.map(NonZeroUsize::get),
            // The window puts replies in order here, so the gateway need not hold them back.
            results_in_order: false,
            timeout: self.timeout,
            compression: self.compression.map(|name| match name {
                CompressionName::Gzip => Compression::Gzip,
                CompressionName::Deflate => Compression::Deflate,
            }),
        }
    }

    /// Requests that may be under way.
    pub(super) fn window(&self) -> usize {
        self.prefetch.map_or(PREFETCH, NonZeroUsize::get)
    }

    /// What places in the input are counted in.
    pub(super) fn unit(&self) -> Unit {
        if self.input.is_some() {
            Unit::Line
        } else {
            Unit::Text
        }
    }
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

/// The file, and how long it is if that can be known.
fn open(path: &Path) -> io::Result<(File, Option<u64>)> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((file, about.is_file().then_some(about.len())))
}
