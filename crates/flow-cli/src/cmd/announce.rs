//! `flow announce`: reports the readiness of a Python executor, which does not report it itself. For internal use.
//!
//! `folder/python.rs` starts it beside `jina executor`, whose standard output it shares. It polls the health of the executor
//! until it is ready or has ended.

use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use flow_core::Deadline;
use flow_net::Client;
use flow_process::{LogFormat, ReadyEvent};
use rustix::process::{Pid, test_kill_process};

use crate::exit::Exit;

/// Interval of polling; starting Python takes seconds.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Time-out of one request.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Options of `flow announce`.
#[derive(Debug, Args)]
pub(crate) struct Announce {
    /// Process of the executor
    #[arg(long, value_name = "PID")]
    of: i32,
    /// Name of the executor
    #[arg(long)]
    name: String,
    /// Address that it will listen on
    #[arg(long)]
    address: SocketAddr,
    /// Address of its metrics
    #[arg(long)]
    metrics: Option<SocketAddr>,
    /// Report in JSON, for a launcher
    #[arg(long)]
    to_launcher: bool,
    /// Start this command as a process of its own, and exit
    #[arg(long)]
    apart: bool,
}

pub(crate) async fn run(announce: Announce) -> anyhow::Result<Exit> {
    if announce.apart {
        return start_apart();
    }
    let of = Pid::from_raw(announce.of).context("0 is not a process")?;
    while test_kill_process(of).is_ok() {
        if is_ready(announce.address).await {
            report(&announce)?;
            return Ok(Exit::Fine);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
    Ok(Exit::Failed)
}

fn report(announce: &Announce) -> anyhow::Result<()> {
    let ready = ReadyEvent {
        process: announce.name.clone(),
        pid: announce.of.unsigned_abs(),
        address: announce.address.into(),
        more_addresses: Vec::new(),
        metrics: announce.metrics,
        facts: [("language".to_owned(), "Python".to_owned())].into(),
        // Jina's executors do not say.
        keeps_state: None,
    };
    let format = match announce.to_launcher {
        true => LogFormat::Json,
        false => LogFormat::Text,
    };
    Ok(ready.report(format)?)
}

fn start_apart() -> anyhow::Result<Exit> {
    let arguments = std::env::args_os().skip(1).filter(|it| it != "--apart");
    Command::new(std::env::current_exe()?)
        .args(arguments)
        .stdin(Stdio::null())
        .spawn()?;
    Ok(Exit::Fine)
}

async fn is_ready(address: SocketAddr) -> bool {
    let deadline = Deadline::after(Instant::now(), Some(TIMEOUT));
    let request = async {
        let client = Client::connect(&format!("grpc://{address}")).await.ok()?;
        client.is_serving(deadline).await.ok()
    };
    let answer = tokio::time::timeout(TIMEOUT, request).await;
    answer.is_ok_and(|is_serving| is_serving == Some(true))
}
