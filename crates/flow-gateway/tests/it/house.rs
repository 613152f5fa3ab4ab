//! A gateway in the test's own process, and a client at it.

use std::net::SocketAddr;
use std::time::Duration;

use flow_core::{Deadline, Failure};
use flow_gateway::{Config, Gateway, Placements};
use flow_net::{Client, Drain, Limits, PostOptions};
use flow_proto::Envelope;
use flow_proto::jina::HeaderProto;
use flow_spec::{Address, Placement, Places, Plan, TextFile, Variables};
use futures_util::{StreamExt, stream};
use tokio::task::JoinSet;

use crate::fake::{Fake, with_ids};

/// A running gateway.
#[derive(Debug)]
pub(crate) struct House {
    pub(crate) placements: Placements,
    pub(crate) client: Client,
    pub(crate) url: String,
    /// Where it shows its metrics.
    pub(crate) metrics: SocketAddr,
    _server: JoinSet<()>,
}

/// The plan of a flow whose executors are given in short: `a, needs: gateway`.
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

pub(crate) fn at(fake: &Fake) -> Address {
    fake.address.into()
}

/// A plan with one replica for each node.
pub(crate) fn placed(plan: Plan, fakes: &[&Fake]) -> Placement {
    let places = |fake: &&Fake| Places::replicas(vec![at(fake)]);
    placed_at(plan, &fakes.iter().map(places).collect::<Vec<_>>())
}

pub(crate) fn placed_at(plan: Plan, places: &[Places]) -> Placement {
    Placement::new(plan, |at| places[at.index()].clone())
}

impl House {
    pub(crate) async fn open(placement: Placement) -> Self {
        let config = Config {
            host: "127.0.0.1".to_owned(),
            port: 0,
            limits: Limits::default(),
            monitoring: Some(0),
        };
        let gateway = Gateway::bind(&config, placement).await.unwrap();
        let url = format!("grpc://{}", gateway.local_addr());
        let placements = gateway.placements();
        let metrics = gateway.metrics_addr().unwrap();
        let mut server = JoinSet::new();
        server.spawn(async move {
            let drain = Drain::new(Duration::from_secs(1));
            gateway.serve(&drain).await;
        });
        let client = Client::connect(&url).await.unwrap();
        Self {
            placements,
            client,
            url,
            metrics,
            _server: server,
        }
    }

    /// The same gateway at the end of another connection.
    pub(crate) async fn reconnect(self) -> Self {
        Self {
            client: Client::connect(&self.url).await.unwrap(),
            ..self
        }
    }

    /// One request on its own.
    pub(crate) async fn single(&self, request: Envelope) -> Result<Envelope, Failure> {
        self.client.single(request, Deadline::NEVER).await
    }

    /// Requests on a stream; their replies in the order of the requests.
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

/// A request with documents of these ids, which are their texts too.
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

/// What a reply's header says went wrong; nothing, if it did not.
pub(crate) fn wrong(reply: &Envelope) -> String {
    let status = reply.header.as_ref().and_then(|it| it.status.as_ref());
    status.map(|it| it.description.clone()).unwrap_or_default()
}

/// The nodes of a reply's route, each with what is noted of it.
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
