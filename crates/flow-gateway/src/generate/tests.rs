use std::time::Duration;

use flow_core::query::Query;
use flow_core::{Document, Failure, parameters};
use flow_proto::jina::StatusProto;
use flow_spec::Plan;
use serde_json::json;

use super::*;
use crate::node::GatewayNode;
use crate::tests::in_memory::{InMemory, flow, flow_of, in_memory, limited, plan};

fn document(text: &str) -> SingleDocumentRequestProto {
    SingleDocumentRequestProto {
        document: Some(Document::from_text(text).encode()),
        ..SingleDocumentRequestProto::default()
    }
}

fn request(text: &str) -> SingleDocumentRequestProto {
    SingleDocumentRequestProto {
        header: Some(HeaderProto {
            request_id: "7".to_owned(),
            exec_endpoint: Some("/x".to_owned()),
            ..HeaderProto::default()
        }),
        ..document(text)
    }
}

fn texts(items: &[Item]) -> Vec<String> {
    let text = |item: &Item| {
        let raw = item.as_ref().unwrap().document.clone().unwrap();
        let document = Document::decode(flow_core::DocArrayVersion::V1, raw).unwrap();
        document.text()
    };
    items.iter().map(text).collect()
}

fn options() -> (CallOptions, RequestRecord) {
    (CallOptions::default(), RequestRecord::default())
}

fn counting() -> InMemory {
    InMemory::streaming(["1", "2"].map(|text| Ok(document(text))).to_vec())
}

async fn run(plan: Plan, node: &InMemory, request: SingleDocumentRequestProto) -> Vec<Item> {
    let snapshots = flow(plan, &[node]);
    let admitted = RequestPermit::now(snapshots.newest()).unwrap();
    let documents = documents(admitted, request, options()).await;
    documents.unwrap().collect().await
}

#[tokio::test]
async fn each_document_has_the_clients_header_and_the_routes() {
    let node = counting();
    let items = run(plan(&["a"]), &node, request("go")).await;
    assert_eq!(texts(&items), ["1", "2"]);
    for item in items {
        let item = item.unwrap();
        assert_eq!(item.header.unwrap().request_id, "7");
        let names: Vec<_> = item.routes.iter().map(|it| it.executor.as_str()).collect();
        assert_eq!(names, ["gateway", "a"]);
        assert!(item.routes[1].start_time.is_some() && item.routes[1].end_time.is_some());
    }
}

#[tokio::test]
async fn the_node_gets_its_own_parameters_and_its_time_out() {
    let node = counting();
    let mut plan = plan(&["a"]);
    plan.nodes[0].calls.timeout = Some(Duration::from_secs(3600));
    let sent = json!({"a__top_k": 5, "top_k": 6});
    let request = SingleDocumentRequestProto {
        parameters: Some(parameters::from_json(sent.as_object().unwrap())),
        ..request("go")
    };
    run(plan, &node, request).await;
    let call = node.calls().remove(0);
    let seen = parameters::to_json(call.parts[0].parameters.as_ref()).unwrap();
    assert_eq!(json!(seen), json!({"top_k": 5}));
    assert!(call.options.deadline.instant().is_some());
    let header = call.parts[0].header.clone().unwrap();
    assert_eq!(header.target_executor.as_deref(), Some(""));
}

#[tokio::test]
async fn a_document_that_is_not_for_the_node_passes_through() {
    let node = counting();
    let mut elsewhere = request("go");
    elsewhere.header.as_mut().unwrap().target_executor = Some("other".to_owned());
    assert_eq!(texts(&run(plan(&["a"]), &node, elsewhere).await), ["go"]);

    let mut conditional = plan(&["a"]);
    let when = Query::parse(&json!({"text": {"$eq": "yes"}})).unwrap();
    conditional.nodes[0].calls.when = Some(when);
    let items = run(conditional.clone(), &node, request("no")).await;
    assert_eq!(texts(&items), ["no"]);
    assert!(node.calls().is_empty());
    let items = run(conditional, &node, request("yes")).await;
    assert_eq!(texts(&items), ["1", "2"]);
}

#[tokio::test]
async fn a_failure_names_the_executor_and_a_reported_one_is_in_the_routes() {
    let status = StatusProto {
        code: 1,
        description: "no".to_owned(),
        exception: None,
    };
    let reported = SingleDocumentRequestProto {
        header: Some(HeaderProto {
            status: Some(status.clone()),
            ..HeaderProto::default()
        }),
        ..SingleDocumentRequestProto::default()
    };
    let lost = Failure::new(Code::Lost, "gone");
    let node = InMemory::streaming(vec![Ok(reported), Err(lost)]);
    let items = run(plan(&["a"]), &node, request("go")).await;
    let first = items[0].as_ref().unwrap();
    assert_eq!(first.header.as_ref().unwrap().status, Some(status.clone()));
    assert_eq!(first.routes[1].status, Some(status));
    let second = items[1].as_ref().unwrap_err();
    assert_eq!(second.to_string(), "executor `a`: gone");
}

#[tokio::test]
async fn a_stream_holds_its_permit_to_its_end() {
    let node = counting();
    let snapshots = flow(limited(plan(&["a"]), 1), &[&node]);
    let admitted = RequestPermit::now(snapshots.newest()).unwrap();
    let documents = documents(admitted, request("go"), options()).await;
    assert!(RequestPermit::now(snapshots.newest()).is_err());
    drop(documents);
    assert!(RequestPermit::now(snapshots.newest()).is_ok());
}

#[tokio::test]
async fn only_a_single_node_without_shards_can_stream() {
    let node = counting();
    let failure = async |snapshots: std::sync::Arc<crate::snapshot_store::SnapshotStore>| {
        let admitted = RequestPermit::now(snapshots.newest()).unwrap();
        let documents = documents(admitted, request("go"), options()).await;
        documents.err().unwrap()
    };
    let two = failure(flow(plan(&["a", "b"]), &[&node, &node])).await;
    assert_eq!(two.code(), Code::Unimplemented);
    assert!(two.message().contains("exactly one executor"), "{two}");
    let shards = vec![in_memory(&node), in_memory(&node)];
    let sharded = flow_of(
        plan(&["a, shards: 2"]),
        vec![GatewayNode::new(shards, None, None)],
    );
    let sharded = failure(sharded).await;
    assert!(sharded.message().contains("without shards"), "{sharded}");
}
