//! One table of cases over every protocol and API: what a client sees when all is well, and when something is not. The routes of models
//! that make other things than a vector have the same cases in `model_routes.rs`.

mod speakers;

use std::sync::Arc;
use std::time::Duration;

use flow_core::{Code, Tensor, parameters};
use flow_proto::Envelope;
use flow_spec::Plan;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tonic::{Response, Status};

use self::speakers::{Ask, Speaker, ask};
use crate::behaviour::{failing, no_keys, outcome, permitted, until_cancelled};
use crate::fake_executor::{Answer, Call, FakeExecutor, documents, first};
use crate::http_client::get;
use crate::test_gateway::{TestGateway, placement, plan};

const ONE: Ask = Ask {
    texts: &["a"],
    known: true,
    truncate: None,
};

const THREE: Ask = Ask {
    texts: &["a", "b", "c"],
    ..ONE
};

/// Checks a case: what each client sees, in the order of [`Speaker::ALL`].
async fn check(run: impl AsyncFn(Speaker) -> String, expected: [&str; 11]) {
    let mut found = Vec::new();
    for speaker in Speaker::ALL {
        found.push(format!("{speaker:?}: {}", run(speaker).await));
    }
    let expected = Speaker::ALL.iter().zip(expected);
    let expected: Vec<String> = expected
        .map(|(speaker, it)| format!("{speaker:?}: {it}"))
        .collect();
    assert_eq!(found, expected);
}

/// The plan of a flow with one executor, which runs a model.
fn model() -> Plan {
    let mut plan = plan(&["node"]);
    let node = plan.nodes[0].name.clone();
    plan.gateway.models.insert("model".to_owned(), node.into());
    plan
}

/// A gateway whose executor is known to it.
async fn start(executor: &FakeExecutor, plan: Plan) -> TestGateway {
    let gateway = TestGateway::start(placement(plan, &[executor])).await;
    assert_eq!(get(&gateway, "/v1/models").await.status, 200);
    gateway
}

