//! Whether a server answers a TLS handshake, whatever its certificate is.

use std::io;
use std::net::SocketAddr;

use tokio::net::TcpStream;
use tokio_rustls::rustls;

use super::{ClientTls, TlsOptions};

/// Whether something at the address takes part in a TLS handshake.
///
/// A certificate that is not trusted, or a server that asks for one, is an answer. The caller limits the time.
pub async fn answers_handshake(address: SocketAddr) -> bool {
    let Ok(tls) = ClientTls::load(TlsOptions::default()) else {
        return false;
    };
    let Ok(stream) = TcpStream::connect(address).await else {
        return false;
    };
    match tls.connect(&address.ip().to_string(), stream).await {
        Ok(_) => true,
        Err(error) => is_answer(&*error),
    }
}

/// Whether the handshake failed by what the server sent, and not because the connection broke.
fn is_answer(error: &(dyn std::error::Error + Send + Sync + 'static)) -> bool {
    let cause = error.downcast_ref::<io::Error>();
    let cause = cause.and_then(io::Error::get_ref);
    cause.is_some_and(|it| it.is::<rustls::Error>())
}
