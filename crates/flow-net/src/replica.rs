//! One running process of a node: its channel, how busy it is, and whether it is worth asking.

mod call;

use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flow_core::Code;
use tonic::metadata::{Ascii, MetadataKey, MetadataValue};
use tonic::transport::{Channel, Endpoint};

use crate::limits::{CONNECTION_WINDOW, Limits, STREAM_WINDOW, TCP_KEEPALIVE};

pub(crate) use call::within;
pub use call::{Priority, Reply, Shards, Terms};

/// How long a connection may take to be made: any longer, and another replica is the better choice.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long a replica is left alone after it could not be reached; doubled each time.
const REST_FIRST: Duration = Duration::from_millis(50);

/// Longest time a replica is left alone: also how late one that came back may be noticed.
const REST_MAX: Duration = Duration::from_secs(2);

/// Metadata that goes with each call of a node.
pub type Metadata = Vec<(MetadataKey<Ascii>, MetadataValue<Ascii>)>;

/// The text is not an address.
#[derive(Debug, thiserror::Error)]
#[error("`{uri}` is not an address: write `grpc://host:port`")]
pub struct BadUri {
    uri: String,
    source: tonic::transport::Error,
}

/// One running process of a node.
#[derive(Debug)]
pub struct Replica {
    uri: String,
    /// The URI with the name that it was found behind.
    found_behind: Option<String>,
    channel: Channel,
    limits: Limits,
    in_flight: AtomicUsize,
    returns: AtomicU64,
    rest: Mutex<Rest>,
}

/// When a replica may be asked again after it could not be reached.
#[derive(Debug, Default)]
struct Rest {
    failures: u32,
    until: Option<Instant>,
}

impl Replica {
    /// A replica at `http://host:port`. The connection is made at the first call, and again after it
    /// breaks.
    ///
    /// # Errors
    ///
    /// If the text is not a URI.
    pub fn new(uri: &str, limits: Limits) -> Result<Self, BadUri> {
        let endpoint = endpoint(uri)?;
        Ok(Self::connecting(uri.to_owned(), &endpoint, limits))
    }

    /// A replica at one of the addresses behind a name. The name is what it is asked for.
    ///
    /// # Errors
    ///
    /// If the name's URI is none.
    pub(crate) fn behind(name: &str, at: SocketAddr, limits: Limits) -> Result<Self, BadUri> {
        let uri = uri_at(at);
        let named = endpoint(name)?;
        let endpoint = endpoint(&uri)?.origin(named.uri().clone());
        Ok(Self {
            found_behind: Some(name.to_owned()),
            ..Self::connecting(uri, &endpoint, limits)
        })
    }

    fn connecting(uri: String, endpoint: &Endpoint, limits: Limits) -> Self {
        Self {
            uri,
            found_behind: None,
            channel: endpoint.connect_lazy(),
            limits,
            in_flight: AtomicUsize::new(0),
            returns: AtomicU64::new(0),
            rest: Mutex::default(),
        }
    }

    /// Where it is.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The URI with the name that it was found behind, if it was.
    #[must_use]
    pub fn found_behind(&self) -> Option<&str> {
        self.found_behind.as_deref()
    }

    /// How often it came back after it could not be reached; it may be another one since.
    #[must_use]
    pub fn returns(&self) -> u64 {
        self.returns.load(Ordering::Relaxed)
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    pub(crate) fn begin(&self) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_resting(&self, now: Instant) -> bool {
        self.rest().until.is_some_and(|until| now < until)
    }

    /// Notes how a call went: one that could not be reached is left alone for a while.
    pub(crate) fn note(&self, failed: Option<Code>, now: Instant) {
        let unreachable = failed.is_some_and(|code| matches!(code, Code::Unavailable | Code::Lost));
        let mut rest = self.rest();
        if !unreachable {
            if rest.failures > 0 {
                tracing::info!(replica = self.uri, "replica is back");
                self.returns.fetch_add(1, Ordering::Relaxed);
                *rest = Rest::default();
            }
            return;
        }
        if rest.failures == 0 {
            tracing::warn!(replica = self.uri, "replica cannot be reached");
        }
        let pause = REST_FIRST
            .saturating_mul(1 << rest.failures.min(10))
            .min(REST_MAX);
        rest.failures += 1;
        rest.until = Some(now + pause);
    }

    fn rest(&self) -> std::sync::MutexGuard<'_, Rest> {
        self.rest
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// The settings of every connection that we open.
pub(crate) fn endpoint(uri: &str) -> Result<Endpoint, BadUri> {
    let endpoint = Endpoint::from_shared(uri.to_owned()).map_err(|source| BadUri {
        uri: uri.to_owned(),
        source,
    })?;
    Ok(endpoint
        .connect_timeout(CONNECT_MAX)
        .tcp_nodelay(true)
        // No HTTP/2 pings: stock servers close a connection that sends more than one in five minutes.
        .tcp_keepalive(Some(TCP_KEEPALIVE))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW))
}

/// `http://address:port`.
pub(crate) fn uri_at(at: SocketAddr) -> String {
    format!("http://{at}")
}
