//! The events that a child reports on its standard output.

use std::net::SocketAddr;

use flow_process::{KeepsState, ListenAddress, ProcessEvent};

use crate::event::Facts;

pub(crate) use flow_process::BadProcessEvent as BadReady;

/// What a ready child reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReadyReport {
    /// Where it accepts requests.
    pub(crate) address: ListenAddress,
    /// Where else it accepts requests.
    pub(crate) more_addresses: Vec<SocketAddr>,
    /// Where it serves metrics, if it does.
    pub(crate) metrics: Option<SocketAddr>,
    /// What it reports about itself.
    pub(crate) facts: Facts,
    /// Where it keeps what requests change; `None` if it does not say.
    pub(crate) keeps_state: Option<KeepsState>,
}

/// The ready event in a line; `None` if the line is something else.
pub(crate) fn parse(line: &str) -> Option<Result<ReadyReport, BadReady>> {
    match ProcessEvent::parse(line)? {
        Ok(ProcessEvent::Ready(ready)) => Some(Ok(ReadyReport {
            address: ready.address,
            more_addresses: ready.more_addresses,
            metrics: ready.metrics,
            facts: ready.facts.into_iter().collect(),
            keeps_state: ready.keeps_state,
        })),
        Ok(ProcessEvent::Placed { .. } | ProcessEvent::LogFilter { .. }) => None,
        Err(error) => Some(Err(error)),
    }
}

/// The log filter that a child uses from now on; `None` if the line is not that event.
pub(crate) fn log_filter(line: &str) -> Option<String> {
    match ProcessEvent::parse(line)? {
        Ok(ProcessEvent::LogFilter { filter }) => Some(filter),
        _ => None,
    }
}

/// The number of the placement, of those written to a gateway from 1, before which no request is in progress any
/// more; `None` if the line is not that event.
pub(crate) fn placed(line: &str) -> Option<u64> {
    match ProcessEvent::parse(line)? {
        Ok(ProcessEvent::Placed { placement }) => Some(placement),
        _ => None,
    }
}
