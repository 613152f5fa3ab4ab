//! A Unix socket that listens, and whose connections are only served to the same user.

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixListener as StdListener;

use rustix::process::{Uid, geteuid};
use socket2::SockRef;
use tokio::net::{UnixListener, UnixStream};
use tokio_util::either::Either;

use crate::{Accept, Listener};

/// Bytes that a process may have sent on a Unix socket and the other one not read. The system's own limit, 208 KiB, is the size of
/// four requests with 32 vectors, after which a sender has to wait: with 64 of them in progress, a gateway answered a fifth
/// less. The system grants what its `net.core.wmem_max` allows, and counts its own overhead, for which it doubles the size.
const SEND_BUFFER: usize = 512 << 10;

/// Makes room for what a process sends on a Unix socket.
pub(crate) fn enlarge_send_buffer(stream: &UnixStream) {
    // A socket with a smaller buffer works, too.
    if let Err(error) = SockRef::from(stream).set_send_buffer_size(SEND_BUFFER) {
        tracing::debug!(%error, "the send buffer of a Unix socket keeps its size");
    }
}

/// A Unix socket that listens. Its file may be open to others by mistake, so the user of each process that connects is
/// checked, too.
#[derive(Debug)]
pub struct LocalListener {
    inner: UnixListener,
    /// Its processes are served, and those of root.
    user: Uid,
}

/// What a process accepts connections with: a port, or a Unix socket.
pub type AnyListener = Either<Listener, LocalListener>;

impl LocalListener {
    /// Accepts connections on a socket that listens already.
    ///
    /// # Errors
    ///
    /// If the socket cannot be used without blocking.
    pub fn new(listener: StdListener) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            inner: UnixListener::from_std(listener)?,
            user: geteuid(),
        })
    }

    fn serves(&self, stream: &UnixStream) -> io::Result<bool> {
        let user = Uid::from_raw(stream.peer_cred()?.uid());
        let is_served = user == self.user || user.is_root();
        if !is_served {
            let user = user.as_raw();
            tracing::warn!(user, "refused a connection of another user of this machine");
        }
        Ok(is_served)
    }
}

impl Accept for LocalListener {
    type Stream = UnixStream;

    async fn accept(&mut self) -> io::Result<(UnixStream, Option<SocketAddr>)> {
        loop {
            let (stream, _) = self.inner.accept().await?;
            if self.serves(&stream)? {
                enlarge_send_buffer(&stream);
                return Ok((stream, None));
            }
        }
    }

    fn move_here(stream: UnixStream) -> io::Result<UnixStream> {
        UnixStream::from_std(stream.into_std()?)
    }
}

impl<L: Accept, R: Accept> Accept for Either<L, R> {
    type Stream = Either<L::Stream, R::Stream>;

    async fn accept(&mut self) -> io::Result<(Self::Stream, Option<SocketAddr>)> {
        match self {
            Self::Left(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Either::Left(stream), from))
            }
            Self::Right(listener) => {
                let (stream, from) = listener.accept().await?;
                Ok((Either::Right(stream), from))
            }
        }
    }

    fn move_here(stream: Self::Stream) -> io::Result<Self::Stream> {
        match stream {
            Either::Left(stream) => L::move_here(stream).map(Either::Left),
            Either::Right(stream) => R::move_here(stream).map(Either::Right),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn connections_of_the_same_user_are_accepted_wherever_they_come_from() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let local = LocalListener::new(StdListener::bind(&path).unwrap()).unwrap();
        let tcp = Listener::bind("127.0.0.1", 0).await.unwrap();
        let address = tcp.local_addr();
        let mut local: AnyListener = Either::Right(local);
        let mut tcp: AnyListener = Either::Left(tcp);

        let mut near = UnixStream::connect(&path).await.unwrap();
        let (mut accepted, from) = local.accept().await.unwrap();
        assert_eq!(from, None);
        near.write_all(b"hello").await.unwrap();
        let mut text = [0; 5];
        accepted.read_exact(&mut text).await.unwrap();
        assert_eq!(&text, b"hello");
        let Either::Right(stream) = &accepted else {
            panic!("a Unix socket was accepted");
        };
        let before = SockRef::from(&near).send_buffer_size().unwrap();
        assert!(SockRef::from(stream).send_buffer_size().unwrap() > before);

        let far = tokio::net::TcpStream::connect(address).await.unwrap();
        let (_, from) = tcp.accept().await.unwrap();
        assert_eq!(from, Some(far.local_addr().unwrap()));
    }
}
