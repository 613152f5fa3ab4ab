//! Options of `flow post`.

use std::fs::File;
use std::io::{self, BufReader};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use flow_client::{ExchangeOptions, RequestTemplate};
use flow_core::parameters::from_options;
use flow_core::{Chain, DocArrayVersion, Endpoint};
use flow_net::Compression;

use super::counts::Unit;
use super::entries::{Form, Source};
use super::requests::Template;
use crate::connect::Connection;
use crate::count::count;
use crate::exit::BadUsage;

const EXAMPLES: &str = "\
EXAMPLES:
  flow post grpc://127.0.0.1:54321 --on /encode --text \"hello world\"
  flow post grpc://127.0.0.1:54321 --on /encode --input docs.jsonl --output out.jsonl
  flow post grpc://127.0.0.1:54321 --on /encode --input names.txt --lines --output - | head
  flow post grpcs://gateway.example.com:443 --on /encode --text hello   # with TLS
  zcat docs.jsonl.gz | flow post grpc://127.0.0.1:54321 --on /search --input - --parameters top_k:5

INPUT:
  Each line is one document: a JSON object with DocArray's field names, such as {\"text\": \"hello\",
  \"tags\": {\"page\": 3}}, or a JSON string, which becomes the text. With --lines each line is the text
  itself. Other lines are reported and skipped.

OUTPUT:
  Each line is one document as a JSON object. If executors return results besides documents, a line
  {\"__results__\": {\"EXECUTOR\": …}} follows the documents of that request. As input, such lines are
  ignored.

Exit codes: 0 success, 1 a request failed or a line was skipped, 2 bad usage.";

/// Headings of the options.
const DOCUMENTS: &str = "Documents";
const REQUEST: &str = "Request";
const SENDING: &str = "Sending";

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
    /// Send these texts as documents, and print the replies in readable form unless --output is given
    #[arg(long, value_name = "TEXT", num_args = 1.., conflicts_with = "input", help_heading = DOCUMENTS)]
    text: Vec<String>,
    /// Send the documents in FILE, one per line; `-` reads standard input
    #[arg(long, value_name = "FILE", help_heading = DOCUMENTS)]
    input: Option<PathBuf>,
    /// Treat each line of the input as plain text instead of JSON
    #[arg(long, requires = "input", help_heading = DOCUMENTS)]
    lines: bool,
    /// Write the replies to FILE, as JSON lines in the order of the input; `-` writes to standard output
    #[arg(long, value_name = "FILE", help_heading = DOCUMENTS)]
    output: Option<PathBuf>,
    /// Parameters for the executors, as a JSON object or as KEY:VALUE; can be given several times
    #[arg(long, value_name = "JSON|KEY:VALUE", help_heading = REQUEST)]
    parameters: Vec<String>,
    /// Send only to executors whose names begin with a match of this regular expression
    #[arg(long, value_name = "REGEX", help_heading = REQUEST)]
    target_executor: Option<String>,
    /// Number of documents in each request
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, default_value = "100", help_heading = SENDING)]
    request_size: NonZeroUsize,
    /// Maximum number of requests in progress [default: 64, or fewer if the gateway allows fewer]
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, help_heading = SENDING)]
    prefetch: Option<NonZeroUsize>,
    /// Give up after this time, such as 30s or 5m [default: never]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, help_heading = SENDING)]
    pub(crate) timeout: Option<Duration>,
    /// Retry connecting, and requests that did not run, up to N times
    #[arg(long, value_name = "N", default_value = "0", help_heading = SENDING)]
    retries: u32,
    /// With --retries, also retry requests that may have run, such as those of a connection that broke
    #[arg(long, requires = "retries", help_heading = SENDING)]
    idempotent: bool,
    /// Version of the documents to send: v1 for DocArray up to 0.21, v2 for 0.30 and later [default: the
    /// version that the executors report, otherwise v1]
    #[arg(long, value_enum, value_name = "VERSION", alias = "flavour", help_heading = REQUEST)]
    #[arg(hide_possible_values = true)]
    docarray: Option<DocArrayVersionName>,
    /// Send even if no executor declares the endpoint
    #[arg(long, help_heading = REQUEST)]
    pub(super) any_endpoint: bool,
    /// Compress requests with this algorithm: gzip or deflate [default: none]
    #[arg(long, value_enum, value_name = "ALGORITHM", help_heading = SENDING, hide_possible_values = true)]
    compression: Option<CompressionName>,
    #[command(flatten)]
    pub(super) connection: Connection,
    /// Do not show a progress bar
    #[arg(long, help_heading = SENDING)]
    pub(crate) no_progress: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum DocArrayVersionName {
    V1,
    V2,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum CompressionName {
    Gzip,
    Deflate,
}

/// Where replies are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum OutputKind<'p> {
    Nowhere,
    /// To standard output, for people.
    Readable,
    /// To standard output, as JSON lines.
    Stdout,
    /// To a file, as JSON lines.
    File(&'p Path),
}

impl Post {
    /// The endpoint and parameters of all requests.
    pub(super) fn template(&self) -> Result<Template, BadUsage> {
        Ok(Template {
            request: RequestTemplate {
                endpoint: self.on.to_string(),
                target: self.target_executor.clone(),
                parameters: from_options(&self.parameters)
                    .map_err(|error| BadUsage(format!("`--parameters`: {}", Chain(&error))))?,
            },
            request_size: self.request_size,
        })
    }

    /// The input.
    pub(super) fn source(&self) -> anyhow::Result<Source> {
        let version = DocArrayVersion::default();
        let form = if self.lines { Form::Plain } else { Form::Json };
        match self.input.as_deref() {
            None => Ok(Source::texts(self.text.clone(), version)),
            Some(path) if is_standard(path) => Ok(Source::lines(
                Box::new(BufReader::new(io::stdin())),
                form,
                version,
            )),
            Some(path) => {
                let (file, len) = open(path)
                    .with_context(|| BadUsage(format!("cannot read `{}`", path.display())))?;
                let source = Source::lines(Box::new(BufReader::new(file)), form, version);
                Ok(source.with_len(len))
            }
        }
    }

    /// The version of the documents to send, if the user asks for one.
    pub(super) fn docarray_version(&self) -> Option<DocArrayVersion> {
        self.docarray.map(|name| match name {
            DocArrayVersionName::V1 => DocArrayVersion::V1,
            DocArrayVersionName::V2 => DocArrayVersion::V2,
        })
    }

    /// Where replies are written.
    pub(super) fn output(&self) -> OutputKind<'_> {
        match &self.output {
            Some(path) if is_standard(path) => OutputKind::Stdout,
            Some(path) => OutputKind::File(path),
            None if self.input.is_none() => OutputKind::Readable,
            None => OutputKind::Nowhere,
        }
    }

    /// How requests are sent.
    pub(super) fn exchange_options(&self) -> ExchangeOptions {
        ExchangeOptions {
            prefetch: self.prefetch,
            in_order: true,
            timeout: self.timeout,
            retries: self.retries,
            idempotent: self.idempotent,
            compression: self.compression.map(|name| match name {
                CompressionName::Gzip => Compression::Gzip,
                CompressionName::Deflate => Compression::Deflate,
            }),
            ..ExchangeOptions::default()
        }
    }

    /// The unit of the input.
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

/// The file, and its length if that is known.
fn open(path: &Path) -> io::Result<(File, Option<u64>)> {
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok((file, about.is_file().then_some(about.len())))
}
