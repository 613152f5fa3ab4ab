//! `flow post`: sends documents to a flow and gets them back.
//!
//! The input is read lazily, and a bounded number of requests is under way, so a huge file needs no more
//! memory than a small one:
//!
//! `lines.rs` (bytes → lines) → `entries.rs` (lines → documents) → `requests.rs` (documents → requests, on
//! a thread of its own) → `feed.rs` (waits for room in the window) → the flow → `exchange.rs` →
//! `window.rs` (back into the order of the input; pure) → `answer.rs` (what a reply holds) → `desk.rs`
//! (counts, writes, tells).
//!
//! Before that, `offered.rs` asks the other side for its endpoints and its format of documents.

mod answer;
mod desk;
mod entries;
mod exchange;
mod feed;
mod lines;
mod listed;
mod new_file;
mod offered;
mod options;
mod progress;
mod readable;
mod requests;
mod sink;
mod tally;
mod window;

use std::time::Duration;

use flow_net::Drain;

use crate::connect::connect;
use crate::exit::Exit;
use crate::shell::Shell;

use desk::Desk;
use exchange::{Ended, Exchange};
use offered::Offered;
pub(crate) use options::Post;
use progress::Progress;
use sink::Sink;

pub(crate) async fn run(post: Post, shell: &Shell) -> anyhow::Result<Exit> {
    shell.log.start(shell.wants_colour);
    // What is wrong with the arguments is told before anything is sent.
    let template = post.template()?;
    let source = post.source()?;
    let sink = Sink::open(&post)?;
    let client = connect(&post.url).await?;

    let offered = Offered::ask(&client, post.timeout).await;
    if !post.any_endpoint {
        offered.check(&post.on)?;
    }
    let flavour = offered.choose(post.flavour());
    let source = source.with_flavour(flavour);

    let progress = Progress::new(source.len(), !post.no_progress && !sink.is_on_terminal());
    let mut desk = Desk::new(sink, progress, post.unit(), flavour);
    let interrupted = interrupted();
    let (mut exchange, reader) = Exchange::start(&client, &post, source, template);
    let ended = tokio::select! {
        ended = exchange.run(&mut desk) => ended?,
        () = time_is_up(post.timeout) => Ended::TimeIsUp,
        () = interrupted => Ended::Interrupted,
    };
    if matches!(ended, Ended::Complete) {
        reader.await?;
    }
    exchange.give_up(&ended, &mut desk)?;
    desk.finish(&ended)
}

async fn time_is_up(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Returns at the first SIGINT or SIGTERM from the call on.
fn interrupted() -> impl Future<Output = ()> {
    let drain = Drain::new(Duration::ZERO);
    let begun = drain.watch();
    let second = drain.follow_signals();
    async move {
        tokio::select! {
            () = second => {}
            () = begun.begun() => {}
        }
    }
}
