use std::convert::Infallible;
use std::io;

use futures_util::stream;
use h2::server::SendResponse;
use http::{HeaderMap, HeaderValue};
use http_body_util::{BodyExt, Empty, StreamBody};
use tokio::io::DuplexStream;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

use super::*;

type Accepted = (Request<RecvStream>, SendResponse<Bytes>);

/// What a replica may receive of a stream before it makes room.
const WINDOW: u32 = 1000;

/// A connection to a replica, which is in this process.
struct Fixture {
    sender: SendRequest<Bytes>,
    accepted: mpsc::Receiver<Accepted>,
    replica: JoinSet<()>,
    _connection: JoinSet<()>,
}

impl Fixture {
    async fn start() -> Self {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (accept, accepted) = mpsc::channel(1);
        let mut replica = JoinSet::new();
        replica.spawn(serve(there, accept));
        let (sender, connection) = h2::client::handshake(here).await.unwrap();
        let mut task = JoinSet::new();
        task.spawn(async { drop(connection.await) });
        Self {
            sender,
            accepted,
            replica,
            _connection: task,
        }
    }

    fn call(&mut self, body: Body) -> Http2Call {
        let request = Request::post("http://replica/").body(body).unwrap();
        Http2Call::begin(&mut self.sender, request).unwrap()
    }

    /// A call in a task, and what the replica gets of it.
    async fn begin(&mut self, body: Body) -> (JoinSet<CallOutcome>, Accepted) {
        let mut call = JoinSet::new();
        call.spawn(self.call(body));
        (call, self.accepted.recv().await.unwrap())
    }
}

type CallOutcome = Result<Response<Body>, BoxError>;

async fn serve(stream: DuplexStream, accept: mpsc::Sender<Accepted>) {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(WINDOW);
    let mut connection = builder.handshake::<_, Bytes>(stream).await.unwrap();
    while let Some(Ok(accepted)) = connection.accept().await {
        accept.send(accepted).await.unwrap();
    }
}

fn body(parts: Vec<Result<Bytes, Status>>) -> Body {
    Body::new(StreamBody::new(stream::iter(
        parts.into_iter().map(|part| part.map(Frame::data)),
    )))
}

/// The length of each part that arrives.
async fn received(mut body: RecvStream) -> Vec<usize> {
    let mut parts = Vec::new();
    while let Some(part) = body.data().await {
        let len = part.unwrap().len();
        body.flow_control().release_capacity(len).unwrap();
        parts.push(len);
    }
    parts
}

/// The reply and its trailers.
async fn reply(call: &mut JoinSet<CallOutcome>) -> (Bytes, Option<HeaderMap>) {
    let response = call.join_next().await.unwrap().unwrap().unwrap();
    let body = response.into_body().collect().await.unwrap();
    let trailers = body.trailers().cloned();
    (body.to_bytes(), trailers)
}

fn answer(mut respond: SendResponse<Bytes>) {
    let mut stream = respond.send_response(Response::new(()), false).unwrap();
    stream.send_data(Bytes::from("done"), false).unwrap();
    let status = HeaderValue::from_static("0");
    let trailers = HeaderMap::from_iter([("grpc-status".parse().unwrap(), status)]);
    stream.send_trailers(trailers).unwrap();
}

#[tokio::test]
async fn a_request_is_sent_as_the_replica_makes_room() {
    let mut fixture = Fixture::start().await;
    let parts = [10_000, 0, 5].map(|len| Ok(Bytes::from(vec![7; len])));
    let (mut call, (request, respond)) = fixture.begin(body(parts.into())).await;
    let sent = received(request.into_body()).await;
    assert_eq!(sent.iter().sum::<usize>(), 10_005);
    assert!(sent.iter().all(|len| *len <= WINDOW as usize), "{sent:?}");
    answer(respond);
    let (bytes, trailers) = reply(&mut call).await;
    assert_eq!(bytes, "done");
    assert_eq!(trailers.unwrap()["grpc-status"], "0");
}

#[tokio::test]
async fn the_end_of_a_request_is_sent_with_its_last_part() {
    let mut fixture = Fixture::start().await;
    let (_call, (request, _respond)) = fixture.begin(body(vec![Ok("text".into())])).await;
    let mut request = request.into_body();
    assert_eq!(request.data().await.unwrap().unwrap(), "text");
    assert!(request.is_end_stream());
}

