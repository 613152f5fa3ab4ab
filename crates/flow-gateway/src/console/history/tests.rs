use std::time::Instant;

use flow_core::{Code, Failure};
use flow_proto::jina::{HeaderProto, RouteProto};

use super::*;
use crate::request_record::RequestFailure;

const MS: Duration = Duration::from_millis(1);

/// When the tests begin.
fn start() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000)
}

fn route(node: &str, from: SystemTime, took: Duration) -> RouteProto {
    RouteProto {
        executor: node.to_owned(),
        start_time: Some(from.into()),
        end_time: Some((from + took).into()),
        ..RouteProto::default()
    }
}

fn header(id: &str) -> HeaderProto {
    HeaderProto {
        request_id: id.to_owned(),
        exec_endpoint: Some("/encode".to_owned()),
        ..HeaderProto::default()
    }
}

/// Records a request that began then, took so long, and worked at these nodes.
fn record(history: &History, id: &str, from: SystemTime, took: Duration, nodes: &[&str]) {
    let mut routes = vec![route("gateway", from, took)];
    routes.extend(nodes.iter().map(|node| route(node, from, took / 2)));
    let end = RequestEnd {
        header: &header(id),
        routes: &routes,
        failed: None,
    };
    history.record(&RequestRecord::default(), &end);
}

fn fail(history: &History, id: &str, from: SystemTime) {
    let failure = Failure::new(Code::ExecutorFailed, "no <b>luck</b>");
    let end = RequestEnd {
        header: &header(id),
        routes: &[route("gateway", from, Duration::ZERO)],
        failed: Some(RequestFailure::of_failure(&failure)),
    };
    history.record(&RequestRecord::default(), &end);
}

fn ids(requests: &[Arc<KeptRequest>]) -> Vec<&str> {
    requests.iter().map(|it| it.id.as_str()).collect()
}

#[test]
fn a_request_counts_for_the_flow_and_for_each_of_its_nodes() {
    let history = History::new(start());
    let took = Duration::from_millis(8);
    record(&history, "1", start(), took, &["a", "b"]);
    record(&history, "2", start(), took, &["a"]);
    fail(&history, "3", start());
    let now = start() + Duration::from_secs(10);
    let flow = history.recent(now);
    assert_eq!((flow.requests, flow.failed), (3, 1));
    assert!((flow.per_second - 0.3).abs() < 1e-9, "{flow:?}");
    assert_eq!(history.recent_of("a", now).requests, 2);
    assert_eq!(history.recent_of("b", now).requests, 1);
    assert_eq!(history.recent_of("c", now), Recent::default());
    assert_eq!(history.since(None, 0, now)[0].requests, 3);
    assert_eq!(history.since(Some("b"), 0, now)[0].requests, 1);
    assert!(history.since(Some("c"), 0, now).is_empty());
}

#[test]
fn a_node_that_a_request_passes_by_does_not_count_it() {
    let history = History::new(start());
    let routes = [
        route("gateway", start(), MS),
        route("asked", start(), MS),
        route("passed", start(), Duration::ZERO),
    ];
    let end = RequestEnd {
        header: &header("1"),
        routes: &routes,
        failed: None,
    };
    history.record(&RequestRecord::default(), &end);
    assert_eq!(history.recent_of("asked", start()).requests, 1);
    assert_eq!(history.recent_of("passed", start()).requests, 0);
}

#[test]
fn a_node_that_ends_after_the_reply_counts_the_request() {
    let now = SystemTime::now();
    let history = History::new(now);
    let end = RequestEnd {
        header: &header("1"),
        routes: &[route("gateway", now, MS), route("late", now, MS)],
        failed: None,
    };
    history.record_floating(&end);
    assert_eq!(history.recent_of("late", SystemTime::now()).requests, 1);
    assert_eq!(history.recent(SystemTime::now()).requests, 0);
}

#[test]
fn readiness_checks_are_left_out() {
    let history = History::new(start());
    let header = HeaderProto {
        exec_endpoint: Some(flow_core::Endpoint::DRY_RUN.to_owned()),
        ..HeaderProto::default()
    };
    let end = RequestEnd {
        header: &header,
        routes: &[],
        failed: None,
    };
    history.record(&RequestRecord::default(), &end);
    assert_eq!(history.recent(start()).requests, 0);
}

