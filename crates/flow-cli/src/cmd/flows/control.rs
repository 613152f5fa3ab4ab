//! Sends commands to a running flow over its control socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, bail};
use flow_launch::protocol::{
    ControlCommand, ControlRequest, ControlResponse, ControlResult, FlowStatus,
};
use flow_launch::registry::RegistryEntry;

use crate::cmd::flows::running;
use crate::escape::escape_lines;
use crate::output;

/// Sends a command to a running flow, and prints its progress until it is done.
pub(crate) fn ask(entry: &RegistryEntry, ask: ControlCommand) -> anyhow::Result<ControlResult> {
    let socket = send(entry, ask)?;
    for line in BufReader::new(socket).lines() {
        let line = line.context("the flow has ended")?;
        let answer = serde_json::from_str(&line).with_context(|| {
            format!(
                "cannot understand the answer of the flow: `{}`",
                escape_lines(&line)
            )
        })?;
        match answer {
            ControlResponse::Progress(sentence) => output::line(&escape_lines(&sentence))?,
            ControlResponse::Done(done) => return Ok(done),
            ControlResponse::Refused(why) => bail!(escape_lines(&why).into_owned()),
        }
    }
    bail!("the flow has ended")
}

/// The processes of a flow.
pub(crate) fn listing(entry: &RegistryEntry) -> anyhow::Result<FlowStatus> {
    match ask(entry, ControlCommand::Ps)? {
        ControlResult::Listing(listing) => Ok(listing),
        _ => bail!("the flow did not answer with its processes"),
    }
}

/// Stops a flow, and waits until it has ended.
pub(crate) fn down(entry: &RegistryEntry) -> anyhow::Result<()> {
    let mut socket = send(entry, ControlCommand::Down)?;
    let mut answer = String::new();
    // The flow is down, however the connection ends.
    drop(socket.read_to_string(&mut answer));
    if let Ok(ControlResponse::Refused(why)) = serde_json::from_str(answer.trim()) {
        bail!(why);
    }
    Ok(())
}

fn send(entry: &RegistryEntry, ask: ControlCommand) -> anyhow::Result<UnixStream> {
    let cannot = || format!("cannot reach {}", running::name(entry));
    let mut socket = flow_launch::connect(&entry.state_directory).with_context(cannot)?;
    let mut line = serde_json::to_string(&ControlRequest::new(ask))?;
    line.push('\n');
    socket.write_all(line.as_bytes()).with_context(cannot)?;
    Ok(socket)
}
