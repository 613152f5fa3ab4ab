//! TLS over real sockets.

mod authority;
mod clients;
mod reload;
mod servers;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::{Deadline, Failure};
use tokio::task::JoinSet;

use self::authority::Authority;
use super::*;
use crate::{
    Client, ConnectError, ConnectOptions, ConnectionLimits, ConnectionThreads, GrpcService, Health,
    Listener, Server,
};

/// A server with a health service, which serves until it is dropped.
struct Fixture {
    address: SocketAddr,
    tls: Option<Arc<ServerTls>>,
    _threads: ConnectionThreads,
    tasks: JoinSet<Infallible>,
}

impl Fixture {
    async fn start(files: Option<ServerTlsFiles>) -> Self {
        Self::with_limits(files, ConnectionLimits::default()).await
    }

    async fn with_limits(files: Option<ServerTlsFiles>, limits: ConnectionLimits) -> Self {
        let tls = files.map(|files| Arc::new(ServerTls::load(files).unwrap()));
        let listener = Listener::bind("127.0.0.1", 0).await.unwrap();
        let address = listener.local_addr();
        let (health, service) = Health::new(&[]).await;
        health.set_serving(true).await;
        let routes = crate::GrpcRoutes::new(service);
        let listener = TlsListener::new(listener, tls.clone());
        let threads = ConnectionThreads::start(1).unwrap();
        let server = Server::new(listener, GrpcService::new(routes))
            .with_limits(limits)
            .with_threads(threads.spawner());
        let mut tasks = JoinSet::new();
        tasks.spawn(server.serve_until_dropped());
        Self {
            address,
            tls,
            _threads: threads,
            tasks,
        }
    }

    /// Asks for the health over a new connection.
    async fn ask(&self, scheme: &str, options: TlsOptions) -> Result<bool, String> {
        let client = self.connect(scheme, options).await;
        let client = client.map_err(|error| flow_core::Chain(&error).to_string())?;
        healthy(&client).await.map_err(|error| error.to_string())
    }

    async fn connect(&self, scheme: &str, tls: TlsOptions) -> Result<Client, ConnectError> {
        let options = ConnectOptions { tls, api_key: None };
        Client::connect_with(&format!("{scheme}://{}", self.address), options).await
    }
}

async fn healthy(client: &Client) -> Result<bool, Failure> {
    let soon = Deadline::after(Instant::now(), Some(Duration::from_secs(10)));
    client.is_serving(soon).await
}

/// A server's files without client certificates.
fn server_files(own: CertificateFiles) -> ServerTlsFiles {
    ServerTlsFiles { own, clients: None }
}

/// A client that trusts this authority.
fn trusting(authority: &Authority) -> TlsOptions {
    TlsOptions {
        roots: Some(authority.file()),
        ..TlsOptions::default()
    }
}
