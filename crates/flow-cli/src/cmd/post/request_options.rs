//! What `flow post`, `flow trace` and `flow verify` have in common: the address, the endpoint, and where documents come from.

use std::fs::File;
use std::io::{self, BufReader};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::{Args, ValueEnum};
use flow_client::{Client, RequestTemplate};
use flow_core::parameters::from_options;
use flow_core::{Chain, DocArrayVersion, Endpoint};
use flow_net::Compression;

use super::counts::InputUnit;
use super::entries::{InputFormat, InputSource};
use super::requests::Template;
use super::{hints, version};
use crate::connect::ConnectionArgs;
use crate::count::count;
use crate::exit::BadUsage;

/// Headings of the options.
const DOCUMENTS: &str = "Documents";
const REQUEST: &str = "Request";
pub(super) const SENDING: &str = "Sending";

/// Options of the requests.
#[derive(Debug, Args)]
pub(crate) struct RequestOptions {
    /// Address of a gateway or an executor, as grpc://HOST:PORT, grpcs://HOST:PORT (with TLS)
    /// or unix:/PATH
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// Endpoint to call, such as /encode
    #[arg(long, value_name = "ENDPOINT")]
    pub(crate) on: Endpoint,
    /// Send these texts as documents, and print the replies in readable form unless --output is given
    #[arg(long, value_name = "TEXT", num_args = 1.., conflicts_with = "input", help_heading = DOCUMENTS)]
    text: Vec<String>,
    /// Send the documents in FILE, one per line; `-` reads standard input
    #[arg(long, value_name = "FILE", help_heading = DOCUMENTS)]
    input: Option<PathBuf>,
    /// Treat each line of the input as plain text instead of JSON
    #[arg(long, requires = "input", help_heading = DOCUMENTS)]
    lines: bool,
    /// Parameters for the executors, as a JSON object or as KEY:VALUE; can be given several times
    #[arg(long, value_name = "JSON|KEY:VALUE", help_heading = REQUEST)]
    parameters: Vec<String>,
    /// Send only to executors whose names begin with a match of this regular expression
    #[arg(long, value_name = "REGEX", help_heading = REQUEST)]
    target_executor: Option<String>,
    /// Number of documents in each request
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, default_value = "100", help_heading = SENDING)]
    request_size: NonZeroUsize,
    /// Give up after this time, such as 30s or 5m [default: never]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, help_heading = SENDING)]
    pub(crate) timeout: Option<Duration>,
    /// Version of the documents to send: v1 for DocArray up to 0.21, v2 for 0.30 and later [default: the
    /// version that the executors report, otherwise v1]
    #[arg(long, value_enum, value_name = "VERSION", alias = "flavour", help_heading = REQUEST)]
    #[arg(hide_possible_values = true)]
    docarray: Option<DocArrayVersionName>,
    /// Send even if no executor declares the endpoint
    #[arg(long, help_heading = REQUEST)]
    any_endpoint: bool,
    /// Compress requests with this algorithm: gzip or deflate [default: none]
    #[arg(long, value_enum, value_name = "ALGORITHM", help_heading = SENDING, hide_possible_values = true)]
    compression: Option<CompressionName>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
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

impl RequestOptions {
    /// The endpoint and parameters of all requests.
    pub(crate) fn template(&self) -> Result<Template, BadUsage> {
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
    pub(crate) fn source(&self) -> anyhow::Result<InputSource> {
        let version = DocArrayVersion::default();
        let form = if self.lines {
            InputFormat::Plain
        } else {
            InputFormat::Json
        };
        match self.input.as_deref() {
            None => Ok(InputSource::texts(self.text.clone(), version)),
            Some(path) if is_standard(path) => Ok(InputSource::lines(
                Box::new(BufReader::new(io::stdin())),
                form,
                version,
            )),
            Some(path) => {
                let (file, len) = open(path)
                    .with_context(|| BadUsage(format!("cannot read `{}`", path.display())))?;
                let source = InputSource::lines(Box::new(BufReader::new(file)), form, version);
                Ok(source.with_len(len))
            }
        }
    }

    /// Asks the flow whether it has the endpoint and the executors that requests are for. Returns the version of their
    /// documents.
    pub(crate) async fn check_flow(
        &self,
        client: &Client,
        template: &Template,
    ) -> anyhow::Result<DocArrayVersion> {
        let discovery = client.discover(self.timeout).await;
        if !self.any_endpoint {
            let offered = discovery.check(&self.on);
            offered.map_err(|error| hints::unknown_endpoint(&error))?;
        }
        let addressed = discovery.check_addressees(&template.request);
        addressed.map_err(|error| hints::unknown_executor(&error))?;
        Ok(version::choose(
            self.docarray_version(),
            discovery.docarray_version(),
        ))
    }

    /// The version of the documents to send, if the user asks for one.
    fn docarray_version(&self) -> Option<DocArrayVersion> {
        self.docarray.map(|name| match name {
            DocArrayVersionName::V1 => DocArrayVersion::V1,
            DocArrayVersionName::V2 => DocArrayVersion::V2,
        })
    }

    pub(crate) fn compression(&self) -> Option<Compression> {
        self.compression.map(|name| match name {
            CompressionName::Gzip => Compression::Gzip,
            CompressionName::Deflate => Compression::Deflate,
        })
    }

    /// Whether the options name documents.
    pub(crate) fn has_documents(&self) -> bool {
        self.has_input() || !self.text.is_empty()
    }

    /// Whether documents come from a file or from standard input.
    pub(super) fn has_input(&self) -> bool {
        self.input.is_some()
    }

    /// The unit of the input.
    pub(crate) fn unit(&self) -> InputUnit {
        if self.has_input() {
            InputUnit::Line
        } else {
            InputUnit::Text
        }
    }
}

pub(super) fn is_standard(path: &Path) -> bool {
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
