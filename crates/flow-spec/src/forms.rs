//! The forms of values: how each is written, and how it becomes a typed value or a problem that says what was
//! expected and what is written.

mod batching;
mod container;
mod form;
mod gateway;
mod hedge;
mod host;
mod hub;
mod kwargs;
mod query;
mod sandbox;
mod scalar;
mod shards;
mod time;
mod uses;
mod uvicorn;
mod values;

pub(crate) use batching::{BATCH_METRIC, BATCH_SIZE, BATCH_TIMEOUT, BATCHING};
pub(crate) use container::{ENTRYPOINT, GPUS, NETWORK_MODE, VOLUMES};
pub(crate) use form::{Shape, ValueForm};
#[cfg(test)]
pub(crate) use gateway::INSTEAD;
pub(crate) use gateway::{CONSOLE, CORS, EXPOSED, GATEWAY_USES, JTYPE_GATEWAY};
pub(crate) use hedge::HEDGE;
pub(crate) use host::{HOSTS, Host, LISTEN_HOSTS};
pub(crate) use hub::HUB;
pub use kwargs::engine_name;
pub(crate) use kwargs::{DOCKER_KWARGS, KWARGS, KwargKind, NETWORK, PLATFORM};
pub(crate) use query::WHEN;
pub(crate) use sandbox::{SANDBOX, SANDBOX_CPUS, SANDBOX_MEMORY};
pub(crate) use scalar::{
    ARGUMENTS, CLIENT_CERTIFICATES, COMPRESSION, COUNT, DEPLOYMENT_OPTIONS, EXECUTORS, FLAG,
    GATEWAY, IN_FLIGHT_MAX, INSPECT, JTYPE_DEPLOYMENT, JTYPE_FLOW, LOG_CONFIG, METHOD, NAME,
    NESTING_MAX, OBJECT, PORT, PORTS, PORTS_OR_ANY, PREFETCH, PROTOCOLS, REQUESTS, RETRIES, SIZE,
    TEXT, TEXTS, VERSION, WITH, reject, text,
};
pub(crate) use shards::{POLLING, WORKERS};
pub(crate) use time::{TIMEOUT_READY, TIMEOUT_SEND};
pub(crate) use uses::USES;
pub(crate) use uvicorn::UVICORN;
pub(crate) use values::{ENV, INHERIT_ENV, METADATA, MODELS};
