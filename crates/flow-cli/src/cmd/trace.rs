//! `flow trace`: sends one request, and shows where its time went: in the network, the gateway, each node, and the queue and
//! the call of its executor.

use std::io;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use clap::Args;
use flow_client::{Client, ExchangeOptions, Outcome, Request};
use flow_core::{DocArrayVersion, Failure};
use flow_net::status::grpc_code_name;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::post::{ReadItem, RequestInfo, RequestOptions, read, with_hint};
use crate::escape::{escape_json, escape_lines};
use crate::exit::{BadUsage, Exit};
use crate::output::{self, Painter};
use crate::shell::Shell;
use crate::timing::{self, Hop, Sent, hops, waterfall};

const EXAMPLES: &str = "\
EXAMPLES:
  flow trace grpc://127.0.0.1:54321 --on /encode --text \"hello world\"
  flow trace grpc://127.0.0.1:54321 --on /encode --input docs.jsonl --request-size 32
  flow trace grpc://127.0.0.1:54321 --on /encode --text hello --json

HOPS:
  network    between a caller and the process that it calls, with writing and reading the messages
  admission  waits for the gateway's or the executor's limit on requests
  itself     the gateway, while no node works for the request
  decode     the executor reads the documents
  queue      waits for a worker of the executor
  batch      a worker waits for further requests of its batch
  call       the executor's method, shared with other requests if it says so
  encode     the executor writes the reply

Nodes beside each other work at the same time. Executors and gateways of Jina report less. With an input
of several requests, only the first is sent.

Exit codes: 0 success, 1 the request failed, 2 bad usage.";

/// Options of `flow trace`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Trace {
    #[command(flatten)]
    request: RequestOptions,
    /// Print a JSON object instead of a drawing
    #[arg(long)]
    json: bool,
}

/// What is known of the request in the end.
struct Traced {
    id: String,
    documents: usize,
    connected: Duration,
    root: Hop,
    failure: Option<Failure>,
}

pub(crate) async fn run(trace: Trace, shell: &Shell) -> anyhow::Result<Exit> {
    shell.log.start(shell.wants_colour);
    let options = &trace.request;
    let template = options.template()?;
    let source = options.source()?;
    let begun = Instant::now();
    let client = options.connection.connect(&options.url, shell).await?;
    let (client, connected) = (Client::from(client), begun.elapsed());
    let version = options.check_flow(&client, &template).await?;
    let source = source.with_version(version);
    let (out, mut items) = mpsc::channel(1);
    let reading = tokio::task::spawn_blocking(move || read(source, &template, &out));
    let first = items.recv().await;
    // The reader ends when the channel for the second request is closed.
    drop(items);
    reading.await?;
    let (request, info) = match first {
        Some(ReadItem::Request(request, info)) => (*request, info),
        Some(ReadItem::BadEntry { number, error }) => {
            let unit = options.unit().word();
            bail!(BadUsage(format!("{unit} {number} {error}")))
        }
        Some(ReadItem::Broken(error)) => return Err(error).context("cannot read the input"),
        None => bail!(BadUsage("the input has no documents".to_owned())),
    };
    let id = request.id().to_owned();
    let outcome = send(&client, (request, info), options).await?;
    let traced = Traced::of(outcome, id, connected);
    if trace.json {
        output::line(&escape_json(&traced.to_json(options).to_string()))?;
    } else {
        traced.print(options, Painter::stdout(shell))?;
    }
    Ok(match &traced.failure {
        None => Exit::Fine,
        Some(failure) => {
            output::error_line(&format!("flow: {}", explain(failure, version)));
            Exit::Failed
        }
    })
}

/// Sends the request, and returns its outcome.
async fn send(
    client: &Client,
    request: (Request, RequestInfo),
    options: &RequestOptions,
) -> anyhow::Result<Outcome<RequestInfo>> {
    let sending = ExchangeOptions {
        timeout: options.timeout,
        compression: options.compression(),
        metadata: timing::asking(),
        ..ExchangeOptions::default()
    };
    let mut exchange = client.exchange(&sending, Box::pin(stream::iter([request])));
    let outcome = match options.timeout {
        None => exchange.next().await,
        Some(limit) => tokio::time::timeout(limit, exchange.next())
            .await
            .context("there was no reply in time")?,
    };
    match (outcome, exchange.end()) {
        (Some(outcome), _) => Ok(outcome),
        (None, Some(Err(failure))) => Err(anyhow::Error::new(failure.clone())),
        (None, _) => bail!("there was no reply"),
    }
}

fn explain(failure: &Failure, version: DocArrayVersion) -> String {
    let code = grpc_code_name(failure.code());
    let cause = with_hint(failure, version);
    format!("the request failed with {code}: {}", escape_lines(&cause))
}

impl Traced {
    fn of(outcome: Outcome<RequestInfo>, id: String, connected: Duration) -> Self {
        let now = SystemTime::now();
        let sent = Sent {
            at: now.checked_sub(outcome.took).unwrap_or(now),
            took: outcome.took,
        };
        let reply = outcome.envelope.unwrap_or_default();
        Self {
            id,
            documents: outcome.tag.documents,
            connected,
            root: hops(sent, &reply.routes),
            failure: outcome.result.err(),
        }
    }

    fn print(&self, options: &RequestOptions, painter: Painter) -> io::Result<()> {
        let documents = match self.documents {
            1 => "1 document".to_owned(),
            more => format!("{more} documents"),
        };
        output::line(&format!(
            "request {} with {documents} to {} ({:.1} ms to connect)\n",
            self.id,
            options.on,
            self.connected.as_secs_f64() * 1e3
        ))?;
        let columns = output::columns(io::stdout());
        output::bytes(waterfall(&self.root, painter, columns).as_bytes())
    }

    fn to_json(&self, options: &RequestOptions) -> Value {
        json!({
            "request_id": self.id,
            "url": options.url,
            "endpoint": options.on.to_string(),
            "documents": self.documents,
            "connect_ms": self.connected.as_secs_f64() * 1e3,
            "failure": self.failure.as_ref().map(|it| json!({
                "code": grpc_code_name(it.code()),
                "message": it.message(),
            })),
            "hops": self.root.to_json(),
        })
    }
}
