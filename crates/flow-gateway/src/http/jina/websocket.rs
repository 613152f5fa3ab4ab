//! Requests over WebSocket: as protobuf if the client offers the sub-protocol `bytes`, or else as JSON.
//!
//! A frame is a request, and each gets a reply. The input ends with a frame of one zero byte, or `{}` as JSON. Then the
//! requests in progress get their replies, and the connection closes with code 1000. It closes with 1001 when the gateway
//! shuts down or needs the connection, with 1009 after a frame that is too large, with 1013 if there is no memory for one,
//! and with 1011 if the stream fails. Messages are compressed if the client offers it.

mod deflate;
mod extension;
mod frame_header;
mod handshake;
mod inflate;
mod message_io;

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use bytes::Bytes;
use flow_core::{CallOptions, Code, Failure, RequestId};
use flow_net::grpc::envelope;
use flow_net::{ByteBudget, ConnectionHandle, OpenRequest};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use futures_util::stream::{SplitSink, SplitStream};
use futures_util::{SinkExt, Stream, StreamExt, stream};
use http::HeaderMap;
use http::header::{SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use prost::Message as _;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tungstenite::Message;
use tungstenite::error::ProtocolError;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::protocol::{CloseFrame, WebSocketConfig};

use self::handshake::{Handshake, Socket};
use self::inflate::MessageError;
use self::message_io::CompressionOptions;
use super::reply::{self, Names};
use super::request::{self, Known};
use super::route::Call;
use crate::auth;
use crate::heavy::HeavyWork;
use crate::http::parse_memory::{self, ParseMemory};
use crate::http::state::{HttpState, options};
use crate::http::status::{failed, status_json};
use crate::service::StreamRequest;

/// The frame that ends the input.
const END: &[u8] = &[0];

/// The name of the sub-protocol for protobuf.
const BYTES: &str = "bytes";

/// Bytes that a connection reads at once, and gathers before it writes. Both are held while it is idle.
const READ_BUFFER: usize = 4 << 10;
const WRITE_BUFFER: usize = 8 << 10;

/// Bytes before the content of a ping or a pong of a client.
const FRAME_HEADER: usize = 6;

/// Longest reason of a close frame, in bytes.
const REASON_LEN_MAX: usize = 123;

/// Why the server closes a connection that works.
const CLOSING: &str = "the gateway closes this connection; requests without a reply did not run";

/// Time in which a client has to take the last frame and answer it with its own.
const CLOSE_MAX: Duration = Duration::from_secs(5);

/// What a WebSocket's requests have in common.
struct Session {
    state: HttpState,
    form: Form,
    options: CallOptions,
    budget: Option<ByteBudget>,
    connection: Option<ConnectionHandle>,
}

/// How messages are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Protobuf,
    Json,
}

/// Whether a request asks for a WebSocket.
pub(super) fn is_upgrade(headers: &HeaderMap) -> bool {
    let upgrade = headers.get(UPGRADE).and_then(|it| it.to_str().ok());
    upgrade.is_some_and(|it| it.eq_ignore_ascii_case("websocket"))
}

/// Takes requests over a WebSocket.
pub(super) async fn requests(state: HttpState, request: Request) -> Response {
    upgrade(state, request, |session, socket| {
        Box::pin(session.serve(socket))
    })
    .await
}

/// Answers whether the flow works, over a WebSocket.
pub(super) async fn dry_run(state: HttpState, request: Request) -> Response {
    upgrade(state, request, |session, socket| {
        Box::pin(session.dry_run(socket))
    })
    .await
}

type Serving = Pin<Box<dyn Future<Output = ()> + Send>>;

async fn upgrade(
    state: HttpState,
    request: Request,
    serve: impl FnOnce(Session, Socket) -> Serving + Send + 'static,
) -> Response {
    let mut options = match options(&request) {
        Ok(options) => options,
        Err(failure) => return failed(&failure),
    };
    options.origin.protocol = Some("websocket");
    // Each message has an id of its own.
    options.request_id = None;
    let (mut parts, _body) = request.into_parts();
    let connection = parts.extensions.get::<ConnectionHandle>().cloned();
    let budget = connection.as_ref().and_then(ConnectionHandle::budget);
    let budget = budget.cloned();
    let form = form(&parts.headers);
    let handshake = match Handshake::read(&mut parts) {
        Ok(handshake) => handshake,
        Err(bad) => return bad.answer(),
    };
    let messages = state.limits.messages;
    let share = budget.as_ref().map_or(usize::MAX, ByteBudget::max);
    let len_max = match form {
        Form::Protobuf => messages.message_len_max,
        Form::Json => parse_memory::len_max(&messages),
    };
    let len_max = len_max.min(share);
    let session = Session {
        state,
        form,
        options,
        budget,
        connection,
    };
    let config = WebSocketConfig::default()
        .max_message_size(Some(len_max))
        .max_frame_size(Some(len_max))
        .read_buffer_size(READ_BUFFER)
        .write_buffer_size(WRITE_BUFFER);
    let compression = handshake.deflate().map(|deflate| CompressionOptions {
        deflate,
        len_max: len_max.min(messages.decompressed_len_max),
        connection: session.connection.clone(),
        budget: session.budget.clone(),
    });
    if let Some(connection) = &session.connection {
        connection.count_messages();
    }
    let answer = handshake.answer();
    let serving = async move {
        if let Some(socket) = handshake.socket(config, compression).await {
            serve(session, socket).await;
        }
    };
    // It ends with the connection, which the server closes.
    Handle::current().spawn(auth::on_behalf_of(auth::current(), serving));
    answer
}

