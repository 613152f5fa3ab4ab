//! Turns samples of a flow into rows of processes and charts of nodes. Pure.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use flow_gateway::{Counts, ReplicaTraffic};
use flow_launch::protocol::{ProcessInfo, ProcessState};
use flow_process::ListenAddress;

use super::rates::{Rates, add, growth};
use super::sample::{ProcessSample, Sample};

/// The time over which rates and latencies are taken: long enough to be steady, short enough to follow.
const RATE_OVER: Duration = Duration::from_secs(5);

/// Samples of the charts: five minutes at the interval by default.
pub(super) const POINTS_MAX: usize = 300;

/// A flow since it is watched.
#[derive(Debug, Default)]
pub(super) struct FlowModel {
    /// The samples over which rates are taken, the newest last.
    window: VecDeque<Sample>,
    /// By node; `None` is the whole flow.
    charts: BTreeMap<Option<String>, VecDeque<Point>>,
}

/// A point of the charts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) per_second: f64,
    pub(super) p99: Option<Duration>,
}

/// A process, or a replica that runs elsewhere, as it does now.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    /// The node that it works for; `None` for the gateway.
    pub(super) node: Option<String>,
    pub(super) state: State,
    /// `None` while nothing is known of its requests.
    pub(super) rates: Option<Rates>,
    /// Requests that wait: for a permit of the gateway, or for a worker of an executor.
    pub(super) waiting: Option<usize>,
    /// Requests in progress, as the gateway counts them.
    pub(super) in_progress: Option<usize>,
    /// 100 is one core.
    pub(super) cpu_percent: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
    pub(super) restarts: Option<u32>,
    pub(super) uptime: Option<Duration>,
    pub(super) pid: Option<u32>,
    pub(super) address: Option<String>,
}

/// Whether a process serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// What the supervisor says.
    Process(ProcessState),
    /// It runs, and the gateway could not reach it when it was last tried.
    Ejected,
    /// Another program started it.
    External,
}

impl FlowModel {
    /// Adds a newer sample.
    pub(super) fn push(&mut self, sample: Sample) {
        if let Some(before) = self.window.back() {
            for (subject, point) in points(before, &sample) {
                let points = self.charts.entry(subject).or_default();
                points.push_back(point);
                if points.len() > POINTS_MAX {
                    points.pop_front();
                }
            }
        }
        let oldest = sample.at.saturating_sub(RATE_OVER);
        // One that is older remains, so that rates are also known if samples are rare.
        while self.window.get(1).is_some_and(|second| second.at <= oldest) {
            self.window.pop_front();
        }
        self.window.push_back(sample);
    }

    /// The points of a node's charts, or of those of the whole flow, the newest last.
    pub(super) fn points(&self, node: Option<&str>) -> Vec<Point> {
        let points = self.charts.get(&node.map(str::to_owned));
        points.map_or_else(Vec::new, |it| it.iter().copied().collect())
    }

    /// The flow's own name.
    pub(super) fn name(&self) -> Option<&str> {
        self.window.back()?.flow.as_deref()
    }

    /// When the newest sample was taken.
    pub(super) fn at(&self) -> Option<Duration> {
        Some(self.window.back()?.at)
    }

    /// The gateway, the executors in the order of the plan, and the replicas that run elsewhere.
    pub(super) fn rows(&self) -> Vec<Row> {
        let Some(newest) = self.window.back() else {
            return Vec::new();
        };
        let (gateway, executors): (Vec<_>, Vec<_>) = newest
            .processes
            .iter()
            .partition(|process| process.info.node.is_none());
        let processes = gateway.into_iter().chain(executors);
        let rows = processes.map(|process| self.row(newest, process));
        let external = newest.traffic.iter().flat_map(|traffic| {
            let is_elsewhere = move |replica: &&ReplicaTraffic| {
                let mut processes = newest.processes.iter();
                !processes.any(|it| is_replica(replica, &it.info))
            };
            traffic.replicas.iter().filter(is_elsewhere)
        });
        rows.chain(external.map(|replica| self.external(replica)))
            .collect()
    }

    fn row(&self, newest: &Sample, process: &ProcessSample) -> Row {
        let info = &process.info;
        let traffic = newest.traffic.as_ref();
        let replica = replica_of(newest, info);
        let is_gateway = info.node.is_none();
        let state = match replica {
            Some(replica) if replica.is_ejected && info.state == ProcessState::Ready => {
                State::Ejected
            }
            _ => State::Process(info.state),
        };
        let rates = match is_gateway {
            true => self.rates(|sample| Some(&sample.traffic.as_ref()?.requests)),
            false => self.rates(|sample| Some(&replica_of(sample, info)?.calls)),
        };
        let gateway = traffic.filter(|_| is_gateway);
        Row {
            name: info.name.clone(),
            node: info.node.clone(),
            state,
            rates,
            waiting: gateway.map_or(process.waiting, |it| Some(it.waiting)),
            in_progress: gateway
                .map(|it| it.in_progress)
                .or(replica.map(|it| it.in_progress)),
            cpu_percent: self.cpu_percent(info),
            memory_bytes: info.memory_bytes,
            restarts: Some(info.restarts),
            uptime: info
                .uptime_seconds
                .and_then(|it| Duration::try_from_secs_f64(it.floor()).ok()),
            pid: info.pid,
            address: info.address.as_ref().map(ListenAddress::short),
        }
    }

