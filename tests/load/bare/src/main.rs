//! The baseline for the gateway: a bare tonic server.
//!
//! `bare-tonic echo` answers each call with the bytes that came; `bare-tonic proxy URL` forwards
//! them to one upstream over one channel. Neither looks into a message, so the proxy in front of
//! the echo is the least that any gateway in front of any executor costs. Both are written as one
//! would at first: tonic's defaults, nothing tuned. `bare-tonic call URL FILE` sends one framed
//! request and says how it ended, because h2load counts HTTP answers and not gRPC's.

mod bytes_codec;
mod call;
mod server;

use anyhow::bail;
use tonic::transport::server::TcpIncoming;

use crate::server::{Echo, Forward, Unary};

// The program measured beside this one has it too.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "usage: bare-tonic echo | proxy URL | call URL FILE";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["echo"] => serve(Unary(Echo)).await,
        ["proxy", url] => serve(Unary(Forward::connect(url).await?)).await,
        ["call", url, path] => {
            say(&call::once(url, &std::fs::read(path)?).await?);
            Ok(())
        }
        _ => bail!(USAGE),
    }
}

async fn serve<S: server::Answer>(service: Unary<S>) -> anyhow::Result<()> {
    let incoming = TcpIncoming::bind(([127, 0, 0, 1], 0).into())?.with_nodelay(Some(true));
    say(&format!("ready on {}", incoming.local_addr()?));
    let server = tonic::transport::Server::builder().add_service(service);
    Ok(server.serve_with_incoming(incoming).await?)
}

#[allow(clippy::print_stdout, reason = "the parent process waits for the line")]
fn say(line: &str) {
    println!("{line}");
}
