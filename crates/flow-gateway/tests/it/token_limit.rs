//! The tokens that one call for vectors may have, in the shape of each API.

use std::num::NonZeroUsize;

use flow_core::{Tensor, Usage};
use flow_net::write_usage;
use flow_proto::Envelope;
use serde_json::{Value, json};
use tonic::Response;

use crate::fake_executor::{Call, FakeExecutor, documents, first};
use crate::http_client::{get, post};
use crate::test_gateway::{TestGateway, placement, plan};

/// Tokens of each text.
const TOKENS: u64 = 10;

/// A gateway with a limit of a hundred tokens, before an executor that counts ten for each text.
async fn start() -> (FakeExecutor, TestGateway) {
    let executor = FakeExecutor::start(|call| async { Ok(counted(call)) }).await;
    let mut plan = plan(&["node"]);
    let node = plan.nodes[0].name.clone();
    plan.gateway.models.insert("model".to_owned(), node.into());
    plan.gateway.limits.tokens_max = NonZeroUsize::new(100);
    let gateway = TestGateway::start(placement(plan, &[&executor])).await;
    (executor, gateway)
}

fn counted(call: Call) -> Response<Envelope> {
    let mut reply = first(call);
    let mut documents = documents(reply.get_ref());
    for document in &mut documents {
        document.set_embedding(&Tensor::vector(&[1.0]));
    }
    reply.get_mut().data = Some(documents.encode());
    let usage = Usage {
        tokens: TOKENS * documents.len() as u64,
        cached_texts: None,
    };
    write_usage(reply.metadata_mut(), usage);
    reply
}

#[tokio::test]
async fn a_call_with_too_many_tokens_is_refused_in_the_shape_of_its_api() {
    let (_executor, gateway) = start().await;
    let texts = |count: usize| vec!["a"; count];
    let tensor = |count: usize| {
        let input =
            json!({"name": "text", "datatype": "BYTES", "shape": [count], "data": texts(count)});
        json!({ "inputs": [input] })
    };
    type Body<'b> = &'b dyn Fn(usize) -> Value;
    let apis: [(&str, Body<'_>, u16, &str); 4] = [
        (
            "/v1/embeddings",
            &|count| json!({"input": texts(count)}),
            400,
            "/error/message",
        ),
        (
            "/embed",
            &|count| json!({"inputs": texts(count)}),
            422,
            "/error",
        ),
        (
            "/v2/embed",
            &|count| json!({"texts": texts(count)}),
            400,
            "/message",
        ),
        ("/v2/models/model/infer", &tensor, 400, "/error"),
    ];
    for (path, body, status, message) in apis {
        let fits = post(&gateway, path, &body(10)).await;
        assert_eq!(fits.status, 200, "{path}: {fits:?}");
        for too_many in [11, 101] {
            let refused = post(&gateway, path, &body(too_many)).await;
            assert_eq!(refused.status, status, "{path}: {refused:?}");
            let json = refused.json();
            let said = json.pointer(message).and_then(Value::as_str).unwrap();
            assert!(said.contains("more than 100 tokens"), "{path}: {said}");
        }
    }
    let info = get(&gateway, "/info").await.json();
    assert_eq!(info["max_client_tokens"], 100);
}

#[tokio::test]
async fn more_texts_than_tokens_are_refused_before_anything_is_sent() {
    let (executor, gateway) = start().await;
    let before = executor.calls().len();
    let texts = vec!["a"; 101];
    let refused = post(&gateway, "/embed", &json!({ "inputs": texts })).await;
    assert_eq!(refused.status, 422, "{refused:?}");
    assert_eq!(executor.calls().len(), before, "each text is a token");
}
