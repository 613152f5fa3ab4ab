//! What a flow file says, before anybody asks whether it makes sense.
//!
//! Every value is of the right type and remembers where it stands; what is `None` was not written.
//! Inheritance, defaults, names and the graph are for `check.rs`.

use std::num::{NonZeroU16, NonZeroUsize};
use std::time::Duration;

use flow_core::NodeName;
use flow_core::query::Query;
use indexmap::IndexMap;
use serde_json::{Map, Value};

use crate::config::ConfigSpec;
use crate::container::{Gpus, Volume};
use crate::hub::{Hub, HubName};
use crate::problem::{Findings, Place};
use crate::read::Host;
use crate::section::At;
use crate::settings::{Batching, Env, Log, Polling, Protocol, Retries, Uses, Workers};

type Written<T> = Option<At<T>>;
/// One value or a list of them.
type WrittenList<T> = Written<Vec<At<T>>>;

/// A flow file as it was written, and what was found wrong while it was read.
///
/// It becomes a [`Flow`](crate::Flow) by [`Flow::check`](crate::Flow::check), if nothing is wrong.
#[derive(Debug, Clone, PartialEq)]
pub struct FlowSpec {
    pub(crate) place: Place,
    pub(crate) name: Written<String>,
    pub(crate) workspace: Written<String>,
    pub(crate) env: Written<Env>,
    pub(crate) reload: Written<bool>,
    pub(crate) inspect: Written<Inspect>,
    /// Where executors of a hub are looked up.
    pub(crate) hub: HubSpec,
    /// What the gateway inherits from `with`.
    pub(crate) for_gateway: GatewaySpec,
    /// What the executors inherit from `with`.
    pub(crate) for_executors: Inheritable,
    pub(crate) gateway: GatewaySpec,
    pub(crate) executors: Vec<ExecutorSpec>,
    pub(crate) findings: Findings,
}

/// Options of the gateway.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct GatewaySpec {
    pub(crate) host: Written<String>,
    pub(crate) port: Written<Option<u16>>,
    pub(crate) protocol: Written<Protocol>,
    pub(crate) prefetch: Written<NonZeroUsize>,
    pub(crate) in_flight_max: Written<NonZeroUsize>,
    pub(crate) env: Written<Env>,
    pub(crate) timeout_ready: Written<Option<Duration>>,
    pub(crate) timeout_send: Written<Option<Duration>>,
    pub(crate) retries: Written<Retries>,
    pub(crate) log: LogSpec,
    pub(crate) monitoring: Written<bool>,
    pub(crate) port_monitoring: Written<u16>,
}

/// Where and whether to log.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct LogSpec {
    pub(crate) config: Written<Option<Log>>,
    pub(crate) quiet: Written<bool>,
}

/// An entry of `executors`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ExecutorSpec {
    pub(crate) place: Place,
    pub(crate) name: Written<NodeName>,
    pub(crate) method: Method,
    pub(crate) needs: WrittenList<String>,
    pub(crate) uses: Written<Program>,
    pub(crate) uses_with: Written<Map<String, Value>>,
    pub(crate) uses_with_places: OptionPlaces,
    pub(crate) ports: WrittenList<u16>,
    pub(crate) ports_monitoring: WrittenList<u16>,
    pub(crate) options: Inheritable,
}

/// Of each option of an executor, where it stands.
pub(crate) type OptionPlaces = IndexMap<String, OptionPlace>;

/// Where an option of an executor stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OptionPlace {
    pub(crate) key: Place,
    pub(crate) value: Place,
}

/// What `uses` says: where a program is, or the config of one in place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Program {
    Named(Uses),
    Config(Box<ConfigSpec>),
    Hub(HubName),
}

/// The hub of the file, and the user's own.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct HubSpec {
    pub(crate) written: Written<Hub>,
    /// As the environment has it.
    pub(crate) variable: Option<String>,
}

/// What becomes of inspections.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Inspect {
    /// The reply waits for them, and is joined with what they made.
    #[default]
    Collect,
    /// They run, and nobody waits for them.
    Hang,
    /// They are not started.
    Remove,
}

/// How an entry of `executors` finds its parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    /// By `needs`, or else it follows the entry before it.
    Add,
    /// It joins what nobody needs so far.
    NeedsAll,
    /// It stands beside the flow, behind the entry before it; who comes next does not see it.
    Inspect,
    /// It joins the entry before it and all inspections so far.
    GatherInspect,
}

impl Method {
    /// Whether it is there to look at the flow, and so may be left out.
    pub(crate) fn inspects(self) -> bool {
        matches!(self, Self::Inspect | Self::GatherInspect)
    }
}

/// Options of an executor that `with` may state for all of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Inheritable {
    pub(crate) metas: Written<Map<String, Value>>,
    pub(crate) requests: Written<IndexMap<String, String>>,
    pub(crate) batching: Written<IndexMap<String, Batching>>,
    pub(crate) replicas: Written<NonZeroU16>,
    pub(crate) shards: Written<NonZeroU16>,
    pub(crate) polling: Written<Polling>,
    pub(crate) before: Written<Program>,
    pub(crate) after: Written<Program>,
    pub(crate) no_reduce: Written<bool>,
    /// Some queries ask nothing.
    pub(crate) when: Written<Option<Query>>,
    pub(crate) workers: Written<Workers>,
    pub(crate) allow_concurrent: Written<bool>,
    pub(crate) exit_on_exceptions: WrittenList<String>,
    pub(crate) external: Written<bool>,
    /// Each text may hold several, separated by commas.
    pub(crate) hosts: WrittenList<Vec<Host>>,
    pub(crate) env: Written<Env>,
    pub(crate) workspace: Written<String>,
    pub(crate) timeout_ready: Written<Option<Duration>>,
    pub(crate) timeout_send: Written<Option<Duration>>,
    pub(crate) retries: Written<Retries>,
    pub(crate) floating: Written<bool>,
    pub(crate) idempotent: Written<bool>,
    pub(crate) metadata: Written<Vec<(String, String)>>,
    pub(crate) log: LogSpec,
    pub(crate) monitoring: Written<bool>,
    pub(crate) container: ContainerSpec,
}

/// Options of the container that an executor runs in.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct ContainerSpec {
    pub(crate) gpus: Written<Gpus>,
    pub(crate) volumes: WrittenList<Volume>,
    pub(crate) entrypoint: Written<Vec<String>>,
    pub(crate) docker_kwargs: Written<Map<String, Value>>,
    pub(crate) on_host_network: Written<bool>,
    pub(crate) platform: Written<String>,
    pub(crate) force_update: Written<bool>,
    pub(crate) disable_auto_volume: Written<bool>,
}
