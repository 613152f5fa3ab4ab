//! Values of options, checked and complete.

use std::fmt;
use std::num::{NonZeroU8, NonZeroUsize};
use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::time::Duration;

use flow_core::Secret;
pub use flow_core::Workers;
pub use flow_core::batching::{BatchMetric, BatchingRule};
use indexmap::IndexMap;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::diagnostics::{SourceSpan, Spanned};

mod container;
mod docker_options;
mod python_source;
mod sandbox;

pub use container::{Gpus, Volume};
pub use docker_options::{ContainerDevice, DockerOption, DockerOptions, LogDriver, Ulimit};
pub use python_source::PythonSource;
pub use sandbox::{Millicpus, Sandbox};

/// Requests of one stream that may be in progress if nothing else is written, as in Jina.
pub(crate) const PREFETCH: NonZeroUsize = NonZeroUsize::new(1000).expect("it is not zero");

/// Environment variables in the order in which they are set. Names are unique. Any value may be a secret, so all are hidden.
#[derive(Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Env(IndexMap<String, Secret>);

impl Env {
    /// No variables.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The variables with their values, for what starts a process or writes its configuration.
    pub fn revealed(&self) -> impl Iterator<Item = (&str, &str)> {
        let variables = self.0.iter();
        variables.map(|(name, value)| (name.as_str(), value.reveal().as_str()))
    }

    /// The value of a variable, for what needs this one.
    #[must_use]
    pub fn reveal(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(|value| value.reveal().as_str())
    }

    /// Writes the values as they are, for `serialize_with`.
    ///
    /// # Errors
    ///
    /// If the serializer fails.
    pub fn serialize_revealed<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in self.revealed() {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl Deref for Env {
    type Target = IndexMap<String, Secret>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Env {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl FromIterator<(String, String)> for Env {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        let variables = variables.into_iter();
        variables
            .map(|(name, value)| (name, Secret::new(value)))
            .collect()
    }
}

impl FromIterator<(String, Secret)> for Env {
    fn from_iter<I: IntoIterator<Item = (String, Secret)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

impl<const N: usize> From<[(String, String); N]> for Env {
    fn from(variables: [(String, String); N]) -> Self {
        variables.into_iter().collect()
    }
}

impl IntoIterator for Env {
    type Item = (String, Secret);
    type IntoIter = indexmap::map::IntoIter<String, Secret>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'e> IntoIterator for &'e Env {
    type Item = (&'e String, &'e Secret);
    type IntoIter = indexmap::map::Iter<'e, String, Secret>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

/// What a process inherits of the environment of `flow up`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum InheritEnv {
    /// All of it.
    All,
    /// What programs need in general, and these: names, or beginnings of names with a `*`.
    Listed(Vec<String>),
}

/// Names that clients may give a model, each with the name of the executor that runs it.
pub(crate) type ModelNames = Vec<(String, Spanned<String>)>;

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Jina's gRPC services.
    Grpc,
    /// HTTP: Jina's routes, and all others of the gateway.
    Http,
    /// Jina's requests over WebSocket.
    Websocket,
}

impl Protocol {
    /// The name, as Jina prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Grpc => "GRPC",
            Self::Http => "HTTP",
            Self::Websocket => "WEBSOCKET",
        }
    }
}

/// Which origins may call a gateway from a browser.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cors {
    /// None but the gateway's own.
    #[default]
    Off,
    /// All of them.
    Any,
    /// These, such as `https://example.com`.
    Origins(Vec<String>),
}

/// What browsers get of the console.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Console {
    /// All of it. Those who may restart, scale and reload do so there.
    #[default]
    On,
    /// All but the actions.
    ReadOnly,
    /// Nothing.
    Off,
}

/// An endpoint with an HTTP route of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExposedEndpoint {
    /// The path of the route.
    pub path: String,
    /// The methods of its requests.
    pub methods: Vec<String>,
    /// Its description in the OpenAPI document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summary: Option<String>,
}

/// The gateway of Jina's that `uses` names. All of them are one gateway here; the name decides the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GatewayKind {
    Grpc,
    Http,
    WebSocket,
    /// Several protocols.
    Composite,
}

impl GatewayKind {
    pub(crate) const NAMES: [(&'static str, Self); 4] = [
        ("GRPCGateway", Self::Grpc),
        ("HTTPGateway", Self::Http),
        ("WebSocketGateway", Self::WebSocket),
        ("CompositeGateway", Self::Composite),
    ];

    /// The protocol of a gateway whose `protocol` is not written.
    pub(crate) fn protocol(self) -> Protocol {
        match self {
            Self::Grpc | Self::Composite => Protocol::Grpc,
            Self::Http => Protocol::Http,
            Self::WebSocket => Protocol::Websocket,
        }
    }
}

/// What `uvicorn_kwargs` says that the gateway has an option for.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct UvicornOptions {
    pub(crate) ssl_certfile: Option<Spanned<String>>,
    pub(crate) ssl_keyfile: Option<Spanned<String>>,
    pub(crate) ssl_ca_certs: Option<Spanned<String>>,
    pub(crate) ssl_client_certs: Option<Spanned<ClientCertificates>>,
    pub(crate) in_flight_max: Option<Spanned<NonZeroUsize>>,
}

