//! A load generator for servers that answer over gRPC or over HTTP with JSON.
//!
//! `bare-load run PROTOCOL URL BODIES CONCURRENT SECONDS` sends the bodies of a file in order, over and over, a number at a time. It
//! writes one line of JSON: how many seconds all took, and how many milliseconds each request took. `bare-load ask PROTOCOL URL BODIES
//! REPLIES` sends each body once, and keeps the replies in a file. PROTOCOL is `grpc` or `http`.
//!
//! Bodies are built before the clock starts, and replies are read as a whole but not parsed: the server is measured, not this program. A
//! request that fails ends the program. It has one thread, because the server needs the other cores.

mod bodies;
mod load;
mod target;

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, bail};

use crate::target::Target;

// The programs beside this one have it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str =
    "usage: bare-load run PROTOCOL URL BODIES CONCURRENT SECONDS | ask PROTOCOL URL BODIES REPLIES";

#[tokio::main(flavor = "current_thread")]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["run", protocol, url, path, concurrent, seconds] => {
            let target = Target::new(protocol.parse()?, url)?;
            let bodies = bodies::read(Path::new(path))?;
            let concurrent = concurrent.parse().context("CONCURRENT is not a number")?;
            let seconds = seconds.parse().context("SECONDS is not a number")?;
            let at_least = Duration::from_secs(seconds);
            let outcome = load::run(target, bodies, concurrent, at_least).await?;
            print(&outcome.json());
            Ok(())
        }
        ["ask", protocol, url, path, replies] => {
            let target = Target::new(protocol.parse()?, url)?;
            let mut kept = Vec::new();
            for body in bodies::read(Path::new(path))? {
                kept.push(target.send(body).await?);
            }
            bodies::write(Path::new(replies), &kept)
        }
        _ => bail!(USAGE),
    }
}

#[allow(clippy::print_stdout, reason = "the parent process reads the line")]
fn print(line: &str) {
    println!("{line}");
}
