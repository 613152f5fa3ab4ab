//! A connection of a client, which makes its handshake in its first read or write.
//!
//! The time for the handshake is limited where the connection is served: one that has sent nothing of HTTP within the limit
//! on its preface is closed.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

use crate::listener::move_tcp_here;

/// The first byte of a TLS connection: a handshake record.
const HANDSHAKE: u8 = 0x16;

/// The response to a client that does not speak TLS.
const PLAIN_TEXT: &[u8] = b"HTTP/1.1 400 Bad Request\r\n\
    content-type: text/plain; charset=utf-8\r\n\
    content-length: 52\r\n\
    connection: close\r\n\
    \r\n\
    this port speaks TLS: use `https://` or `grpcs://`.\n";

/// A connection of a client, encrypted or not.
#[derive(Debug)]
pub struct ServerStream(Kind);

#[derive(Debug)]
enum Kind {
    Plain(TcpStream),
    Encrypted(Box<Encrypted>),
}

/// The state of an encrypted connection.
enum Encrypted {
    /// Nothing has arrived.
    New(TcpStream, TlsAcceptor),
    Handshake(Accept<TcpStream>),
    Open(TlsStream<TcpStream>),
    /// The client does not speak TLS and gets a refusal, of which this many bytes were sent.
    Refused(TcpStream, usize),
    /// Taken while it changes, and after an error.
    Ended,
}

impl ServerStream {
    pub(super) fn plain(stream: TcpStream) -> Self {
        Self(Kind::Plain(stream))
    }

    pub(super) fn encrypted(stream: TcpStream, acceptor: TlsAcceptor) -> Self {
        Self(Kind::Encrypted(Box::new(Encrypted::New(stream, acceptor))))
    }

    /// Moves a connection on which nothing was read to the runtime of this thread.
    pub(super) fn move_here(self) -> io::Result<Self> {
        match self.0 {
            Kind::Plain(stream) => move_tcp_here(stream).map(Self::plain),
            Kind::Encrypted(encrypted) => match *encrypted {
                Encrypted::New(stream, acceptor) => {
                    Ok(Self::encrypted(move_tcp_here(stream)?, acceptor))
                }
                _ => Err(io::Error::other("the handshake has begun")),
            },
        }
    }
}

impl Encrypted {
    /// The stream after the handshake.
    fn open(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<&mut TlsStream<TcpStream>>> {
        while !matches!(self, Self::Open(_)) {
            match std::mem::replace(self, Self::Ended) {
                Self::New(stream, acceptor) => match first_byte(&stream, cx) {
                    Poll::Pending => {
                        *self = Self::New(stream, acceptor);
                        return Poll::Pending;
                    }
                    Poll::Ready(Ok(Some(HANDSHAKE))) => {
                        *self = Self::Handshake(acceptor.accept(stream));
                    }
                    Poll::Ready(Ok(Some(_))) => *self = Self::Refused(stream, 0),
                    Poll::Ready(Ok(None)) => return Poll::Ready(Err(closed())),
                    Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                },
                Self::Handshake(mut accept) => match Pin::new(&mut accept).poll(cx) {
                    Poll::Pending => {
                        *self = Self::Handshake(accept);
                        return Poll::Pending;
                    }
                    Poll::Ready(stream) => *self = Self::Open(stream?),
                },
                Self::Refused(mut stream, mut sent) => {
                    let refusing = refuse(&mut stream, &mut sent, cx);
                    *self = Self::Refused(stream, sent);
                    return refusing.map(|()| Err(not_tls()));
                }
                Self::Open(_) | Self::Ended => return Poll::Ready(Err(closed())),
            }
        }
        match self {
            Self::Open(stream) => Poll::Ready(Ok(stream)),
            _ => Poll::Ready(Err(closed())),
        }
    }
}

/// The first byte that arrives, which stays to be read; `None` if the client closes the connection before.
fn first_byte(stream: &TcpStream, cx: &mut Context<'_>) -> Poll<io::Result<Option<u8>>> {
    let mut byte = [0];
    let mut buffer = ReadBuf::new(&mut byte);
    ready!(stream.poll_peek(cx, &mut buffer))?;
    Poll::Ready(Ok(buffer.filled().first().copied()))
}

/// Sends the refusal, and then reads until the client closes the connection: closed before that, it would be reset, and
/// the client might lose the refusal.
fn refuse(stream: &mut TcpStream, sent: &mut usize, cx: &mut Context<'_>) -> Poll<()> {
    let mut stream = Pin::new(stream);
    while *sent < PLAIN_TEXT.len() {
        match ready!(stream.as_mut().poll_write(cx, &PLAIN_TEXT[*sent..])) {
            Ok(bytes) if bytes > 0 => *sent += bytes,
            _ => return Poll::Ready(()),
        }
    }
    if ready!(stream.as_mut().poll_shutdown(cx)).is_err() {
        return Poll::Ready(());
    }
    loop {
        let mut scrap = [0; 1024];
        let mut buffer = ReadBuf::new(&mut scrap);
        let read = ready!(stream.as_mut().poll_read(cx, &mut buffer));
        if read.is_err() || buffer.filled().is_empty() {
            return Poll::Ready(());
        }
    }
}

fn not_tls() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the client does not speak TLS")
}

fn closed() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the connection was closed before the TLS handshake",
    )
}

impl AsyncRead for ServerStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Kind::Encrypted(stream) => Pin::new(ready!(stream.open(cx))?).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for ServerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Kind::Encrypted(stream) => Pin::new(ready!(stream.open(cx))?).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Kind::Encrypted(stream) => {
                Pin::new(ready!(stream.open(cx))?).poll_write_vectored(cx, slices)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Kind::Encrypted(stream) => match &mut **stream {
                Encrypted::Open(stream) => Pin::new(stream).poll_flush(cx),
                // Nothing was written.
                _ => Poll::Ready(Ok(())),
            },
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.0 {
            Kind::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Kind::Encrypted(stream) => match &mut **stream {
                Encrypted::Open(stream) => Pin::new(stream).poll_shutdown(cx),
                Encrypted::New(stream, _) | Encrypted::Refused(stream, _) => {
                    Pin::new(stream).poll_shutdown(cx)
                }
                Encrypted::Handshake(_) | Encrypted::Ended => Poll::Ready(Ok(())),
            },
        }
    }
}

impl std::fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::New(..) => "New",
            Self::Handshake(_) => "Handshake",
            Self::Open(_) => "Open",
            Self::Refused(..) => "Refused",
            Self::Ended => "Ended",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_refusal_is_a_complete_response() {
        let text = std::str::from_utf8(PLAIN_TEXT).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        let len = format!("content-length: {}", body.len());
        assert!(head.lines().any(|line| line == len), "{}", body.len());
    }
}