/// Stock servers compare the whole header.
fn form(headers: &HeaderMap) -> Form {
    let offered = headers.get(SEC_WEBSOCKET_PROTOCOL);
    let offered = offered.and_then(|it| it.to_str().ok());
    let is_bytes = offered.is_some_and(|it| it.split(',').any(|it| it.trim() == BYTES));
    if is_bytes { Form::Protobuf } else { Form::Json }
}

/// Requests without a reply, each of which keeps the connection from being idle.
#[derive(Debug, Clone, Default)]
struct InProgress(Arc<Mutex<Vec<OpenRequest>>>);

impl InProgress {
    fn begin(&self, connection: Option<&ConnectionHandle>) {
        let request = connection.map(ConnectionHandle::begin_request);
        self.lock().extend(request);
    }

    fn end(&self) {
        self.lock().pop();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<OpenRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    async fn serve(self, socket: Socket) {
        let connection = self.connection.clone();
        tokio::select! {
            () = self.exchange(socket) => {}
            () = cut(connection.as_ref()) => {}
        }
    }

    /// Answers requests until the input ends, and closes the connection.
    async fn exchange(self, socket: Socket) {
        let connection = self.connection.clone();
        let (mut out, frames) = socket.split();
        let stream = StreamRequest {
            call: self.options.clone(),
            budget: self.budget.as_ref().map(ByteBudget::for_stream),
            ..StreamRequest::default()
        };
        let (form, service) = (self.form, self.state.service.clone());
        let (heavy, budget) = (service.heavy(), self.budget.clone());
        let in_progress = InProgress::default();
        let (back, frames_back) = oneshot::channel();
        let (pongs, mut pongs_due) = mpsc::channel(1);
        let gone = CancellationToken::new();
        let input = Input {
            known: self.known(),
            session: self,
            frames: Some(frames),
            back: Some(back),
            pongs,
            in_progress: in_progress.clone(),
            gone: gone.clone(),
        };
        let mut replies = Box::pin(service.stream(Box::pin(input.requests()), stream));
        let close = loop {
            let reply = tokio::select! {
                reply = replies.next() => reply,
                // Requests in progress are cancelled, because their replies would reach no client.
                () = gone.cancelled() => break (CloseCode::Normal, String::new()),
                Some(is_sent) = pongs_due.recv() => match send_pong(&mut out, is_sent).await {
                    true => continue,
                    false => return,
                },
            };
            let frame = match reply {
                Some(Ok(reply)) => self::reply(form, reply, &heavy, budget.clone()).await,
                Some(Err(failure)) => Err(failure),
                None => break (CloseCode::Normal, String::new()),
            };
            match frame {
                Ok(frame) => {
                    if out.send(frame).await.is_err() {
                        return;
                    }
                    in_progress.end();
                }
                Err(failure) => break closing(&failure),
            }
        };
        // The input comes back when the stream ends.
        drop(replies);
        let frames = frames_back.await.ok();
        end(out, (frames, connection), close).await;
    }

    async fn dry_run(self, mut socket: Socket) {
        let status = self.state.service.dry_run(self.options.clone()).await;
        let status = status.unwrap_or_else(|failure| failure.to_status());
        let frame = match self.form {
            Form::Protobuf => Message::Binary(status.encode_to_vec().into()),
            Form::Json => Message::Text(status_json(&status).to_string().into()),
        };
        if socket.send(frame).await.is_ok() {
            let (out, frames) = socket.split();
            let frames = (Some(frames), self.connection.clone());
            end(out, frames, (CloseCode::Normal, String::new())).await;
        }
    }

    fn known(&self) -> Known {
        Known {
            call: Call {
                endpoint: None,
                is_v1: true,
            },
            version: self.state.service.offered().version(),
            documents_max: self.state.limits.requests.documents.documents_max,
            id: String::new(),
        }
    }
}

async fn cut(connection: Option<&ConnectionHandle>) {
    match connection {
        Some(connection) => connection.cut().await,
        None => std::future::pending().await,
    }
}

async fn closed(connection: Option<&ConnectionHandle>) {
    match connection {
        Some(connection) => connection.closing().await,
        None => std::future::pending().await,
    }
}

/// The frames of a client.
struct Input {
    session: Session,
    known: Known,
    /// Until it is given back.
    frames: Option<SplitStream<Socket>>,
    back: Option<oneshot::Sender<SplitStream<Socket>>>,
    /// Asks the writer to send the answer to a ping, and to say when it is sent.
    pongs: mpsc::Sender<oneshot::Sender<()>>,
    in_progress: InProgress,
    /// Set when the client closes the connection, or has gone.
    gone: CancellationToken,
}

impl Drop for Input {
    fn drop(&mut self) {
        if let (Some(frames), Some(back)) = (self.frames.take(), self.back.take()) {
            // Without a receiver the connection was cut.
            drop(back.send(frames));
        }
    }
}

impl Input {
    fn requests(self) -> impl Stream<Item = Result<Envelope, Failure>> + Send {
        stream::unfold(self, |mut input| async move {
            let request = input.next().await?;
            input.in_progress.begin(input.session.connection.as_ref());
            Some((request, input))
        })
    }