#[test]
fn the_slowest_requests_of_the_last_hour_are_kept() {
    let history = History::new(start());
    for ms in 1..=200 {
        let at = start() + Duration::from_secs(ms);
        record(
            &history,
            &ms.to_string(),
            at,
            Duration::from_millis(ms),
            &["a"],
        );
    }
    let (_, slow) = history.kept(start() + Duration::from_secs(300));
    assert_eq!(slow.len(), KEPT_MAX);
    assert_eq!(ids(&slow)[..3], ["200", "199", "198"]);
    let (_, slow) = history.kept(start() + Duration::from_secs(3600 + 199));
    assert_eq!(ids(&slow), ["200", "199"]);
}

#[test]
fn the_last_failures_are_kept_and_a_flood_of_them_is_only_counted() {
    let history = History::new(start());
    for number in 0..1000 {
        fail(&history, &number.to_string(), start());
    }
    let later = start() + Duration::from_secs(10);
    fail(&history, "later", later);
    let (failures, slow) = history.kept(later);
    assert_eq!(failures.len(), KEPT_MAX);
    assert_eq!(ids(&failures)[..2], ["later", "49"]);
    assert!(slow.is_empty());
    assert_eq!(history.recent(later).failed, 1001);
}

#[test]
fn a_kept_request_says_where_its_time_went() {
    let history = History::new(start());
    record(&history, "1", start(), Duration::from_millis(8), &["a"]);
    let (_, slow) = history.kept(start());
    let json = serde_json::to_value(&slow[0]).unwrap();
    assert_eq!(json["endpoint"], "/encode");
    assert_eq!(json["took_ms"], 8.0);
    assert_eq!(json["ended_s"], 1_000_000.008);
    assert_eq!(
        json["nodes"],
        serde_json::json!([{"name": "a", "after_ms": 0.0, "took_ms": 4.0, "failed": false}])
    );
}

#[test]
fn the_history_stays_within_the_memory_that_the_book_names() {
    let history = History::new(start());
    let names: Vec<String> = (0..100).map(|it| format!("node-{it}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let id = "x".repeat(100_000);
    record(&history, &id, start(), Duration::from_secs(1), &names);
    let state = history.state();
    assert_eq!(state.nodes.len(), NODES_MAX);
    assert!(state.slow[0].id.len() <= 128);
    const { assert!(History::BYTES_MAX < 5_000_000) };
}

#[test]
fn a_node_that_was_not_called_for_an_hour_is_replaced_by_another() {
    let history = History::new(start());
    for number in 0..=NODES_MAX {
        record(
            &history,
            "1",
            start(),
            Duration::ZERO,
            &[&number.to_string()],
        );
    }
    let last = NODES_MAX.to_string();
    assert_eq!(history.recent_of(&last, start()).requests, 0);
    let later = start() + Duration::from_secs(3700);
    record(&history, "1", later, MS * 2, &[&last]);
    assert_eq!(history.recent_of(&last, later).requests, 1);
}

/// The cost of recording, which each request of a gateway with a console pays: the fastest of several rounds, so that
/// other work of the machine does not count. Without optimization it takes many times as long.
#[test]
fn recording_a_request_takes_negligible_time() {
    const ROUNDS: u32 = 50;
    const REQUESTS: u32 = 2_000;
    let history = History::new(start());
    let routes = ["gateway", "encoder", "index"].map(|it| route(it, start(), MS));
    let end = RequestEnd {
        header: &header("1"),
        routes: &routes,
        failed: None,
    };
    let request = RequestRecord::default();
    let rounds = (0..ROUNDS).map(|_| {
        let began = Instant::now();
        for _ in 0..REQUESTS {
            history.record(&request, &end);
        }
        began.elapsed() / REQUESTS
    });
    let each = rounds.min().unwrap().as_nanos();
    println!("{each} ns for each request");
    let bound = if cfg!(debug_assertions) { 10_000 } else { 200 };
    assert!(each < bound, "{each} ns");
}
