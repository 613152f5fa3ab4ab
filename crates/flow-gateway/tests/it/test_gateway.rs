//! A gateway in the test's own process, and a client of it.

use std::net::{Ipv4Addr, SocketAddr};
use std::num::NonZeroUsize;
use std::time::Duration;

use flow_core::{Deadline, Failure};
use flow_gateway::auth::ApiKeys;
use flow_gateway::{Config, Gateway, GatewayLimits, Placements};
use flow_net::{Client, Drain, PostOptions};
use flow_otlp::ExportSettings;
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use flow_spec::{Address, NodeAddresses, Placement, Plan, TextFile, Variables};
use futures_util::{StreamExt, stream};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::fake_executor::{FakeExecutor, with_ids};

/// A running gateway.
#[derive(Debug)]
pub(crate) struct TestGateway {
    pub(crate) placements: Placements,
    pub(crate) client: Client,
    pub(crate) url: String,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// Where else it listens.
    pub(crate) more: Vec<SocketAddr>,
    /// The address of its metrics.
    pub(crate) metrics: SocketAddr,
    pub(crate) drain: Drain,
    server: JoinSet<()>,
}

/// The plan of a flow with these executors: `a, needs: gateway`.
pub(crate) fn plan(executors: &[&str]) -> Plan {
    let lines = executors
        .iter()
        .map(|it| format!("- {{uses: echo, name: {it}}}\n"));
    let text = format!("jtype: Flow\nexecutors:\n{}", lines.collect::<String>());
    let file = TextFile {
        path: "test.yml".as_ref(),
        text: &text,
    };
    flow_spec::load(file, &Variables::default())
        .unwrap()
        .flow
        .into()
}

pub(crate) fn address(fake: &FakeExecutor) -> Address {
    fake.address.into()
}

/// A plan with one replica for each node.
pub(crate) fn placement(plan: Plan, fakes: &[&FakeExecutor]) -> Placement {
    let places = |fake: &&FakeExecutor| NodeAddresses::replicas(vec![address(fake)]);
    placement_at(plan, &fakes.iter().map(places).collect::<Vec<_>>())
}

pub(crate) fn placement_at(plan: Plan, places: &[NodeAddresses]) -> Placement {
    Placement::new(plan, |at| places[at.index()].clone())
}

impl TestGateway {
    pub(crate) async fn start(placement: Placement) -> Self {
        Self::start_with(placement, GatewayLimits::default()).await
    }

    /// A gateway with these limits.
    pub(crate) async fn start_with(placement: Placement, limits: GatewayLimits) -> Self {
        Self::configured(placement, |config| config.limits = limits).await
    }

    /// A gateway that runs on the thread of the test, and on no other.
    pub(crate) async fn on_one_thread(placement: Placement) -> Self {
        Self::configured(placement, |config| config.threads = NonZeroUsize::MIN).await
    }

    /// A gateway whose clients need keys.
    pub(crate) async fn with_keys(placement: Placement, keys: ApiKeys) -> Self {
        Self::configured(placement, |config| config.api_keys = Some(keys)).await
    }

    /// A gateway with a changed configuration.
    pub(crate) async fn configured(placement: Placement, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config {
            host: "127.0.0.1".to_owned(),
            port: 0,
            more_ports: vec![0; placement.plan.gateway.more_ports.len()],
            threads: NonZeroUsize::new(2).unwrap(),
            limits: GatewayLimits::default(),
            monitoring: Some(0),
            tls: None,
            export: ExportSettings::default(),
            api_keys: None,
            jwt: None,
            supervisor: None,
            colocated: [].into(),
        };
        change(&mut config);
        let gateway = Gateway::bind(&config, placement).await.unwrap();
        let (mut address, more) = (gateway.local_addr(), gateway.more_addrs());
        if address.ip().is_unspecified() {
            address.set_ip(Ipv4Addr::LOCALHOST.into());
        }
        let url = format!("grpc://{address}");
        let placements = gateway.placements();
        let metrics = gateway.metrics_addr().unwrap();
        let mut server = JoinSet::new();
        let drain = Drain::new(Duration::from_secs(1));
        let draining = drain.clone();
        server.spawn(async move {
            gateway.serve(&draining).await;
        });
        let client = Client::connect(&url).await.unwrap();
        Self {
            placements,
            client,
            url,
            address,
            more,
            metrics,
            drain,
            server,
        }
    }

    /// Waits until it has stopped.
    pub(crate) async fn stopped(&mut self) {
        self.server.join_next().await.unwrap().unwrap();
    }

    /// The same gateway with another connection.
    pub(crate) async fn reconnect(self) -> Self {
        Self {
            client: Client::connect(&self.url).await.unwrap(),
            ..self
        }
    }

    /// Its metrics, with the head of the response.
    pub(crate) async fn metrics_text(&self) -> String {
        let mut stream = TcpStream::connect(self.metrics).await.unwrap();
        let request = b"GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        text
    }

    /// Sends a single request.
    pub(crate) async fn single(&self, request: Envelope) -> Result<Envelope, Failure> {
        self.client.single(request, Deadline::NEVER).await
    }

    /// Sends requests on a stream, and returns the replies in the order of the requests.
    pub(crate) async fn post(&self, requests: Vec<Envelope>) -> Vec<Envelope> {
        let options = PostOptions {
            results_in_order: true,
            ..PostOptions::default()
        };
        let requests = stream::iter(requests);
        let replies = self.client.post(&options, requests).await.unwrap();
        replies.map(Result::unwrap).collect().await
    }
}

/// A request with documents that have these ids and texts.
pub(crate) fn request(endpoint: &str, ids: &[&str]) -> Envelope {
    Envelope {
        header: Some(HeaderProto {
            request_id: flow_core::RequestId::random().into(),
            exec_endpoint: Some(endpoint.to_owned()),
            ..HeaderProto::default()
        }),
        data: Some(with_ids(ids).encode()),
        ..Envelope::default()
    }
}

/// The failure that a reply's header reports; empty if it reports none.
pub(crate) fn error(reply: &Envelope) -> String {
    let status = reply.header.as_ref().and_then(|it| it.status.as_ref());
    status.map(|it| it.description.clone()).unwrap_or_default()
}

/// The nodes of a reply's routes, each with its note.
pub(crate) fn routes(reply: &Envelope) -> Vec<(String, String)> {
    let routes = reply.routes.iter().skip(1);
    let note = |it: &flow_proto::jina::RouteProto| {
        it.status
            .as_ref()
            .map(|it| it.description.clone())
            .unwrap_or_default()
    };
    routes.map(|it| (it.executor.clone(), note(it))).collect()
}