    /// The next request; `None` at the end of the input.
    async fn next(&mut self) -> Option<Result<Envelope, Failure>> {
        loop {
            let frame = tokio::select! {
                frame = self.frames.as_mut()?.next() => frame,
                () = closed(self.session.connection.as_ref()) => {
                    return Some(Err(Failure::new(Code::Unavailable, CLOSING)));
                }
            };
            let Some(frame) = frame else {
                return self.end_with_client();
            };
            if let (Some(connection), Ok(frame)) = (&self.session.connection, &frame) {
                count(connection, frame);
            }
            match frame {
                Ok(Message::Binary(bytes)) if bytes == END => return None,
                Ok(Message::Binary(bytes)) => return Some(Ok(envelope(bytes))),
                Ok(Message::Text(text)) => return self.json(text.into()).await,
                Ok(Message::Ping(_)) => self.pong().await,
                Ok(Message::Pong(_) | Message::Frame(_)) => {}
                Ok(Message::Close(_)) => return self.end_with_client(),
                Err(error) => return unreadable(&error).or_else(|| self.end_with_client()),
            }
        }
    }

    /// Ends the input of a client that takes no more replies.
    fn end_with_client(&self) -> Option<Result<Envelope, Failure>> {
        self.gone.cancel();
        None
    }

    /// Waits until the answer to a ping is sent. Otherwise the answers of a client that reads none would fill the memory.
    async fn pong(&self) {
        let (sent, is_sent) = oneshot::channel();
        if self.pongs.send(sent).await.is_ok() {
            // Without an answer the writer has ended.
            drop(is_sent.await);
        }
    }

