//! For tests: an address that does not answer, as that of a machine that is gone.

#![cfg(target_os = "linux")]

use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::time::timeout;

/// It answers nothing until this is dropped.
pub(crate) struct SilentAddress {
    pub(crate) address: SocketAddr,
    _listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl SilentAddress {
    /// A listener that accepts nothing, whose queue is full. Connections to it are neither made nor refused.
    pub(crate) async fn new() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let connect = || timeout(Duration::from_millis(100), TcpStream::connect(address));
        let mut queued = Vec::new();
        while let Ok(stream) = connect().await {
            queued.push(stream.unwrap());
        }
        Self {
            address,
            _listener: listener,
            _queued: queued,
        }
    }
}
