//! `flow announce`: says that a process is ready which does not say so itself. For flow's own use.
//!
//! It stands beside `jina executor` (`folder/python.rs`), shares its standard output, asks for its health,
//! and ends as soon as it has said so, or as soon as there is nobody left to speak for.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use flow_core::Deadline;
use flow_executor::Addresses;
use flow_net::Client;
use rustix::process::{Pid, test_kill_process};

use crate::exit::Exit;
use crate::output;

/// Between two questions; starting Python takes seconds.
const PAUSE: Duration = Duration::from_millis(100);

/// What one question may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Options of `flow announce`.
#[derive(Debug, Args)]
pub(crate) struct Announce {
    /// Process to announce
    #[arg(long, value_name = "PID")]
    of: i32,
    /// Name of the process
    #[arg(long)]
    name: String,
    /// Address on which it will listen
    #[arg(long)]
    address: SocketAddr,
    /// Address at which it will serve its metrics
    #[arg(long)]
    metrics: Option<SocketAddr>,
    /// Announce in JSON, for a launcher
    #[arg(long)]
    to_launcher: bool,
    /// Start this command again as a process of its own, and end
    #[arg(long)]
    apart: bool,
}

pub(crate) async fn run(announce: Announce) -> anyhow::Result<Exit> {
    if announce.apart {
        return start_apart();
    }
    let of = Pid::from_raw(announce.of).context("0 is no process")?;
    while test_kill_process(of).is_ok() {
        if is_ready(announce.address).await {
            tell(&announce)?;
            return Ok(Exit::Fine);
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(Exit::Failed)
}

fn tell(announce: &Announce) -> std::io::Result<()> {
    let Announce {
        name,
        of,
        address,
        metrics,
        ..
    } = announce;
    if announce.to_launcher {
        let facts = BTreeMap::from([("language".to_owned(), "Python".to_owned())]);
        let addresses = Addresses {
            serving: *address,
            metrics: *metrics,
        };
        flow_executor::announce(name, &addresses, &facts, true)
    } else {
        let metrics = metrics.map(|at| format!(", metrics http://{at}/metrics"));
        output::line(&format!(
            "{name}@{of} ready and listening on {address} (language Python{})",
            metrics.unwrap_or_default()
        ))
    }
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
    let deadline = Deadline::after(Instant::now(), Some(PATIENCE));
    let asked = async {
        let client = Client::connect(&format!("grpc://{address}")).await.ok()?;
        client.is_serving(deadline).await.ok()
    };
    let answer = tokio::time::timeout(PATIENCE, asked).await;
    answer.is_ok_and(|is_serving| is_serving == Some(true))
}