    /// A request of JSON; `None` for the empty object, which is the end. One that is not valid gets a reply that says so.
    async fn json(&self, text: Bytes) -> Option<Result<Envelope, Failure>> {
        if text.trim_ascii() == b"{}" {
            return None;
        }
        let known = Known {
            id: RequestId::random().into(),
            ..self.known.clone()
        };
        let id = known.id.clone();
        let heavy = self.session.state.service.heavy();
        let len = text.len();
        let limits = &self.session.state.limits.messages;
        let budget = self.session.budget.as_ref();
        let mut memory = ParseMemory::new(limits, budget, len);
        // The connection has counted the text until it was whole.
        let held = budget.map(|budget| budget.hold(len));
        let parse = move || {
            let _held = held;
            request::parse(&text, known, &mut memory)
        };
        let parsed = heavy.run(len, parse).await;
        Some(Ok(match parsed {
            Ok(parsed) => parsed.envelope,
            Err(failure) => invalid(id, &failure),
        }))
    }
}

/// Sends the answer to a ping, which is among what is to be written. False if the client has gone.
async fn send_pong(out: &mut SplitSink<Socket, Message>, is_sent: oneshot::Sender<()>) -> bool {
    let flushed = out.flush().await.is_ok();
    // Who asked may have gone.
    let _gone = is_sent.send(());
    flushed
}

/// Notes the bytes of a frame. A ping or a pong may come between the parts of a message.
fn count(connection: &ConnectionHandle, frame: &Message) {
    match frame {
        Message::Text(_) | Message::Binary(_) | Message::Close(_) => connection.end_message(),
        Message::Ping(bytes) | Message::Pong(bytes) => {
            connection.leave_out(FRAME_HEADER + bytes.len())
        }
        // No message that is read is one.
        Message::Frame(_) => {}
    }
}

/// A request that is answered with its failure.
fn invalid(id: String, failure: &Failure) -> Envelope {
    let header = HeaderProto {
        request_id: id,
        status: Some(failure.to_status()),
        ..HeaderProto::default()
    };
    Envelope {
        header: Some(header),
        ..Envelope::default()
    }
}

/// How the input ends after a frame that cannot be read: a frame that is too large fails the stream; a client that has
/// gone ends it.
fn unreadable(error: &tungstenite::Error) -> Option<Result<Envelope, Failure>> {
    let code = match error {
        // The client closed the connection without a close frame.
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => return None,
        tungstenite::Error::Capacity(_) => Code::TooLarge,
        tungstenite::Error::Protocol(_) | tungstenite::Error::Utf8(_) => Code::BadRequest,
        // The connection's own error of a message that there is no room for.
        tungstenite::Error::Io(error) if error.kind() == io::ErrorKind::QuotaExceeded => {
            Code::Overloaded
        }
        tungstenite::Error::Io(error) => match error.get_ref()?.downcast_ref()? {
            MessageError::Invalid(_) => Code::BadRequest,
            MessageError::TooLarge(_) => Code::TooLarge,
        },
        _ => return None,
    };
    Some(Err(Failure::from_error(code, error)))
}

async fn reply(
    form: Form,
    reply: Envelope,
    heavy: &HeavyWork,
    budget: Option<ByteBudget>,
) -> Result<Message, Failure> {
    if form == Form::Protobuf {
        return Ok(Message::Binary(reply.encode_to_vec().into()));
    }
    let len = reply.data.as_ref().map_or(0, Bytes::len);
    let write = move || reply::v1(&reply, Names::Snake, budget.as_ref());
    Ok(Message::Text(heavy.run(len, write).await?.into()))
}

/// The code and the reason with which a stream ends that failed.
fn closing(failure: &Failure) -> (CloseCode, String) {
    let code = match failure.code() {
        Code::Unavailable => CloseCode::Away,
        Code::TooLarge => CloseCode::Size,
        Code::BadRequest => CloseCode::Protocol,
        Code::Overloaded => CloseCode::Again,
        _ => CloseCode::Error,
    };
    (code, shortened(&failure.to_string()))
}

/// The text, as far as it fits into a close frame.
fn shortened(text: &str) -> String {
    let mut end = text.len().min(REASON_LEN_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].to_owned()
}

/// Sends the last frame, and reads until the client has answered it: a socket that is closed before loses what it sent.
/// The client has some seconds for that.
async fn end(
    mut out: SplitSink<Socket, Message>,
    (frames, connection): (Option<SplitStream<Socket>>, Option<ConnectionHandle>),
    (code, reason): (CloseCode, String),
) {
    let frame = CloseFrame {
        code,
        reason: reason.into(),
    };
    let sending = async {
        if out.send(Message::Close(Some(frame))).await.is_err() {
            // If the client closed first, its frame is answered. One that has gone takes no answer.
            drop(out.flush().await);
            return;
        }
        let Some(mut frames) = frames else { return };
        while let Some(Ok(_)) = frames.next().await {
            if let Some(connection) = &connection {
                connection.end_message();
            }
        }
    };
    if timeout(CLOSE_MAX, sending).await.is_err() {
        tracing::debug!("a WebSocket client did not acknowledge the close of its connection");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sub_protocol_decides_how_messages_are_written() {
        let form_of = |offered: Option<&str>| {
            let mut headers = HeaderMap::new();
            if let Some(offered) = offered {
                headers.insert(SEC_WEBSOCKET_PROTOCOL, offered.parse().unwrap());
            }
            form(&headers)
        };
        assert_eq!(form_of(None), Form::Json);
        assert_eq!(form_of(Some("json")), Form::Json);
        assert_eq!(form_of(Some("bytes")), Form::Protobuf);
        assert_eq!(form_of(Some("other, bytes")), Form::Protobuf);
    }

    #[test]
    fn the_close_code_says_why_a_stream_ended() {
        let code = |code| u16::from(closing(&Failure::new(code, "x")).0);
        assert_eq!(code(Code::Unavailable), 1001);
        assert_eq!(code(Code::BadRequest), 1002);
        assert_eq!(code(Code::TooLarge), 1009);
        assert_eq!(code(Code::Overloaded), 1013);
        assert_eq!(code(Code::Internal), 1011);
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        assert_eq!(shortened("short"), "short");
        assert_eq!(shortened(&"ä".repeat(100)).len(), 122);
    }
}
