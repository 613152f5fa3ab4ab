//! Parameters that no executor accepts.

use flow_proto::Envelope;
use serde_json::{Value, json};

use crate::fake_executor::{FakeExecutor, ids};
use crate::test_gateway::{TestGateway, error, placement, plan, request};

const ENCODER: &[(&str, &[&str])] = &[("/encode", &["batch_size"]), ("/default", &["batch_size"])];
const INDEX: &[(&str, &[&str])] = &[("/index", &[]), ("/search", &["top_k"])];

fn with(endpoint: &str, parameters: &Value) -> Envelope {
    let parameters = flow_core::parameters::from_json(parameters.as_object().unwrap());
    Envelope {
        parameters: Some(parameters),
        ..request(endpoint, &["1"])
    }
}

fn for_target(target: &str, request: Envelope) -> Envelope {
    let mut request = request;
    request.header.as_mut().unwrap().target_executor = Some(target.to_owned());
    request
}

#[tokio::test]
async fn an_unknown_parameter_is_refused_in_the_first_request_already() {
    let (encoder, index) = (
        FakeExecutor::accepting(ENCODER).await,
        FakeExecutor::accepting(INDEX).await,
    );
    let plan = plan(&["encoder", "index"]);
    let gateway = TestGateway::start(placement(plan, &[&encoder, &index])).await;
    let reply = gateway.single(with("/search", &json!({"topk": 2}))).await;
    let expected = "`/search` accepts no parameter `topk`; did you mean `top_k`?";
    assert_eq!(error(&reply.unwrap()), expected);
    assert!(encoder.calls().is_empty() && index.calls().is_empty());
}

#[tokio::test]
async fn a_parameter_must_be_accepted_by_some_executor() {
    let (encoder, index) = (
        FakeExecutor::accepting(ENCODER).await,
        FakeExecutor::accepting(INDEX).await,
    );
    let plan = plan(&["encoder", "index"]);
    let gateway = TestGateway::start(placement(plan, &[&encoder, &index])).await;
    let common = json!({"top_k": 2, "batch_size": 8, "encoder__batch_size": 4, "other__x": 1});
    let replies = gateway
        .post(vec![
            with("/search", &common),
            with("/search", &json!({"index__batch_size": 4})),
            with("/search", &json!({"indx__top_k": 4})),
            with("/index", &json!({"top_k": 4})),
        ])
        .await;
    assert_eq!(
        (error(&replies[0]), ids(&replies[0])),
        (String::new(), vec!["1".to_owned()])
    );
    assert_eq!(
        error(&replies[1]),
        "executor `index`: `/search` accepts no parameter `batch_size`; it accepts: top_k"
    );
    assert_eq!(
        error(&replies[2]),
        "parameter `indx__top_k` is for an executor `indx` that is not here; did you mean `index__top_k`?"
    );
    assert_eq!(
        error(&replies[3]),
        "`/index` accepts no parameter `top_k`; it accepts: batch_size"
    );
}

#[tokio::test]
async fn only_executors_that_the_request_addresses_count() {
    let (own, index) = (
        FakeExecutor::echo().await,
        FakeExecutor::accepting(INDEX).await,
    );
    let plan = plan(&["own", "index"]);
    let gateway = TestGateway::start(placement(plan, &[&own, &index])).await;
    let topk = || with("/search", &json!({"topk": 2}));
    let replies = gateway
        .post(vec![
            // `own` does not name its parameters.
            topk(),
            for_target("index", topk()),
            for_target("own", topk()),
        ])
        .await;
    assert_eq!(error(&replies[0]), "");
    assert!(error(&replies[1]).contains("did you mean `top_k`?"));
    assert_eq!(error(&replies[2]), "");
}
