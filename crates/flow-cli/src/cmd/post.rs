//! `flow post`: sends documents to a flow, and prints or saves the replies.
//!
//! ```text
//! lines.rs     bytes → lines
//! entries.rs   lines → documents
//! requests.rs  documents → requests, on a thread of its own
//! flow-client  requests → replies, in the order of the input
//! report.rs    counts, writes (reply_writer.rs) and reports
//! ```
//!
//! The input is read as it is sent, and the number of requests in progress is limited, so that a large file needs no more
//! memory than a small one.

mod counts;
mod entries;
mod hints;
mod lines;
mod nested;
mod new_file;
mod options;
mod progress;
mod readable;
mod reply_writer;
mod report;
mod request_options;
mod requests;
mod version;

use std::time::Duration;

use flow_client::{Client, Exchange};
use flow_net::Drain;
use futures_util::stream;
use tokio::sync::mpsc::{self, Receiver, Sender};

pub(crate) use self::entries::InputSource;
pub(crate) use self::hints::with_hint;
#[cfg(feature = "launch")]
pub(crate) use self::new_file::NewFile;
pub(crate) use self::options::Post;
use self::progress::Progress;
use self::reply_writer::ReplyWriter;
use self::report::{End, Report};
pub(crate) use self::request_options::RequestOptions;
pub(crate) use self::requests::{ReadItem, RequestInfo, Template, read};
use crate::exit::Exit;
use crate::output::Painter;
use crate::shell::Shell;

/// Requests that are read ahead, so that the connection does not wait for the disk.
const READ_AHEAD: usize = 2;

/// Problems of the input that wait to be reported.
const PROBLEMS_MAX: usize = 16;

pub(crate) async fn run(post: Post, shell: &Shell) -> anyhow::Result<Exit> {
    shell.log.start(shell.wants_colour);
    // Wrong arguments are reported before anything is sent.
    let template = post.request.template()?;
    let source = post.request.source()?;
    let writer = ReplyWriter::open(&post)?;
    let connection = &post.request.connection;
    let client = Client::from(connection.connect(&post.request.url, shell).await?);
    let version = post.request.check_flow(&client, &template).await?;
    let source = source.with_version(version);

    let progress = Progress::new(source.len(), !post.no_progress && !writer.is_on_terminal());
    let report = Report::new(writer, progress, (post.request.unit(), version));
    let report = match post.timing {
        true => report.with_timing(Painter::stderr(shell)),
        false => report,
    };
    let (read_items, items) = mpsc::channel(READ_AHEAD);
    let reader = tokio::task::spawn_blocking(move || read(source, &template, &read_items));
    let (problems, reported) = mpsc::channel(PROBLEMS_MAX);
    let requests = stream::unfold((items, problems), next_request);
    let mut session = Session {
        exchange: client.exchange(&post.exchange_options(), Box::pin(requests)),
        problems: reported,
        report,
    };
    let interrupted = interrupted();
    let end = tokio::select! {
        end = session.run() => end?,
        () = time_out(post.request.timeout) => End::TimeOut,
        () = interrupted => End::Interrupted,
    };
    if matches!(end, End::Complete) {
        reader.await?;
    }
    session.finish(&end)
}

/// An exchange in progress.
struct Session {
    exchange: Exchange<RequestInfo>,
    problems: Receiver<ReadItem>,
    report: Report,
}

impl Session {
    /// Runs until every request has an outcome, or the stream fails.
    async fn run(&mut self) -> anyhow::Result<End> {
        loop {
            tokio::select! {
                Some(problem) = self.problems.recv() => self.report.problem(problem),
                outcome = self.exchange.next() => {
                    self.take_problems();
                    match outcome {
                        Some(outcome) => self.report.outcome(&outcome)?,
                        None => return Ok(match self.exchange.end() {
                            Some(Err(failure)) => End::Failed(failure.clone()),
                            Some(Ok(())) | None => End::Complete,
                        }),
                    }
                }
            }
        }
    }

    /// Reports what is left, and how it went.
    fn finish(mut self, end: &End) -> anyhow::Result<Exit> {
        self.take_problems();
        let unfinished = self.exchange.into_unfinished();
        for outcome in &unfinished.outcomes {
            self.report.outcome(outcome)?;
        }
        self.report
            .unanswered(end, &unfinished.unanswered, unfinished.is_all_sent);
        self.report.finish(end)
    }

    fn take_problems(&mut self) {
        while let Ok(problem) = self.problems.try_recv() {
            self.report.problem(problem);
        }
    }
}

/// The next request of the input. Problems are passed on, and skipped.
async fn next_request(
    (mut items, problems): (Receiver<ReadItem>, Sender<ReadItem>),
) -> Option<(
    (flow_client::Request, RequestInfo),
    (Receiver<ReadItem>, Sender<ReadItem>),
)> {
    loop {
        match items.recv().await? {
            ReadItem::Request(request, info) => {
                return Some(((*request, info), (items, problems)));
            }
            problem => problems.send(problem).await.ok()?,
        }
    }
}

async fn time_out(timeout: Option<Duration>) {
    match timeout {
        Some(timeout) => tokio::time::sleep(timeout).await,
        None => std::future::pending().await,
    }
}

/// Returns at the first SIGINT or SIGTERM after the call.
fn interrupted() -> impl Future<Output = ()> {
    let drain = Drain::new(Duration::ZERO);
    let begun = drain.watch();
    let second = flow_process::on_termination(move || drain.begin());
    async move {
        tokio::select! {
            () = second => {}
            () = begun.begun() => {}
        }
    }
}
