use std::time::Duration;

use flow_net::Drain;
use tokio::sync::Semaphore;

use super::*;
use crate::tests::in_memory::{InMemory, error, flow, limited, plan, request};

fn service(snapshots: Arc<SnapshotStore>) -> GatewayService {
    GatewayService::new(snapshots, Drain::new(Duration::ZERO).watch())
}

/// A service with one permit, and what frees it.
fn busy() -> (GatewayService, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let node = InMemory::gated(gate.clone());
    (service(flow(limited(plan(&["a"]), 1), &[&node])), gate)
}

#[tokio::test]
async fn a_busy_gateway_refuses_every_call_that_does_not_wait() {
    let (service, gate) = busy();
    let options = CallOptions::default();
    let first = service.unary(request("/x", &["1"]), options.clone());
    let others = async {
        let unary = service.unary(request("/x", &["2"]), options.clone()).await;
        let document = SingleDocumentRequestProto::default();
        let refusals = [
            unary.err().unwrap(),
            service
                .generate(document, options.clone())
                .await
                .err()
                .unwrap(),
            service.dry_run(options.clone()).await.err().unwrap(),
            service.endpoints(&options).await.err().unwrap(),
            service.ask_offered(&options).await.err().unwrap(),
        ];
        gate.add_permits(1);
        refusals
    };
    let (first, refusals) = tokio::join!(first, others);
    assert_eq!(error(&first.unwrap().envelope), "");
    for refusal in refusals {
        assert_eq!(refusal.code(), Code::Overloaded);
        assert!(refusal.retry_after().is_some());
    }
}

#[tokio::test]
async fn a_bad_request_is_a_reply_and_other_failures_end_the_call() {
    let lost = InMemory::failing(Failure::new(Code::Lost, "gone"));
    let service = service(flow(plan(&["a"]), &[&lost]));
    let options = CallOptions::default();
    let failure = service.unary(request("/x", &["1"]), options.clone()).await;
    assert_eq!(failure.unwrap_err().code(), Code::Lost);

    let mut bad = request("/x", &["1"]);
    bad.header.as_mut().unwrap().target_executor = Some("(".to_owned());
    let reply = service.unary(bad, options).await.unwrap();
    assert!(error(&reply.envelope).contains("regular expression"));
}

#[tokio::test]
async fn a_dry_run_reports_the_failure_of_an_executor_as_a_status() {
    let lost = InMemory::failing(Failure::new(Code::Lost, "gone"));
    let broken = service(flow(plan(&["a"]), &[&lost]));
    let status = broken.dry_run(CallOptions::default()).await.unwrap();
    assert_eq!(
        (status.code, status.description.as_str()),
        (1, "executor `a`: gone")
    );
    let fine = service(flow(plan(&["a"]), &[&InMemory::echo()]));
    let status = fine.dry_run(CallOptions::default()).await.unwrap();
    assert_eq!(status.code, 0);
}
