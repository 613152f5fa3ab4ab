//! Raw gRPC frames, valid or not, on one HTTP/2 connection.

use bytes::{BufMut, Bytes, BytesMut};
use http::HeaderMap;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// The main door: a stream of requests.
pub const CALL: &str = "/jina.JinaRPC/Call";

/// One request, one reply.
pub const SINGLE: &str = "/jina.JinaSingleDataRequestRPC/process_single_data";

/// Bytes before each message: a flag and the length.
const HEADER_LEN: usize = 5;

/// A connection. Clones share it.
#[derive(Debug)]
pub struct Connection {
    send: SendRequest<Full<Bytes>>,
    /// Ends with the connection.
    _driver: JoinSet<()>,
}

/// What came back for a call.
#[derive(Debug)]
pub struct Answer {
    /// The messages.
    pub messages: Vec<Bytes>,
    /// `grpc-status`.
    pub status: u16,
    /// `grpc-message`, as it is written on the wire.
    pub message: String,
    /// The headers, which are the trailers too if there is no message.
    pub headers: HeaderMap,
}

impl Connection {
    /// Connects to a port of this machine.
    pub async fn open(port: u16) -> Self {
        Self::open_with(port, &Builder::new(TokioExecutor::new())).await
    }

    /// The same with room for so many bytes of each reply.
    pub async fn with_window(port: u16, bytes: u32) -> Self {
        let mut builder = Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(bytes);
        Self::open_with(port, &builder).await
    }

    async fn open_with(port: u16, builder: &Builder<TokioExecutor>) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let (send, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(async { drop(connection.await) });
        Self {
            send,
            _driver: driver,
        }
    }

    /// Sends `body` and waits for the whole answer.
    pub async fn call(&self, path: &str, body: Bytes) -> Answer {
        self.call_with(path, body, &[]).await
    }

    /// The same for a message that is compressed with gzip.
    pub async fn call_compressed(&self, path: &str, message: Bytes) -> Answer {
        let mut body = BytesMut::from(&frame(&message)[..]);
        body[0] = 1;
        self.call_with(path, body.freeze(), &[("grpc-encoding", "gzip")])
            .await
    }

    /// The same with further headers.
    pub async fn call_with(&self, path: &str, body: Bytes, headers: &[(&str, &str)]) -> Answer {
        let reply = self.reply(path, body, headers).await.unwrap();
        let (head, body) = reply.into_parts();
        let body = body.collect().await.unwrap();
        let trailers = body.trailers().unwrap_or(&head.headers).clone();
        let text = |name| {
            trailers
                .get(name)
                .map_or("", |value| value.to_str().unwrap())
        };
        Answer {
            status: text("grpc-status").parse().unwrap(),
            message: text("grpc-message").to_owned(),
            messages: messages(body.to_bytes()),
            headers: head.headers,
        }
    }

    /// Sends `body` and returns the reply when its head is there. Nothing of its body is read.
    pub async fn reply(
        &self,
        path: &str,
        body: Bytes,
        headers: &[(&str, &str)],
    ) -> hyper::Result<http::Response<Incoming>> {
        let mut request = http::Request::post(format!("http://localhost{path}"))
            .header("content-type", "application/grpc")
            .header("te", "trailers");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).unwrap();
        self.send.clone().send_request(request).await
    }
}

/// Bytes after compression with gzip.
pub fn gzipped(bytes: &[u8]) -> Bytes {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    std::io::Write::write_all(&mut out, bytes).unwrap();
    out.finish().unwrap().into()
}

/// A message that is compressed with gzip, with its header.
pub fn compressed_frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::from(&frame(&gzipped(message))[..]);
    frame[0] = 1;
    frame.freeze()
}

/// A message with its header.
pub fn frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::from(&header(message.len())[..]);
    frame.put_slice(message);
    frame.freeze()
}

/// A request with its header.
pub fn encoded(message: &impl Message) -> Bytes {
    frame(&message.encode_to_vec())
}

/// The header of a message of this length, without the message.
pub fn header(len: usize) -> Bytes {
    let mut header = BytesMut::new();
    header.put_u8(0);
    header.put_u32(len.try_into().unwrap());
    header.freeze()
}

fn messages(mut body: Bytes) -> Vec<Bytes> {
    let mut messages = Vec::new();
    while body.len() >= HEADER_LEN {
        let header = body.split_to(HEADER_LEN);
        let len = u32::from_be_bytes(header[1..].try_into().unwrap());
        messages.push(body.split_to(len as usize));
    }
    messages
}
