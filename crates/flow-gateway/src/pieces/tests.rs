use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use flow_core::{Code, Tensor, TraceContext};
use flow_net::Drain;
use flow_spec::RequestLogging;
use flow_trace::{Sampling, SpanData, Tracer};
use prost_types::Timestamp;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

use super::*;
use crate::http::embeddings::{EmbedRequest, embed};
use crate::http::models::{ServedModel, ServedModels};
use crate::request_log::ACCESS_LOG;
use crate::service::GatewayService;
use crate::tests::in_memory::{InMemory, documents, plan, traced};

const PARENT: &[u8] = b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// Counts the lines of the log of all requests.
#[derive(Clone, Default)]
struct AccessLines(Arc<Mutex<usize>>);

impl Subscriber for AccessLines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == ACCESS_LOG
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        *self.0.lock().unwrap() += 1;
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// A node that gives each document a vector.
fn encoder() -> InMemory {
    InMemory::new(|mut request| async move {
        let mut all = documents(&request);
        for document in &mut all {
            document.set_embedding(&Tensor::vector(&[1.0, 2.0]));
        }
        request.data = Some(all.encode());
        Ok(request)
    })
}

/// Encodes so many texts with a node. Returns how that ended, the spans, and the number of lines in the log of all requests.
async fn encode(node: &InMemory, texts: usize) -> (bool, Receiver<SpanData>, usize) {
    let as_caller = Sampling {
        ratio: 0.0,
        follows_parent: true,
    };
    let (sender, ended) = channel();
    let tracer = Tracer::new(as_caller, move |span| {
        sender.send(span).ok();
    });
    let mut plan = plan(&["encoder"]);
    plan.gateway.logging = RequestLogging {
        slow: None,
        all: true,
    };
    let snapshots = traced(plan, node, tracer);
    let service = GatewayService::new(snapshots, Drain::new(Duration::ZERO).watch());
    let model = ServedModel {
        id: "m".to_owned(),
        executor: "encoder".to_owned(),
        endpoint: "/encode".to_owned(),
        info: None,
        version: flow_core::DocArrayVersion::default(),
    };
    let request = EmbedRequest {
        texts: vec!["a".to_owned(); texts],
        field: "input",
        ..EmbedRequest::default()
    };
    let mut options = CallOptions {
        trace: TraceContext::parse(PARENT).map(Arc::new),
        ..CallOptions::default()
    };
    options.origin.operation = "POST /v1/embeddings".into();
    let lines = AccessLines::default();
    let logging = tracing::subscriber::set_default(lines.clone());
    let models = ServedModels::default();
    let embedded = embed(&service, &models, &model, request, &options).await;
    drop(logging);
    let lines = *lines.0.lock().unwrap();
    (embedded.is_ok(), ended, lines)
}

#[tokio::test]
async fn a_call_in_pieces_is_one_request_in_traces_and_in_the_log() {
    for (texts, pieces) in [(64, 0), (65, 2), (200, 4)] {
        let node = encoder();
        let (is_ok, ended, lines) = encode(&node, texts).await;
        assert!(is_ok);
        assert_eq!(lines, 1, "{texts} texts");
        let spans: Vec<_> = std::iter::from_fn(|| ended.try_recv().ok()).collect();
        let call = spans.iter().find(|it| it.name == "POST /v1/embeddings");
        let call = call.unwrap();
        assert_eq!(call.parent_span_id.to_string(), "b7ad6b7169203331");
        let documents = call.attributes.iter();
        let mut documents = documents.filter(|it| it.key.as_str() == "flow.documents");
        let documents = documents.next().unwrap().value.to_string();
        assert_eq!(documents, texts.to_string());
        let of_call = call.span_context.span_id();
        let of_pieces: Vec<_> = spans.iter().filter(|it| it.name == "piece").collect();
        assert_eq!(of_pieces.len(), pieces, "{texts} texts");
        assert!(of_pieces.iter().all(|it| it.parent_span_id == of_call));
        // The nodes are within the pieces, or within the call that is one.
        let nodes = spans.iter().filter(|it| it.name == "encoder");
        assert_eq!(nodes.count(), pieces.max(1));
        let ids = node.calls();
        let id = |at: usize| ids[at].parts[0].header.as_ref().unwrap().request_id.clone();
        assert_eq!(id(0), id(pieces.max(1) - 1));
    }
}

#[tokio::test]
async fn a_call_whose_piece_fails_is_an_error_of_its_span() {
    let node = InMemory::failing(Failure::new(Code::Lost, "gone"));
    let (is_ok, ended, lines) = encode(&node, 65).await;
    assert_eq!((is_ok, lines), (false, 1));
    let spans: Vec<_> = std::iter::from_fn(|| ended.try_recv().ok()).collect();
    let call = spans.iter().find(|it| it.name == "POST /v1/embeddings");
    let status = format!("{:?}", call.unwrap().status);
    assert!(status.contains("gone"), "{status}");
}

#[test]
fn a_node_works_from_its_first_piece_to_its_last() {
    let at = |seconds| Some(Timestamp { seconds, nanos: 0 });
    let route = |from, to| RouteProto {
        executor: "encoder".to_owned(),
        start_time: at(from),
        end_time: at(to),
        status: None,
    };
    let mut joined = route(3, 5);
    join(&mut joined, &route(2, 4));
    assert_eq!(joined, route(2, 5));
    join(&mut joined, &route(4, 9));
    assert_eq!(joined, route(2, 9));
    join(&mut joined, &RouteProto::default());
    assert_eq!(joined, route(2, 9));
}
