//! `flow ping`: checks whether a flow or an executor is ready.
//!
//! A gateway makes a dry run, which calls all executors. An executor has no dry runs, and is asked for its health.

use std::num::NonZeroU32;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::{Args, ValueEnum};
use flow_core::{Code, Deadline};
use flow_executor::PORT_VARIABLE;
use flow_net::Client;
use flow_proto::jina::StatusProto;
use flow_proto::jina::status_proto::StatusCode;

use crate::connect::ConnectionArgs;
use crate::exit::{BadUsage, Exit};
use crate::output;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow ping grpc://127.0.0.1:54321
  flow ping grpc://127.0.0.1:54321 --attempts 30   # wait until a flow is ready
  flow ping                                        # health check inside an executor's container
  flow ping grpc://127.0.0.1:54321 --check health  # the gateway, whatever executors it reaches

Exit codes: 0 ready, 1 not ready, 2 bad usage.";

/// Pause between two attempts, as in Jina.
const PAUSE: Duration = Duration::from_secs(1);

/// Options of `flow ping`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Ping {
    /// Address of a gateway or an executor, as grpc://HOST:PORT, grpcs://HOST:PORT (with TLS) or
    /// unix:/PATH [default: port $FLOW_LISTEN_PORT, or 54321, of this machine]
    #[arg(value_name = "URL")]
    url: Option<String>,
    /// Maximum time for one attempt, such as 500ms or 3s
    #[arg(long, value_name = "DURATION", default_value = "3s", value_parser = humantime::parse_duration)]
    timeout: Duration,
    /// Number of attempts, one second apart, before giving up
    #[arg(long, value_name = "N", default_value = "1")]
    attempts: NonZeroU32,
    /// What to check
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    check: Check,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// What is checked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Check {
    /// A flow with all of its executors, or an executor
    #[default]
    All,
    /// The gateway or the executor alone: its own health, whatever it can reach
    Health,
    /// Only that something accepts connections, with or without TLS
    Listening,
}

pub(crate) async fn run(ping: Ping, shell: &Shell) -> anyhow::Result<Exit> {
    shell.log.start(shell.wants_colour);
    let url = ping.url.clone().unwrap_or_else(|| default_url(shell));
    let mut left = ping.attempts.get();
    loop {
        let begun = Instant::now();
        match ask(&ping, &url, shell).await {
            Ok(what) => {
                let took = begun.elapsed();
                output::line(&format!("{url}: {what} is ready ({took:.1?})"))?;
                return Ok(Exit::Fine);
            }
            Err(error) if left == 1 || error.is::<BadUsage>() => return Err(error),
            Err(error) => tracing::debug!("{error:#}"),
        }
        left -= 1;
        tokio::time::sleep(PAUSE).await;
    }
}

/// The address of the executor in this container.
fn default_url(shell: &Shell) -> String {
    let port = shell.variable(PORT_VARIABLE);
    format!("grpc://127.0.0.1:{}", port.as_deref().unwrap_or("54321"))
}

/// One attempt; returns what is ready.
async fn ask(ping: &Ping, url: &str, shell: &Shell) -> anyhow::Result<&'static str> {
    let within = ping.timeout;
    let attempt = async {
        if ping.check == Check::Listening {
            return listens(url).await;
        }
        let client = ping.connection.connect(url, shell).await?;
        let deadline = Deadline::after(Instant::now(), Some(within));
        match ping.check {
            Check::Health => is_healthy(&client, deadline, "the server").await,
            Check::All | Check::Listening => is_ready(&client, deadline).await,
        }
    };
    let timeout = humantime::format_duration(within);
    tokio::time::timeout(within, attempt)
        .await
        .with_context(|| format!("`{url}` did not answer within {timeout}"))?
        .with_context(|| format!("`{url}` is not ready"))
}

async fn is_ready(client: &Client, deadline: Deadline) -> anyhow::Result<&'static str> {
    match client.dry_run(deadline).await {
        Ok(status) => check_dry_run(&status).map(|()| "the flow"),
        Err(failure) if failure.code() == Code::Unimplemented => {
            is_healthy(client, deadline, "the executor").await
        }
        Err(failure) => Err(failure.into()),
    }
}

/// Asks a server for its own health.
async fn is_healthy(
    client: &Client,
    deadline: Deadline,
    what: &'static str,
) -> anyhow::Result<&'static str> {
    let is_serving = client.is_serving(deadline).await?;
    anyhow::ensure!(is_serving, "{what} is not serving");
    Ok(what)
}

/// Connects, and sends nothing.
async fn listens(url: &str) -> anyhow::Result<&'static str> {
    let (_, address) = url
        .split_once("://")
        .ok_or_else(|| BadUsage(format!("`{url}` is not of the form `grpc://HOST:PORT`")))?;
    tokio::net::TcpStream::connect(address).await?;
    Ok("the port")
}

fn check_dry_run(status: &StatusProto) -> anyhow::Result<()> {
    anyhow::ensure!(status.code() != StatusCode::Error, "{}", status.description);
    Ok(())
}
