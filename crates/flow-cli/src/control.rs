//! The calling end of a running flow's control socket.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, bail};
use flow_launch::registry::Entry;
use flow_launch::wire::{Answer, Ask, Done, Listing, Question};

use crate::output;
use crate::places;

/// Asks a running flow, and prints what it says until it is done.
pub(crate) fn ask(entry: &Entry, ask: Ask) -> anyhow::Result<Done> {
    let socket = send(entry, ask)?;
    for line in BufReader::new(socket).lines() {
        let line = line.context("the flow has ended")?;
        let answer = serde_json::from_str(&line)
            .with_context(|| format!("the flow said `{line}`, which has no meaning"))?;
        match answer {
            Answer::Progress(sentence) => output::line(&sentence)?,
            Answer::Done(done) => return Ok(done),
            Answer::Refused(why) => bail!(why),
        }
    }
    bail!("the flow has ended")
}

/// Which processes a flow has.
pub(crate) fn listing(entry: &Entry) -> anyhow::Result<Listing> {
    match ask(entry, Ask::Ps)? {
        Done::Listing(listing) => Ok(listing),
        Done::Changed => bail!("the flow said something else than its processes"),
    }
}

/// Tells a flow to end, and waits until it has.
pub(crate) fn down(entry: &Entry) -> anyhow::Result<()> {
    let mut socket = send(entry, Ask::Down)?;
    let mut said = String::new();
    // However it ends, the flow is down.
    drop(socket.read_to_string(&mut said));
    if let Ok(Answer::Refused(why)) = serde_json::from_str(said.trim()) {
        bail!(why);
    }
    Ok(())
}

fn send(entry: &Entry, ask: Ask) -> anyhow::Result<UnixStream> {
    let cannot = || format!("cannot reach {}", places::shown(entry));
    let mut socket = flow_launch::connect(&entry.folder).with_context(cannot)?;
    let mut line = serde_json::to_string(&Question::new(ask))?;
    line.push('\n');
    socket.write_all(line.as_bytes()).with_context(cannot)?;
    Ok(socket)
}
