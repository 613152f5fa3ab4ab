//! A flow with a gateway, three executors of which one has two replicas, and an executor that runs elsewhere.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use flow_gateway::{Counts, ReplicaTraffic, Traffic};
use flow_launch::protocol::{ProcessInfo, ProcessState};
use flow_launch::registry::RegistryEntry;

use super::sample::{FlowSample, ProcessSample, Sample};

/// Where the executor that runs elsewhere listens.
pub(super) const ELSEWHERE: &str = "10.0.0.7:54400";

/// Counts of a number of requests, of which each took the given milliseconds, and of the failures among them.
pub(super) fn counts(failed: u64, requests: &[(f64, u64)]) -> Counts {
    #[allow(
        clippy::cast_possible_truncation,
        reason = "the number of a bucket is small"
    )]
    let bucket = |ms: f64| ((ms / 1e3).log2() * 8.0).ceil() as i32;
    let durations = requests.iter().map(|(ms, count)| (bucket(*ms), *count));
    Counts {
        failed,
        durations: durations.collect(),
    }
}

/// A process that was ready for an hour when the samples begin.
pub(super) fn process(name: &str, number: u16, second: u64) -> ProcessSample {
    let node = name.split('/').next().filter(|it| *it != "gateway");
    #[allow(clippy::cast_precision_loss, reason = "a few seconds")]
    let seconds = second as f64;
    ProcessSample {
        info: ProcessInfo {
            name: name.to_owned(),
            node: node.map(str::to_owned),
            pid: Some(4_000 + u32::from(number)),
            state: ProcessState::Ready,
            address: Some(address(number).into()),
            restarts: u32::from(number == 2),
            uptime_seconds: Some(3_723.5 + seconds),
            memory_bytes: Some(u64::from(number) * (90 << 20)),
        },
        cpu_seconds: Some(seconds * f64::from(number) / 4.0),
        waiting: node.map(|_| usize::from(number) - 1),
    }
}

pub(super) fn replica(number: u16, calls: Counts) -> ReplicaTraffic {
    let node = ["gateway", "segmenter", "encoder", "encoder", "index"];
    ReplicaTraffic {
        node: node[usize::from(number)].to_owned(),
        address: address(number).to_string(),
        calls,
        in_progress: usize::from(number) + 1,
        is_ejected: false,
    }
}

fn address(number: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 41_000 + number))
}

/// The flow this many seconds after the samples begin.
pub(super) fn sample(second: u64) -> Sample {
    let all: u64 = (1..=second).map(|it| 20 + 10 * (it % 8)).sum();
    let names = [
        "segmenter",
        "encoder/rep-0",
        "encoder/rep-1",
        "index",
        "gateway",
    ];
    let processes = names.iter().zip([1, 2, 3, 4, 0]);
    let external = ReplicaTraffic {
        node: "ranker".to_owned(),
        address: ELSEWHERE.to_owned(),
        calls: counts(0, &[(2.4, all)]),
        ..ReplicaTraffic::default()
    };
    Sample {
        at: Duration::from_secs(second),
        flow: None,
        processes: processes
            .map(|(name, number)| process(name, number, second))
            .collect(),
        traffic: Some(Traffic {
            requests: counts(all / 100, &[(8.0, all - all / 50), (60.0, all / 50)]),
            in_progress: 9,
            in_progress_max: 1_000,
            waiting: 2,
            replicas: vec![
                replica(1, counts(0, &[(0.2, all)])),
                replica(2, counts(all / 100, &[(4.0, all / 2), (50.0, all / 60)])),
                replica(3, counts(0, &[(5.0, all - all / 2)])),
                replica(4, counts(0, &[(0.9, all)])),
                external,
            ],
        }),
    }
}

/// The flow of `flows/NAME.yml` with this sample.
pub(super) fn flow(name: &str, pid: u32, sample: Sample) -> FlowSample {
    FlowSample {
        entry: RegistryEntry {
            pid,
            file: PathBuf::from(format!("/work/flows/{name}.yml")),
            state_directory: PathBuf::from(format!("/state/{name}")),
        },
        sample,
    }
}
