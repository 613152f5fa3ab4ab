//! Flows whose nodes are functions in the test's own process.

use std::fmt;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use flow_core::{CallOptions, Document, DocumentArray, Failure, RequestId, RequestLimits, Usage};
use flow_net::{DocumentStream, Limits, Reply};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, SingleDocumentRequestProto};
use flow_spec::{Plan, TextFile, Variables};
use flow_trace::Tracer;
use futures_util::stream;
use serde_json::json;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::backend::Backend;
use crate::heavy::HeavyWork;
use crate::node::GatewayNode;
use crate::pools::PlacementIndependent;
use crate::snapshot::Snapshot;
use crate::snapshot_store::SnapshotStore;

/// A node that is a function.
#[derive(Clone)]
pub(crate) struct InMemory {
    answer: Arc<Answer>,
    stream: Vec<Result<SingleDocumentRequestProto, Failure>>,
    calls: Arc<Mutex<Vec<Call>>>,
}

type Answer = dyn Fn(Envelope) -> PendingReply + Send + Sync;
type PendingReply = Pin<Box<dyn Future<Output = Result<Envelope, Failure>> + Send>>;

/// A call that a node got.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) parts: Vec<Envelope>,
    pub(crate) options: CallOptions,
}

impl fmt::Debug for InMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InMemory").finish_non_exhaustive()
    }
}

impl InMemory {
    /// A node that answers the first part of each call.
    pub(crate) fn new<F>(answer: impl Fn(Envelope) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<Envelope, Failure>> + Send + 'static,
    {
        Self {
            answer: Arc::new(move |request| Box::pin(answer(request))),
            stream: Vec::new(),
            calls: Arc::default(),
        }
    }

    /// A node that returns its documents.
    pub(crate) fn echo() -> Self {
        Self::new(|request| async { Ok(request) })
    }

    /// A node that sets a tag of its documents.
    pub(crate) fn tag(name: &'static str) -> Self {
        Self::new(move |mut request| async move {
            let mut documents = documents(&request);
            for document in &mut documents {
                let mut tags = document.tags();
                tags.insert(name.to_owned(), json!(true));
                document.set_tags(&tags);
            }
            request.data = Some(documents.encode());
            Ok(request)
        })
    }

    /// A node that fails.
    pub(crate) fn failing(failure: Failure) -> Self {
        Self::new(move |_| std::future::ready(Err(failure.clone())))
    }

    /// A node that takes a permit for each call.
    pub(crate) fn gated(gate: Arc<Semaphore>) -> Self {
        Self::new(move |request| {
            let gate = gate.clone();
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(request)
            }
        })
    }

    /// A node that streams these documents.
    pub(crate) fn streaming(documents: Vec<Result<SingleDocumentRequestProto, Failure>>) -> Self {
        Self {
            stream: documents,
            ..Self::echo()
        }
    }

    /// The calls so far.
    pub(crate) fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }

    pub(crate) async fn call(
        &self,
        parts: &[Envelope],
        options: &CallOptions,
    ) -> Result<Reply, Failure> {
        self.calls.lock().unwrap().push(Call {
            parts: parts.to_vec(),
            options: options.clone(),
        });
        let envelope = (self.answer)(parts[0].clone()).await?;
        Ok(Reply {
            envelope,
            shards: None,
            usage: Some(Usage {
                tokens: 1,
                cached_texts: None,
            }),
        })
    }

    pub(crate) async fn stream(
        &self,
        request: &SingleDocumentRequestProto,
        options: &CallOptions,
    ) -> Result<DocumentStream, Failure> {
        let part = Envelope {
            header: request.header.clone(),
            parameters: request.parameters.clone(),
            routes: request.routes.clone(),
            data: request.document.clone(),
        };
        self.calls.lock().unwrap().push(Call {
            parts: vec![part],
            options: options.clone(),
        });
        Ok(Box::pin(stream::iter(self.stream.clone())))
    }
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

/// The same plan, whose gateway has at most `max` requests in progress.
pub(crate) fn limited(mut plan: Plan, max: usize) -> Plan {
    plan.gateway.in_flight_max = NonZeroUsize::new(max).unwrap();
    plan
}

/// A flow whose nodes are these.
pub(crate) fn flow(plan: Plan, nodes: &[&InMemory]) -> Arc<SnapshotStore> {
    let node = |node: &&InMemory| GatewayNode::new(vec![in_memory(node)], None, None);
    flow_of(plan, nodes.iter().map(node).collect())
}

/// The same flow, whose gateway makes spans.
pub(crate) fn traced(plan: Plan, node: &InMemory, tracer: Tracer) -> Arc<SnapshotStore> {
    let node = GatewayNode::new(vec![in_memory(node)], None, None);
    with_tracer(plan, vec![node], Some(tracer))
}

pub(crate) fn flow_of(plan: Plan, nodes: Vec<GatewayNode>) -> Arc<SnapshotStore> {
    with_tracer(plan, nodes, None)
}

fn with_tracer(plan: Plan, nodes: Vec<GatewayNode>, tracer: Option<Tracer>) -> Arc<SnapshotStore> {
    let shared = PlacementIndependent {
        limits: Limits::default(),
        metrics: None,
        log: Arc::default(),
        requests: RequestLimits::default(),
        heavy: HeavyWork::default(),
        tracer,
        colocated: Arc::default(),
    };
    let ended = CancellationToken::new();
    let snapshot = Snapshot::with_nodes(plan, nodes, shared, ended.clone());
    Arc::new(SnapshotStore::starting_with(snapshot, ended))
}

pub(crate) fn in_memory(node: &InMemory) -> Backend {
    Backend::InMemory(node.clone())
}

/// A request with documents that have these ids.
pub(crate) fn request(endpoint: &str, ids: &[&str]) -> Envelope {
    let document = |id: &&str| {
        let mut document = Document::from_text(id);
        document.set_id(id);
        document
    };
    let documents: DocumentArray = ids.iter().map(document).collect();
    Envelope {
        header: Some(HeaderProto {
            request_id: RequestId::random().into(),
            exec_endpoint: Some(endpoint.to_owned()),
            ..HeaderProto::default()
        }),
        data: Some(documents.encode()),
        ..Envelope::default()
    }
}

pub(crate) fn documents(envelope: &Envelope) -> DocumentArray {
    let data = envelope.data.as_ref();
    data.map(|data| DocumentArray::decode(data).unwrap())
        .unwrap_or_default()
}

pub(crate) fn ids(envelope: &Envelope) -> Vec<String> {
    documents(envelope).iter().map(Document::id).collect()
}

/// The nodes of a reply's routes, without the gateway.
pub(crate) fn route_names(envelope: &Envelope) -> Vec<&str> {
    let routes = envelope.routes.iter().skip(1);
    routes.map(|it| it.executor.as_str()).collect()
}

/// The failure that a reply's header reports; empty if it reports none.
pub(crate) fn error(envelope: &Envelope) -> &str {
    let status = envelope.header.as_ref().and_then(|it| it.status.as_ref());
    status.map_or("", |status| &status.description)
}
