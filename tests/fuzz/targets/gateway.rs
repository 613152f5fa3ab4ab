//! The gateway that some targets send their inputs to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_gateway::{Config, Gateway, GatewayLimits};
use flow_net::{Client, Drain};
use flow_otlp::ExportSettings;
use flow_spec::{NodeAddresses, Placement, Plan, TextFile, Variables};
use tokio::net::{TcpSocket, TcpStream};
use tokio::runtime::Runtime;

/// Time in which another client is answered.
const ANSWERED_WITHIN: Duration = Duration::from_secs(5);

/// An executor that refuses connections: what passes the gateway fails at once.
const FLOW: &str = "jtype: Flow\nexecutors: [{name: a, uses: echo, retries: 0}]";

/// A gateway, and a client that does nothing wrong.
pub struct Target {
    pub runtime: Runtime,
    address: SocketAddr,
    bystander: Client,
}

pub static GATEWAY: LazyLock<Target> = LazyLock::new(|| {
    let runtime = Runtime::new().expect("a runtime");
    let (address, bystander) = runtime.block_on(start());
    Target {
        runtime,
        address,
        bystander,
    }
});

async fn start() -> (SocketAddr, Client) {
    let file = TextFile {
        path: "fuzz.yml".as_ref(),
        text: FLOW,
    };
    let checked = flow_spec::load(file, &Variables::default()).expect("the flow is valid");
    let nobody = SocketAddr::from((Ipv4Addr::LOCALHOST, 1));
    let placement = Placement::new(Plan::from(checked.flow), |_| {
        NodeAddresses::replicas(vec![nobody.into()])
    });
    let config = Config {
        host: "127.0.0.1".to_owned(),
        port: 0,
        more_ports: Vec::new(),
        limits: GatewayLimits::default(),
        monitoring: None,
        tls: None,
        export: ExportSettings::default(),
        api_keys: None,
        jwt: None,
        supervisor: None,
    };
    let gateway = Gateway::bind(&config, placement)
        .await
        .expect("a port is free");
    let address = gateway.local_addr();
    tokio::spawn(async move { gateway.serve(&Drain::new(Duration::ZERO)).await });
    let url = format!("grpc://{address}");
    (
        address,
        Client::connect(&url).await.expect("the gateway is there"),
    )
}

impl Target {
    /// A connection from one of many addresses of this machine, so that no address runs out of ports.
    pub async fn connect(&self) -> TcpStream {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let [_, b, c, d] = NUMBER.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let socket = TcpSocket::new_v4().expect("a socket");
        let from = Ipv4Addr::new(127, b.max(1), c, d.clamp(1, 254));
        socket
            .bind((from, 0).into())
            .expect("an address of this machine");
        socket
            .connect(self.address)
            .await
            .expect("the gateway accepts")
    }

    /// Fails if another client is not answered.
    pub async fn answers_others(&self) {
        let deadline = Deadline::after(Instant::now(), Some(ANSWERED_WITHIN));
        let answered = self.bystander.is_serving(deadline).await;
        answered.expect("another client is answered");
    }
}