/// An executor that gives each document a vector after `before`.
async fn encoder<F>(before: impl Fn() -> F + Send + Sync + 'static) -> FakeExecutor
where
    F: Future<Output = Result<(), Status>> + Send + 'static,
{
    let behave = move |call: Call| -> Answer {
        let before = before();
        Box::pin(async move {
            before.await?;
            Ok(encoded(call))
        })
    };
    FakeExecutor::offering(&["/encode"], Arc::new(behave)).await
}

async fn ready_encoder() -> FakeExecutor {
    encoder(|| std::future::ready(Ok(()))).await
}

fn encoded(call: Call) -> Response<Envelope> {
    let mut reply = first(call);
    let mut documents = documents(reply.get_ref());
    for document in &mut documents {
        document.set_embedding(&Tensor::vector(&[1.0]));
    }
    reply.get_mut().data = Some(documents.encode());
    reply
}

#[tokio::test]
async fn every_text_of_a_request_gets_its_result() {
    for (wanted, count) in [(ONE, "1"), (THREE, "3")] {
        let run = async |speaker: Speaker| {
            let executor = ready_encoder().await;
            ask(speaker, &start(&executor, model()).await, wanted).await
        };
        check(run, [count; 11]).await;
    }
}

#[tokio::test]
async fn parameters_reach_the_executor() {
    let run = async |speaker: Speaker| {
        let executor = ready_encoder().await;
        let gateway = start(&executor, model()).await;
        let wanted = Ask {
            truncate: Some(false),
            ..ONE
        };
        ask(speaker, &gateway, wanted).await;
        let calls = executor.calls();
        let got = parameters::to_json(calls[0].parts[0].parameters.as_ref()).unwrap();
        got.get("truncate").cloned().unwrap_or_default().to_string()
    };
    let not = "false";
    // The Open Inference Protocol has no such parameter.
    let expected = [not, not, not, not, not, not, not, not, not, "null", "null"];
    check(run, expected).await;
}

#[tokio::test]
async fn a_failure_of_the_executor_is_reported_as_each_api_does() {
    let run = async |speaker: Speaker| {
        let executor = encoder(failing(Code::ExecutorFailed)).await;
        ask(speaker, &start(&executor, model()).await, ONE).await
    };
    let expected = [
        "Aborted",
        "header",
        "Aborted",
        "500 header",
        "500 detail",
        "header",
        "500 error",
        "424 error_type",
        "500 message",
        "500 error",
        "Aborted",
    ];
    check(run, expected).await;
}

#[tokio::test]
async fn an_endpoint_that_is_not_there_is_skipped_and_a_route_or_a_model_is_a_404() {
    let run = async |speaker: Speaker| {
        let executor = ready_encoder().await;
        let wanted = Ask {
            known: false,
            ..ONE
        };
        ask(speaker, &start(&executor, model()).await, wanted).await
    };
    let expected = [
        "1",
        "1",
        "1",
        "1",
        "404 detail",
        "1",
        "404 error",
        "404 error_type",
        "404 message",
        "404 error",
        "NotFound",
    ];
    check(run, expected).await;
}

#[tokio::test]
async fn an_executor_that_is_not_available_is_a_503() {
    let run = async |speaker: Speaker| {
        let executor = encoder(failing(Code::Unavailable)).await;
        ask(speaker, &start(&executor, model()).await, ONE).await
    };
    let expected = [
        "Unavailable",
        "header",
        "Unavailable",
        "503 header",
        "503 detail",
        "header",
        "503 error",
        "503 error_type",
        "503 message",
        "503 error",
        "Unavailable",
    ];
    check(run, expected).await;
}

#[tokio::test]
async fn a_call_that_takes_too_long_is_a_504() {
    let run = async |speaker: Speaker| {
        let executor = encoder(std::future::pending).await;
        let mut plan = model();
        plan.nodes[0].calls.timeout = Some(Duration::from_millis(50));
        ask(speaker, &start(&executor, plan).await, ONE).await
    };
    let expected = [
        "DeadlineExceeded",
        "header",
        "DeadlineExceeded",
        "504 header",
        "504 detail",
        "header",
        "504 error",
        "504 error_type",
        "504 message",
        "504 error",
        "DeadlineExceeded",
    ];
    check(run, expected).await;
}

#[tokio::test]
async fn a_client_that_leaves_cancels_the_call() {
    let run = async |speaker: Speaker| {
        let ended = Arc::new(Semaphore::new(0));
        let executor = encoder(until_cancelled(&ended)).await;
        let gateway = Arc::new(start(&executor, model()).await);
        let mut client = JoinSet::new();
        let asked = gateway.clone();
        client.spawn(async move { ask(speaker, &asked, ONE).await });
        executor.was_called(1).await;
        client.shutdown().await;
        outcome(&ended).await
    };
    check(run, ["cancelled"; 11]).await;
}

#[tokio::test]
async fn more_documents_than_are_allowed_are_refused_before_the_executor_sees_them() {
    let run = async |speaker: Speaker| {
        let executor = ready_encoder().await;
        let placement = placement(model(), &[&executor]);
        let limit = |config: &mut flow_gateway::Config| {
            config.limits.requests.documents.documents_max = 2;
        };
        let gateway = TestGateway::configured(placement, limit).await;
        assert_eq!(get(&gateway, "/v1/models").await.status, 200);
        let said = ask(speaker, &gateway, THREE).await;
        format!("{said}, {} calls", executor.calls().len())
    };
    let expected = [
        "header, 0 calls",
        "header, 0 calls",
        "header, 0 calls",
        "200 header, 0 calls",
        "400 detail, 0 calls",
        "header, 0 calls",
        "400 error, 0 calls",
        "422 error_type, 0 calls",
        "400 message, 0 calls",
        "400 error, 0 calls",
        "InvalidArgument, 0 calls",
    ];
    check(run, expected).await;
}

#[tokio::test]
async fn a_client_without_a_key_is_refused_in_the_shape_of_its_api() {
    let run = async |speaker: Speaker| {
        let executor = ready_encoder().await;
        let (_file, keys) = no_keys();
        let gateway = TestGateway::with_keys(placement(model(), &[&executor]), keys).await;
        ask(speaker, &gateway, ONE).await
    };
    let expected = [
        "Unauthenticated",
        "Unauthenticated",
        "Unauthenticated",
        "401 detail",
        "401 detail",
        "401",
        "401 error",
        "401 error_type",
        "401 message",
        "401 error",
        "Unauthenticated",
    ];
    check(run, expected).await;
}

#[tokio::test]
async fn a_request_in_progress_is_answered_while_the_gateway_drains() {
    let run = async |speaker: Speaker| {
        let gate = Arc::new(Semaphore::new(0));
        let executor = encoder(permitted(&gate)).await;
        let gateway = start(&executor, model()).await;
        let drain = async {
            executor.was_called(1).await;
            gateway.drain.begin();
            gate.add_permits(1);
        };
        let (said, ()) = tokio::join!(ask(speaker, &gateway, ONE), drain);
        said
    };
    check(run, ["1"; 11]).await;
}
