//! Compressed requests to executors.

use flow_spec::Compression::{self, Deflate, Gzip};

use crate::fake_executor::{FakeExecutor, ids};
use crate::test_gateway::{TestGateway, placement, plan, request};

/// How a request came to the executor that has this many documents with ids of this length.
async fn encoding(
    compression: Option<Compression>,
    (documents, id_len): (usize, usize),
) -> Option<String> {
    let echo = FakeExecutor::echo().await;
    let mut plan = plan(&["node"]);
    plan.nodes[0].calls.compression = compression;
    let gateway = TestGateway::start(placement(plan, &[&echo])).await;
    let wanted: Vec<String> = (0..documents).map(|it| format!("{it:0id_len$}")).collect();
    let wanted: Vec<&str> = wanted.iter().map(String::as_str).collect();
    let reply = gateway.single(request("/x", &wanted)).await.unwrap();
    assert_eq!(ids(&reply), wanted);
    let call = echo.calls().pop().unwrap();
    let encoding = call.metadata.get("grpc-encoding");
    encoding.map(|it| it.to_str().unwrap().to_owned())
}

#[tokio::test]
async fn requests_of_a_kilobyte_to_a_megabyte_are_compressed_if_the_flow_says_so() {
    assert_eq!(encoding(None, (500, 8)).await, None);
    assert_eq!(
        encoding(Some(Gzip), (500, 8)).await.as_deref(),
        Some("gzip")
    );
    assert_eq!(
        encoding(Some(Deflate), (500, 8)).await.as_deref(),
        Some("deflate")
    );
    assert_eq!(encoding(Some(Gzip), (1, 8)).await, None);
    assert_eq!(encoding(Some(Gzip), (300, 4096)).await, None);
}

#[tokio::test]
async fn the_parts_of_a_request_are_compressed_together() {
    let (left, right, join) = (
        FakeExecutor::echo().await,
        FakeExecutor::echo().await,
        FakeExecutor::echo().await,
    );
    let mut plan = plan(&[
        "left, needs: gateway",
        "right, needs: gateway",
        "join, needs: [left, right]",
    ]);
    plan.nodes[2].calls.reduce = false;
    plan.nodes[2].calls.compression = Some(Gzip);
    let gateway = TestGateway::start(placement(plan, &[&left, &right, &join])).await;
    gateway.single(request("/x", &["1"; 500])).await.unwrap();
    let call = join.calls().pop().unwrap();
    assert_eq!(call.parts.len(), 2);
    let encoding = call.metadata.get("grpc-encoding").unwrap();
    assert_eq!(encoding.to_str().unwrap(), "gzip");
}
