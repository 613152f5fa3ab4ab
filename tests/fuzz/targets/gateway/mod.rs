//! A running gateway.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{env, fs, process};

use flow_gateway::{Config, Gateway, GatewayLimits};
use flow_net::tls::{CertificateFiles, ServerTlsFiles, TlsOptions};
use flow_net::{Client, ConnectOptions, Drain};
use flow_otlp::ExportSettings;
use flow_spec::{NodeAddresses, Placement, Plan, TextFile, Variables};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;

/// A running gateway, and another client of it.
pub struct Target {
    pub runtime: Runtime,
    pub gateway: SocketAddr,
    #[allow(dead_code, reason = "only some targets ask it")]
    pub bystander: Client,
}

impl Target {
    /// Starts the gateway of a flow file, whose executors refuse connections: what passes the gateway fails at once.
    #[allow(dead_code, reason = "each target uses one of the functions")]
    pub fn start(flow: &str) -> Self {
        Self::with_executor(flow, SocketAddr::from((Ipv4Addr::LOCALHOST, 1)))
    }

    /// Starts the gateway of a flow file, whose executors are all at this address.
    #[allow(dead_code, reason = "each target uses one of the functions")]
    pub fn with_executor(flow: &str, executor: SocketAddr) -> Self {
        Self::at(flow, executor, None)
    }

    /// Starts the gateway of a flow file that expects TLS, whose executors refuse connections.
    #[allow(dead_code, reason = "each target uses one of the functions")]
    pub fn encrypted(flow: &str) -> Self {
        let executor = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
        Self::at(flow, executor, Some(certificate()))
    }

    fn at(flow: &str, executor: SocketAddr, tls: Option<CertificateFiles>) -> Self {
        let runtime = Runtime::new().expect("a runtime");
        let (gateway, bystander) = runtime.block_on(start(flow, executor, tls));
        Self {
            runtime,
            gateway,
            bystander,
        }
    }
}

/// A new certificate for this machine, and its key, in files.
fn certificate() -> CertificateFiles {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]);
    let made = made.expect("a certificate");
    let folder = env::temp_dir().join(format!("flow-fuzz-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let write = |name: &str, text: String| {
        let file = folder.join(name);
        fs::write(&file, text).expect("a file");
        file
    };
    CertificateFiles {
        certificate: write("certificate.pem", made.cert.pem()),
        key: write("key.pem", made.signing_key.serialize_pem()),
    }
}

async fn start(
    flow: &str,
    executor: SocketAddr,
    tls: Option<CertificateFiles>,
) -> (SocketAddr, Client) {
    let file = TextFile {
        path: "fuzz.yml".as_ref(),
        text: flow,
    };
    let checked = flow_spec::load(file, &Variables::default()).expect("the flow is valid");
    let placement = Placement::new(Plan::from(checked.flow), |_| {
        NodeAddresses::replicas(vec![executor.into()])
    });
    let config = Config {
        host: "127.0.0.1".to_owned(),
        port: 0,
        more_ports: Vec::new(),
        threads: NonZeroUsize::MIN,
        limits: GatewayLimits::default(),
        monitoring: None,
        tls: tls.clone().map(|own| ServerTlsFiles { own, clients: None }),
        export: ExportSettings::default(),
        api_keys: None,
        jwt: None,
        supervisor: None,
        colocated: [].into(),
    };
    let gateway = Gateway::bind(&config, placement)
        .await
        .expect("a port is free");
    let address = gateway.local_addr();
    tokio::spawn(async move { gateway.serve(&Drain::new(Duration::ZERO)).await });
    let scheme = if tls.is_some() { "grpcs" } else { "grpc" };
    let options = ConnectOptions {
        tls: TlsOptions {
            roots: tls.map(|it| it.certificate),
            ..TlsOptions::default()
        },
        ..ConnectOptions::default()
    };
    let url = format!("{scheme}://{address}");
    let client = Client::connect_with(&url, options).await;
    (address, client.expect("the gateway is there"))
}

/// A connection from one of many addresses of this machine, so that no address runs out of ports.
pub async fn connect(to: SocketAddr) -> TcpStream {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let [_, b, c, d] = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
    let socket = TcpSocket::new_v4().expect("a socket");
    let from = Ipv4Addr::new(127, b.max(1), c, d.clamp(1, 254));
    socket
        .bind((from, 0).into())
        .expect("an address of this machine");
    socket.connect(to).await.expect("the gateway accepts")
}