#[tokio::test]
async fn a_request_without_a_body_ends_with_its_head() {
    let mut fixture = Fixture::start().await;
    let empty = Body::new(Empty::<Bytes>::new());
    let (mut call, (request, respond)) = fixture.begin(empty).await;
    assert!(request.body().is_end_stream());
    answer(respond);
    assert_eq!(reply(&mut call).await.0, "done");
}

#[tokio::test]
async fn a_request_is_sent_on_after_its_reply_has_begun() {
    let mut fixture = Fixture::start().await;
    let (parts, rest) = mpsc::channel(1);
    let frames = ReceiverStream::new(rest);
    let (mut call, (request, mut respond)) =
        fixture.begin(Body::new(StreamBody::new(frames))).await;
    let mut stream = respond.send_response(Response::new(()), false).unwrap();
    let response = call.join_next().await.unwrap().unwrap().unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async {
        response.into_body().collect().await.unwrap();
    });
    for _ in 0..3 {
        let part = Frame::data(Bytes::from_static(b"part"));
        parts.send(Ok::<_, Infallible>(part)).await.unwrap();
    }
    drop(parts);
    assert_eq!(
        received(request.into_body()).await.iter().sum::<usize>(),
        12
    );
    stream.send_data(Bytes::new(), true).unwrap();
    tasks.join_all().await;
}

#[tokio::test]
async fn a_body_that_cannot_be_made_is_the_error_of_the_call_and_resets_its_stream() {
    let mut fixture = Fixture::start().await;
    let parts = vec![Ok("text".into()), Err(Status::out_of_range("too large"))];
    let (mut call, (request, _respond)) = fixture.begin(body(parts)).await;
    let error = call.join_next().await.unwrap().unwrap().unwrap_err();
    let status = error.downcast::<Status>().unwrap();
    assert_eq!(status.message(), "too large");
    let mut request = request.into_body();
    let reset = loop {
        match request.data().await.unwrap() {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert_eq!(reset.reason(), Some(Reason::INTERNAL_ERROR));
}

#[tokio::test]
async fn a_stream_that_the_replica_resets_is_an_error_with_its_reason() {
    let mut fixture = Fixture::start().await;
    let large = Ok(Bytes::from(vec![0; 5000]));
    let (mut call, (_request, mut respond)) = fixture.begin(body(vec![large])).await;
    respond.send_reset(Reason::REFUSED_STREAM);
    let error = call.join_next().await.unwrap().unwrap().unwrap_err();
    let error = error.downcast::<h2::Error>().unwrap();
    assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM));
}

/// Reads a reply whose stream is reset for this reason after its first part.
async fn ended_by(reason: Reason) -> Result<Bytes, BoxError> {
    let mut fixture = Fixture::start().await;
    let (mut call, (_request, mut respond)) = fixture.begin(body(vec![Ok("text".into())])).await;
    let mut stream = respond.send_response(Response::new(()), false).unwrap();
    stream.send_data(Bytes::from("part"), false).unwrap();
    let response = call.join_next().await.unwrap().unwrap().unwrap();
    let mut reply = response.into_body();
    let first = reply.frame().await.unwrap().unwrap();
    stream.send_reset(reason);
    let rest = reply.collect().await?.to_bytes();
    assert_eq!(rest, "");
    Ok(first.into_data().unwrap())
}

#[tokio::test]
async fn a_reply_ends_when_the_replica_needs_no_more_of_the_request() {
    for reason in [Reason::NO_ERROR, Reason::CANCEL] {
        assert_eq!(ended_by(reason).await.unwrap(), "part");
    }
    assert!(ended_by(Reason::INTERNAL_ERROR).await.is_err());
}

#[tokio::test]
async fn a_call_that_is_dropped_resets_its_stream() {
    let mut fixture = Fixture::start().await;
    let (call, (_request, mut respond)) = fixture.begin(body(vec![Ok("text".into())])).await;
    drop(call);
    let reset = std::future::poll_fn(|context| respond.poll_reset(context)).await;
    assert_eq!(reset.unwrap(), Reason::CANCEL);
}

#[tokio::test]
async fn an_error_of_the_connection_is_the_error_of_the_call() {
    let mut fixture = Fixture::start().await;
    let (mut call, accepted) = fixture.begin(body(vec![Ok("text".into())])).await;
    drop(accepted);
    // The replica's end closes without a word.
    fixture.replica.abort_all();
    let error = call.join_next().await.unwrap().unwrap().unwrap_err();
    assert!(error.is::<io::Error>(), "{error:?}");
}