/// Whether a client needs a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCertificates {
    /// A client without a certificate is refused.
    Required,
    /// A client may have none; a certificate that is not trusted is refused.
    Optional,
}

/// How requests to executors are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Compression {
    /// gzip.
    Gzip,
    /// deflate, in zlib's format.
    Deflate,
}

/// The format of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogStyle {
    /// Lines for people.
    Text,
    /// One JSON object per line.
    Json,
    /// No log.
    Off,
}

/// Which shards of a node receive a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum Poll {
    /// One of them, in turn.
    #[default]
    Any,
    /// Each of them.
    All,
}

/// Polling by endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polling {
    /// For endpoints that are not named.
    pub default: Poll,
    /// As the file says; these win.
    pub by_endpoint: IndexMap<String, Poll>,
}

impl Polling {
    /// How requests to this endpoint are polled. If the file does not say, `/search` asks every shard and
    /// `/index` one, as in Jina.
    #[must_use]
    pub fn of(&self, endpoint: &str) -> Poll {
        let written = self.by_endpoint.get(endpoint).copied();
        let unwritten = UNWRITTEN.iter().find(|(name, _)| *name == endpoint);
        written.unwrap_or(unwritten.map_or(self.default, |(_, poll)| *poll))
    }

    /// The endpoints that are not polled as `default` says.
    #[must_use]
    pub fn exceptions(&self) -> Vec<&str> {
        let written = self.by_endpoint.keys().map(String::as_str);
        let unwritten = UNWRITTEN.iter().map(|(endpoint, _)| *endpoint);
        let unwritten = unwritten.filter(|it| !self.by_endpoint.contains_key(*it));
        let all = written.chain(unwritten);
        all.filter(|it| self.of(it) != self.default).collect()
    }
}

/// How endpoints are polled that the file does not name.
const UNWRITTEN: [(&str, Poll); 2] = [("/index", Poll::Any), ("/search", Poll::All)];

/// How often a call that certainly did not run is tried again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retries {
    /// The connection pool decides by the number of replicas.
    #[default]
    Default,
    /// At most this often; 0 means never.
    Times(u32),
}

/// After what time a request is also sent to another replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hedge {
    /// This time.
    After(Duration),
    /// The time in which this percentage of calls is answered.
    Percentile(NonZeroU8),
}

/// The program that a node runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Uses {
    /// An executor built into flow, or else a program on `PATH`.
    Named(String),
    /// A path with a slash: a program, or a folder or `config.yml` that names one.
    Path(PathBuf),
    /// An image of a container, by the name that a Docker engine knows.
    Image(String),
}

/// The built-in executor that gives documents back unchanged, as Jina's `BaseExecutor` does.
const PASSES_THROUGH: &str = "echo";

impl Uses {
    /// What runs if no `uses` is written, as in Jina.
    pub(crate) fn pass_through() -> Self {
        Self::Named(PASSES_THROUGH.to_owned())
    }
}

/// The network of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkMode {
    /// The machine's own.
    Host,
    /// One of its own, of which the executor's port is published.
    Published,
}

/// How inspections are handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Inspect {
    /// The reply waits for them, and is joined with their results.
    #[default]
    Collect,
    /// They run, and the reply does not wait for them.
    Hang,
    /// They are not started.
    Remove,
}

/// How an entry of `executors` finds its parents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectMethod {
    /// By `needs`, or else it follows the entry before it.
    Add,
    /// It joins every node that nothing needs so far.
    NeedsAll,
    /// It is beside the flow, after the entry before it; the next entry does not follow it.
    Inspect,
    /// It joins the entry before it and all inspections so far.
    GatherInspect,
}

impl ConnectMethod {
    /// Whether it only looks at the flow, and so may be left out.
    pub(crate) fn inspects(self) -> bool {
        matches!(self, Self::Inspect | Self::GatherInspect)
    }
}

/// Options that an executor is built with. Flow does not know their keys.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments {
    pub(crate) values: Secret<Map<String, Value>>,
    /// Where each option is written.
    pub(crate) spans: ArgumentSpans,
}

/// Where each option of an executor is written.
pub(crate) type ArgumentSpans = IndexMap<String, ArgumentSpan>;

/// Where an option of an executor is written.
#[derive(Debug, Clone)]
pub(crate) struct ArgumentSpan {
    pub(crate) key: SourceSpan,
    pub(crate) value: SourceSpan,
}

impl PartialEq for Arguments {
    fn eq(&self, other: &Self) -> bool {
        self.values == other.values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_of_an_environment_are_not_shown() {
        let env = Env::from([("A".to_owned(), "hunter2".to_owned())]);
        assert_eq!(format!("{env:?}"), r#"{"A"}"#);
    }
}
