//! Compresses replies. Those that are large are compressed on the thread of compressed requests, so that they do not delay other
//! requests.
//!
//! A reply passes [`mark_large`] first, then tower-http's layer, which chooses the encoding, and [`elsewhere`] last: bodies are
//! compressed while they are sent.

use axum::body::{Body, HttpBody};
use axum::extract::{Request, State};
use axum::http::header::CONTENT_ENCODING;
use axum::middleware::Next;
use axum::response::Response;
use flow_net::RequestSpawner;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{And, NotForContentType, Predicate, SizeAbove};

/// Shortest reply that is compressed, in bytes.
const COMPRESSED_MIN: u16 = 1024;

/// Shortest reply that is compressed on another thread, in bytes.
const LARGE_MIN: u64 = 64 << 10;

/// Marks a reply that is large, or whose length is not known.
#[derive(Debug, Clone, Copy)]
struct Large;

/// Chooses the encoding of replies that are worth it. Messages of gRPC have their own compression, and events are sent one by
/// one.
pub(super) fn layer() -> CompressionLayer<impl Predicate> {
    let size: SizeAbove = SizeAbove::new(COMPRESSED_MIN);
    let size: And<SizeAbove, NotForContentType> = size.and(NotForContentType::GRPC);
    CompressionLayer::new().compress_when(size.and(NotForContentType::SSE))
}

/// Marks large replies. To be called before they are compressed, which hides their length.
pub(super) async fn mark_large(request: Request, next: Next) -> Response {
    let mut reply = next.run(request).await;
    let is_small = reply
        .body()
        .size_hint()
        .upper()
        .is_some_and(|it| it < LARGE_MIN);
    // What is encoded already is not compressed.
    if !is_small && !reply.headers().contains_key(CONTENT_ENCODING) {
        reply.extensions_mut().insert(Large);
    }
    reply
}

/// Lets the thread compress large replies.
pub(super) async fn elsewhere(
    State(spawner): State<RequestSpawner>,
    request: Request,
    next: Next,
) -> Response {
    let mut reply = next.run(request).await;
    let is_large = reply.extensions_mut().remove::<Large>().is_some();
    match is_large && reply.headers().contains_key(CONTENT_ENCODING) {
        true => reply.map(|body| Body::new(spawner.make(body))),
        false => reply,
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::ready;
    use std::pin::Pin;
    use std::sync::{Arc, Barrier, Mutex};
    use std::task::{Context, Poll};
    use std::thread::{self, ThreadId};

    use axum::Router;
    use axum::body::Bytes;
    use axum::http::header::ACCEPT_ENCODING;
    use axum::middleware::{from_fn, from_fn_with_state};
    use axum::routing::get;
    use flow_net::RequestThread;
    use http_body::{Frame, SizeHint};
    use http_body_util::BodyExt;
    use tokio::task::JoinSet;
    use tower_service::Service;

    use super::*;

    /// A body that runs this on the thread that reads it.
    struct Observed<F> {
        len: usize,
        is_sized: bool,
        is_read: bool,
        observe: F,
    }

    impl<F: FnMut() + Unpin> HttpBody for Observed<F> {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            if self.is_read {
                return Poll::Ready(None);
            }
            self.is_read = true;
            (self.observe)();
            Poll::Ready(Some(Ok(Frame::data(vec![b'x'; self.len].into()))))
        }

        fn size_hint(&self) -> SizeHint {
            match self.is_sized {
                true => SizeHint::with_exact(self.len as u64),
                false => SizeHint::default(),
            }
        }
    }

    /// Answers with this body, after all layers.
    fn router<F>(thread: &RequestThread, len: usize, is_sized: bool, observe: F) -> Router
    where
        F: FnMut() + Clone + Send + Sync + Unpin + 'static,
    {
        let body = move || {
            let observe = observe.clone();
            Body::new(Observed {
                len,
                is_sized,
                is_read: false,
                observe,
            })
        };
        Router::new()
            .route("/", get(move || ready(Response::new(body()))))
            .layer(from_fn(mark_large))
            .layer(layer())
            .layer(from_fn_with_state(thread.spawner(), elsewhere))
    }

    fn asking(encoding: &str) -> Request {
        let request = Request::builder()
            .uri("/")
            .header(ACCEPT_ENCODING, encoding);
        request.body(Body::empty()).unwrap()
    }

    /// The bytes of the answer, and the thread that read the body.
    async fn answer(len: usize, is_sized: bool, encoding: &str) -> (Bytes, ThreadId) {
        let thread = RequestThread::start().unwrap();
        let seen = Arc::new(Mutex::new(None));
        let note = Arc::clone(&seen);
        let note = move || *note.lock().unwrap() = Some(thread::current().id());
        let mut router = router(&thread, len, is_sized, note);
        let reply = router.call(asking(encoding)).await.unwrap();
        let encoded = reply.headers().get(CONTENT_ENCODING);
        let is_worth_it = !is_sized || len > COMPRESSED_MIN.into();
        let expected = is_worth_it.then_some(encoding);
        let expected = expected.filter(|it| *it != "identity");
        assert_eq!(encoded.map(|it| it.to_str().unwrap()), expected);
        let bytes = reply.into_body().collect().await.unwrap().to_bytes();
        let reader = seen.lock().unwrap().unwrap();
        (bytes, reader)
    }

    #[tokio::test]
    async fn large_replies_are_compressed_on_another_thread() {
        let here = thread::current().id();
        let large = usize::try_from(LARGE_MIN).unwrap();
        for encoding in ["br", "gzip", "zstd"] {
            let (bytes, reader) = answer(large, true, encoding).await;
            assert_ne!(reader, here, "{encoding}");
            assert!(bytes.len() < large, "{encoding}");
            let (_, reader) = answer(large - 1, true, encoding).await;
            assert_eq!(reader, here, "{encoding}");
        }
        let (_, of_unknown_length) = answer(COMPRESSED_MIN.into(), false, "br").await;
        assert_ne!(of_unknown_length, here);
        let (bytes, not_compressed) = answer(large, true, "identity").await;
        assert_eq!((bytes.len(), not_compressed), (large, here));
    }

    #[tokio::test]
    async fn a_large_reply_that_takes_long_to_compress_delays_no_other() {
        let thread = RequestThread::start().unwrap();
        let barrier = Arc::new(Barrier::new(2));
        let wait = Arc::clone(&barrier);
        let large = usize::try_from(LARGE_MIN).unwrap();
        let is_read = move || {
            wait.wait();
        };
        let slow = router(&thread, large, true, is_read)
            .call(asking("gzip"))
            .await
            .unwrap();
        let mut reading = JoinSet::new();
        reading.spawn(slow.into_body().collect());
        let mut other = router(&thread, usize::from(COMPRESSED_MIN) * 2, true, || ());
        let other = other.call(asking("gzip")).await.unwrap();
        let other = other.into_body().collect().await.unwrap().to_bytes();
        assert!(!other.is_empty());
        assert!(reading.try_join_next().is_none());
        barrier.wait();
        assert!(reading.join_next().await.unwrap().unwrap().is_ok());
    }
}