    fn external(&self, replica: &ReplicaTraffic) -> Row {
        let rates = self.rates(|sample| {
            let replicas = &sample.traffic.as_ref()?.replicas;
            let same = replicas.iter().find(|it| is_same(it, replica))?;
            Some(&same.calls)
        });
        Row {
            name: format!("{}@{}", replica.node, replica.address),
            node: Some(replica.node.clone()),
            state: match replica.is_ejected {
                true => State::Ejected,
                false => State::External,
            },
            rates,
            waiting: None,
            in_progress: Some(replica.in_progress),
            cpu_percent: None,
            memory_bytes: None,
            restarts: None,
            uptime: None,
            pid: None,
            address: Some(replica.address.clone()),
        }
    }

    /// The rates since the oldest sample from which on the counts only grew: a process that is replaced counts from zero.
    fn rates<'m>(&'m self, counts: impl Fn(&'m Sample) -> Option<&'m Counts>) -> Option<Rates> {
        let newest = self.window.back()?;
        let now = counts(newest)?;
        let (mut since, mut later) = (None, now);
        for sample in self.window.iter().rev().skip(1) {
            let Some(earlier) = counts(sample).filter(|it| growth(it, later).is_some()) else {
                break;
            };
            since = Some((sample.at, earlier));
            later = earlier;
        }
        let (at, before) = since?;
        let seconds = (newest.at - at).as_secs_f64();
        Some(Rates::of(&growth(before, now)?, seconds))
    }

    /// The share of a core that a process used, since the oldest sample in which it was the same process.
    fn cpu_percent(&self, info: &ProcessInfo) -> Option<f64> {
        let newest = self.window.back()?;
        let used = |sample: &Sample| {
            let mut processes = sample.processes.iter();
            let same = processes.find(|it| it.info.pid.is_some() && it.info.pid == info.pid)?;
            same.cpu_seconds
        };
        let now = used(newest)?;
        let mut before = self.window.iter().take(self.window.len() - 1);
        let (at, then) = before.find_map(|sample| Some((sample.at, used(sample)?)))?;
        let seconds = (newest.at - at).as_secs_f64();
        (seconds > 0.0).then(|| 100.0 * (now - then).max(0.0) / seconds)
    }
}

/// The points of the charts between two samples: of the flow, and of each node.
fn points(before: &Sample, now: &Sample) -> Vec<(Option<String>, Point)> {
    let (Some(old), Some(new)) = (&before.traffic, &now.traffic) else {
        return Vec::new();
    };
    let seconds = (now.at - before.at).as_secs_f64();
    let mut grown: BTreeMap<Option<String>, Counts> = BTreeMap::new();
    if let Some(requests) = growth(&old.requests, &new.requests) {
        grown.insert(None, requests);
    }
    for replica in &new.replicas {
        let none = Counts::default();
        let mut replicas = old.replicas.iter();
        let same = replicas.find(|it| is_same(it, replica));
        let then = same.map_or(&none, |it| &it.calls);
        let of_node = grown.entry(Some(replica.node.clone())).or_default();
        if let Some(calls) = growth(then, &replica.calls) {
            add(of_node, &calls);
        }
    }
    let point = |(subject, counts): (Option<String>, Counts)| {
        let Rates {
            per_second, p99, ..
        } = Rates::of(&counts, seconds);
        (subject, Point { per_second, p99 })
    };
    grown.into_iter().map(point).collect()
}

fn is_same(one: &ReplicaTraffic, other: &ReplicaTraffic) -> bool {
    one.address == other.address && one.node == other.node
}

/// What the gateway counted of this process.
fn replica_of<'s>(sample: &'s Sample, process: &ProcessInfo) -> Option<&'s ReplicaTraffic> {
    let mut replicas = sample.traffic.as_ref()?.replicas.iter();
    replicas.find(|replica| is_replica(replica, process))
}

/// Whether the gateway calls this process there. A process that listens on all addresses is called at the loopback address.
fn is_replica(replica: &ReplicaTraffic, process: &ProcessInfo) -> bool {
    let address = match &process.address {
        None => return false,
        Some(ListenAddress::Tcp(address)) if address.ip().is_unspecified() => {
            SocketAddr::from((Ipv4Addr::LOCALHOST, address.port())).to_string()
        }
        Some(address) => address.to_string(),
    };
    replica.address == address && process.node.as_ref() == Some(&replica.node)
}

impl State {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Process(ProcessState::Starting) => "starting",
            Self::Process(ProcessState::Ready) => "ready",
            Self::Process(ProcessState::Waiting) => "waiting",
            Self::Process(ProcessState::Stopping) => "stopping",
            Self::Process(ProcessState::Failed) => "failed",
            Self::Ejected => "ejected",
            Self::External => "external",
        }
    }
}

#[cfg(test)]
mod tests;
