//! The proxy between the gateway and the external executor, which forwards bytes and closes all connections on request.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Bytes forwarded at a time.
const CHUNK: usize = 64 * 1024;

/// A proxy, whose threads end with the program.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    open: Arc<Mutex<Vec<TcpStream>>>,
}

impl Proxy {
    /// Forwards each connection to `to`.
    pub(crate) fn start(to: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let open: Arc<Mutex<Vec<TcpStream>>> = Arc::default();
        let kept = open.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if let Ok(server) = TcpStream::connect(to) {
                    // Otherwise small messages wait for the acknowledgement of those before them.
                    client.set_nodelay(true).unwrap();
                    server.set_nodelay(true).unwrap();
                    forward(&client, &server);
                    forward(&server, &client);
                    kept.lock().unwrap().extend([client, server]);
                }
            }
        });
        Self { address, open }
    }

    /// Closes every connection; new ones are forwarded.
    pub(crate) fn close_all(&self) -> usize {
        let closed = std::mem::take(&mut *self.open.lock().unwrap());
        for stream in &closed {
            // The other side may have closed it already.
            drop(stream.shutdown(Shutdown::Both));
        }
        closed.len() / 2
    }
}

/// Copies bytes on a thread of its own until one side closes.
fn forward(from: &TcpStream, to: &TcpStream) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK];
        while let Ok(length) = from.read(&mut chunk) {
            if length == 0 || to.write_all(&chunk[..length]).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
        drop(from.shutdown(Shutdown::Both));
    });
}
