//! Options of `flow post`.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use clap::Args;
use flow_client::ExchangeOptions;
use flow_net::Metadata;

use super::request_options::{RequestOptions, SENDING, is_standard};
use crate::count::count;
use crate::timing;

const EXAMPLES: &str = "\
EXAMPLES:
  flow post grpc://127.0.0.1:54321 --on /encode --text \"hello world\"
  flow post grpc://127.0.0.1:54321 --on /encode --input docs.jsonl --output out.jsonl
  flow post grpc://127.0.0.1:54321 --on /encode --input names.txt --lines --output - | head
  flow post grpcs://gateway.example.com:443 --on /encode --text hello   # with TLS
  flow post grpc://127.0.0.1:54321 --on /encode --input docs.jsonl --timing   # where the time goes
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

/// Options of `flow post`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Post {
    #[command(flatten)]
    pub(crate) request: RequestOptions,
    /// Write the replies to FILE, as JSON lines in the order of the input; `-` writes to standard output
    #[arg(long, value_name = "FILE", help_heading = "Documents")]
    output: Option<PathBuf>,
    /// Maximum number of requests in progress [default: 64, or fewer if the gateway allows fewer]
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, help_heading = SENDING)]
    prefetch: Option<NonZeroUsize>,
    /// Retry connecting, and requests that did not run, up to N times
    #[arg(long, value_name = "N", default_value = "0", help_heading = SENDING)]
    retries: u32,
    /// With --retries, also retry requests that may have run, such as those of a connection that broke
    #[arg(long, requires = "retries", help_heading = SENDING)]
    idempotent: bool,
    /// Do not show a progress bar
    #[arg(long, help_heading = SENDING)]
    pub(crate) no_progress: bool,
    /// Summarize at the end where the time of the requests went: each hop's median, 99th percentile and share
    #[arg(long, help_heading = SENDING)]
    pub(super) timing: bool,
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
    /// Where replies are written.
    pub(super) fn output(&self) -> OutputKind<'_> {
        match &self.output {
            Some(path) if is_standard(path) => OutputKind::Stdout,
            Some(path) => OutputKind::File(path),
            None if !self.request.has_input() => OutputKind::Readable,
            None => OutputKind::Nowhere,
        }
    }

    /// How requests are sent.
    pub(super) fn exchange_options(&self) -> ExchangeOptions {
        ExchangeOptions {
            prefetch: self.prefetch,
            in_order: true,
            timeout: self.request.timeout,
            retries: self.retries,
            idempotent: self.idempotent,
            compression: self.request.compression(),
            metadata: match self.timing {
                true => timing::asking(),
                false => Metadata::new(),
            },
            ..ExchangeOptions::default()
        }
    }
}
