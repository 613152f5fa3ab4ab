use flow_launch::protocol::ProcessState;

use super::*;
use crate::cmd::flows::top::fixture::{ELSEWHERE, sample};

fn model(seconds: impl Iterator<Item = u64>) -> FlowModel {
    let mut model = FlowModel::default();
    seconds.for_each(|second| model.push(sample(second)));
    model
}

fn row(model: &FlowModel, name: &str) -> Row {
    let mut rows = model.rows().into_iter();
    rows.find(|row| row.name == name).unwrap()
}

#[track_caller]
fn check_rate(row: &Row, per_second: f64) {
    let found = row.rates.unwrap().per_second;
    assert!((found - per_second).abs() < 1e-9, "{found}");
}

#[test]
fn the_gateway_is_first_and_what_runs_elsewhere_is_last() {
    let model = model(0..=1);
    let rows = model.rows();
    let names: Vec<&str> = rows.iter().map(|it| it.name.as_str()).collect();
    let external = format!("ranker@{ELSEWHERE}");
    let expected = [
        "gateway",
        "segmenter",
        "encoder/rep-0",
        "encoder/rep-1",
        "index",
        external.as_str(),
    ];
    assert_eq!(names, expected);
    assert_eq!(row(&model, &external).state, State::External);
    assert_eq!(row(&model, &external).memory_bytes, None);
}

#[test]
fn rates_are_those_of_the_last_five_seconds() {
    // Of the seconds 4 to 8: 60, 70, 80, 90 and 20.
    check_rate(&row(&model(0..=8), "gateway"), 64.0);
    check_rate(&row(&model(0..=8), "index"), 64.0);
    check_rate(&row(&model(0..=8), &format!("ranker@{ELSEWHERE}")), 64.0);
    // Samples that are rarer.
    check_rate(&row(&model([0, 8].into_iter()), "gateway"), 440.0 / 8.0);
    assert_eq!(row(&model(8..=8), "gateway").rates, None);
}

#[test]
fn cpu_time_is_a_share_of_a_core() {
    let cpu = |name| row(&model(0..=3), name).cpu_percent.unwrap();
    assert!((cpu("encoder/rep-0") - 50.0).abs() < 1e-9);
    assert!((cpu("index") - 100.0).abs() < 1e-9);
}

#[test]
fn a_process_that_was_replaced_counts_from_its_own_first_sample() {
    let mut model = model(0..=3);
    let restarted = |second: u64| {
        let mut sample = sample(second);
        let traffic = sample.traffic.as_mut().unwrap();
        for (count, bucket) in (second..).zip(traffic.requests.durations.values_mut()) {
            *bucket = count;
        }
        let gateway = sample.processes.last_mut().unwrap();
        gateway.info.pid = Some(5_000);
        gateway.cpu_seconds = Some(0.0);
        sample
    };
    model.push(restarted(4));
    let gateway = row(&model, "gateway");
    assert_eq!((gateway.rates, gateway.cpu_percent), (None, None));
    model.push(restarted(5));
    // Each of the two buckets has one request more.
    check_rate(&row(&model, "gateway"), 2.0);
}

#[test]
fn a_gateway_that_does_not_answer_leaves_its_numbers_out() {
    let mut model = model(0..=3);
    let mut silent = sample(4);
    silent.traffic = None;
    model.push(silent);
    let gateway = row(&model, "gateway");
    assert_eq!((gateway.rates, gateway.in_progress), (None, None));
    assert!(gateway.cpu_percent.is_some());
    assert_eq!(
        model.rows().len(),
        5,
        "nothing is known of the external one"
    );
}

#[test]
fn a_replica_that_runs_and_cannot_be_reached_is_ejected() {
    let mut model = model(0..=1);
    let mut ejected = sample(2);
    let replicas = &mut ejected.traffic.as_mut().unwrap().replicas;
    replicas[1].is_ejected = true;
    replicas[2].is_ejected = true;
    ejected.processes[2].info.state = ProcessState::Waiting;
    model.push(ejected);
    assert_eq!(row(&model, "encoder/rep-0").state, State::Ejected);
    let waiting = State::Process(ProcessState::Waiting);
    assert_eq!(row(&model, "encoder/rep-1").state, waiting);
}

#[test]
fn charts_have_a_point_for_each_interval_of_the_flow_and_of_each_node() {
    let model = model(0..=400);
    for node in [None, Some("segmenter"), Some("ranker")] {
        let points = model.points(node);
        assert_eq!(points.len(), POINTS_MAX);
        // Second 400, which is a multiple of 8.
        let last = points.last().unwrap();
        assert!((last.per_second - 20.0).abs() < 1e-9, "{last:?}");
        assert!(last.p99.is_some());
    }
    assert_eq!(model.points(Some("nobody")), []);
}

#[test]
fn a_process_that_listens_everywhere_is_the_replica_at_the_loopback_address() {
    let mut sample = sample(1);
    let mut process = sample.processes.remove(0).info;
    let replica = sample.traffic.unwrap().replicas.remove(0);
    assert!(is_replica(&replica, &process));
    process.address = Some("0.0.0.0:41001".parse().unwrap());
    assert!(is_replica(&replica, &process));
    process.address = Some("127.0.0.2:41001".parse().unwrap());
    assert!(!is_replica(&replica, &process));
}
