//! Answers on a socket until a drain begins, then lets what is under way finish.

use std::pin::pin;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::time::timeout;
use tonic::service::Routes;
use tonic::transport::Server;

use crate::limits::{CONNECTION_STREAMS_MAX, CONNECTION_WINDOW, FRAME_LEN_MAX, STREAM_WINDOW};
use crate::spoken::Spoken;
use crate::{Bound, Drain};

/// After how long of silence the kernel asks whether the other side is still there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Everything that was under way got its reply.
    Clean,
    /// The grace period ended first.
    Forced,
}

/// Serving ended by itself.
#[derive(Debug, thiserror::Error)]
#[error("the server stopped")]
pub struct ServeError(#[source] tonic::transport::Error);

/// Answers with `routes` on `bound` until `drain` begins, and for at most its grace after that.
///
/// `say_goodbye` runs when the drain begins, before the door closes: whoever watches our health should
/// send elsewhere first.
///
/// # Errors
///
/// If the socket fails.
pub async fn serve(
    bound: Bound,
    routes: Routes,
    drain: &Drain,
    say_goodbye: impl Future<Output = ()>,
) -> Result<Stopped, ServeError> {
    let closing = drain.watch();
    let spoken = Spoken::default();
    let connections = spoken.clone();
    let incoming = bound.into_incoming();
    let incoming = incoming.map(move |io| io.map(|io| connections.connection(io)));
    let server = server()
        .add_routes(routes)
        .serve_with_incoming_shutdown(incoming, async move { closing.begun().await });
    let mut server = pin!(server);

    let watch = drain.watch();
    tokio::select! {
        ended = &mut server, if !watch.has_begun() => {
            return ended.map(|()| Stopped::Clean).map_err(ServeError);
        }
        () = watch.begun() => say_goodbye.await,
    }
    let finished = async {
        tokio::select! {
            ended = server => ended.map_err(ServeError),
            () = spoken.closed() => Ok(()),
        }
    };
    match timeout(drain.grace(), finished).await {
        Ok(ended) => ended.map(|()| Stopped::Clean),
        // tonic's connection tasks are detached: they end with the runtime, when the caller returns.
        Err(_elapsed) => Ok(Stopped::Forced),
    }
}

fn server() -> Server {
    Server::builder()
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_frame_size(FRAME_LEN_MAX)
        .max_concurrent_streams(CONNECTION_STREAMS_MAX)
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        // No HTTP/2 pings of our own: stock clients would close the connection for too many of them.
        .http2_keepalive_interval(None)
}
