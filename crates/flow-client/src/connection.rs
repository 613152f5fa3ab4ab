//! The stream of an exchange to its peer.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use flow_core::{Deadline, Failure};
use flow_net::{Client, PostOptions, Replies};
use flow_proto::Envelope;
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use tokio::sync::mpsc;

/// Requests between the exchange and the stream, which takes them as fast as the other side does.
const QUEUE: usize = 1;

/// A stream of encoded requests.
#[derive(Debug)]
pub(crate) struct RequestStream(mpsc::Receiver<Envelope>);

impl Stream for RequestStream {
    type Item = Envelope;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Envelope>> {
        self.0.poll_recv(context)
    }
}

/// Opens a stream of requests, with this time-out.
pub(crate) type OpenStream = Arc<dyn Fn(RequestStream, Option<Duration>) -> Opening + Send + Sync>;

/// A stream that is being opened.
type Opening = Pin<Box<dyn Future<Output = Result<Replies, Failure>> + Send>>;

/// Opens streams to a gateway or an executor. Their time-out is that of each stream.
pub(crate) fn to_client(client: &Client, options: PostOptions) -> OpenStream {
    let client = client.clone();
    Arc::new(move |requests: RequestStream, timeout| -> Opening {
        let client = client.clone();
        let options = PostOptions {
            timeout,
            ..options.clone()
        };
        Box::pin(async move { client.post(&options, requests).await })
    })
}

/// Makes a call of its own for each request of a stream, up to `max_in_progress` at a time.
pub(crate) fn to_client_one_by_one(
    client: &Client,
    options: PostOptions,
    max_in_progress: usize,
) -> OpenStream {
    let client = client.clone();
    Arc::new(move |requests: RequestStream, timeout| -> Opening {
        let client = client.clone();
        let options = PostOptions {
            timeout,
            ..options.clone()
        };
        let replies = requests.map(move |request| client.single_with(request, &options));
        let replies: Replies = Box::pin(replies.buffer_unordered(max_in_progress));
        Box::pin(std::future::ready(Ok(replies)))
    })
}

/// The current stream to the other side.
pub(crate) struct CurrentStream {
    /// `None` once everything has been sent, or the stream takes nothing more.
    pub(crate) sender: Option<mpsc::Sender<Envelope>>,
    pub(crate) events: Pin<Box<dyn Stream<Item = Result<StreamEvent, Failure>> + Send>>,
    /// Whether the other side has opened the stream.
    pub(crate) is_open: bool,
    /// Attempts to open a stream since the last reply.
    pub(crate) tries: u32,
}

/// An event of the stream.
pub(crate) enum StreamEvent {
    Opened,
    Reply(Box<Envelope>),
}

impl CurrentStream {
    /// Opens a stream after a wait, when it is polled.
    ///
    /// Some gateways answer nothing, not even headers, before the first reply, so that opening the stream is a part of
    /// waiting for replies.
    pub(crate) fn open(open: &OpenStream, wait: Duration, deadline: Deadline, tries: u32) -> Self {
        let (sender, requests) = mpsc::channel(QUEUE);
        let open = Arc::clone(open);
        let opened = async move {
            if !wait.is_zero() {
                tokio::time::sleep(wait).await;
            }
            let timeout = deadline.remaining(Instant::now());
            let replies = open(RequestStream(requests), timeout).await?;
            let replies = replies.map_ok(|reply| StreamEvent::Reply(Box::new(reply)));
            let opened = stream::once(std::future::ready(Ok(StreamEvent::Opened)));
            Ok::<_, Failure>(opened.chain(replies))
        };
        Self {
            sender: Some(sender),
            events: Box::pin(stream::once(opened).try_flatten()),
            is_open: false,
            tries,
        }
    }
}

/// Sends the first request when the stream takes it. Never returns if the stream takes no more: then its events say why.
pub(crate) async fn send_first(
    sender: Option<&mpsc::Sender<Envelope>>,
    unsent: &mut VecDeque<Envelope>,
) {
    if let Some(sender) = sender
        && let Ok(permit) = sender.reserve().await
    {
        if let Some(request) = unsent.pop_front() {
            permit.send(request);
        }
        return;
    }
    std::future::pending().await
}
