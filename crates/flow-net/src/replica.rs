//! One running process of a node: its connection, how busy it is, and whether it can be reached.

mod call;
mod channel;
mod connection;
mod connector;
mod http2_call;
mod reached;
mod recent_failures;
mod resolver;
mod response_times;
#[cfg(test)]
pub(crate) mod silent_address;
mod single_data_call;
mod slowness;
mod target;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use flow_metrics::DurationHistogram;

use crate::dns::Instance;
use crate::grpc::Metadata;
use crate::limits::Limits;
use crate::tls::{ClientTls, TlsOptions};

pub(crate) use call::{NodeCalls, OpenedStream, within};
pub use call::{Reply, Shards, write_usage};
pub use channel::LocalService;
use channel::ReplicaChannel;
use connection::Connection;
pub(crate) use connector::{Connector, PeerSpoke, ReplicaConnection, socket_path};
pub(crate) use reached::Reached;
use recent_failures::RecentFailures;
use response_times::ResponseTimes;
use slowness::Slowness;
pub use target::BadUri;
use target::Target;
pub(crate) use target::endpoint;

/// Time for the TCP connection to a replica; after that another one is the better choice. It leaves most of a usual deadline to
/// that one, and the kernel sends a packet that was lost again after a second.
const TCP_CONNECT_MAX: Duration = Duration::from_secs(2);

/// Time that a replica is avoided after it could not be reached; doubled each time.
const BACKOFF_FIRST: Duration = Duration::from_millis(50);

/// Longest time that a replica is avoided: also how late its return is noticed.
const BACKOFF_MAX: Duration = Duration::from_secs(2);

/// Time after which a slow replica gets a request that shows whether it has recovered: one in two seconds delays few
/// requests, and five of them are enough.
const UNHEARD_AFTER: Duration = Duration::from_secs(2);

/// One running process of a node.
#[derive(Debug)]
pub struct Replica {
    uri: String,
    /// The URI with the name that was resolved to this replica.
    host_name: Option<String>,
    /// Where it is connected to, if it is an instance of a service.
    addresses: Vec<SocketAddr>,
    /// The priority of its SRV record in the upper half, and the weight in the lower one.
    rank: AtomicU32,
    channel: ReplicaChannel,
    tls: Option<ClientTls>,
    peer_spoke: PeerSpoke,
    limits: Limits,
    in_flight: AtomicUsize,
    calls: CallCounts,
    recoveries: AtomicU64,
    backoff: Mutex<ReconnectBackoff>,
    pace: Mutex<Pace>,
    is_slow: AtomicBool,
    is_failing: AtomicBool,
}

/// How quickly a replica answers, and whether it fails.
#[derive(Debug)]
struct Pace {
    times: ResponseTimes,
    failures: RecentFailures,
    /// When it got its last request.
    leased: Option<Instant>,
    /// When it was added to its node, or came back.
    began: Instant,
    slowness: Slowness,
}

/// How quickly a replica answers and whether it fails, as far as it is known.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KnownPace {
    /// How long a call usually takes.
    pub(crate) usual: Option<Duration>,
    /// Most of its last calls failed.
    pub(crate) fails: bool,
    /// It has got no request for some time.
    pub(crate) is_unheard: bool,
    /// How long it has been there since it was added, or came back.
    pub(crate) reachable: Duration,
}

/// The calls of a replica that ended. Counting one is three additions to atomics, so it is not an option.
#[derive(Debug, Default)]
pub struct CallCounts {
    failed: AtomicU64,
    durations: DurationHistogram,
}

impl CallCounts {
    /// Calls without a reply, and those whose reply reports a failure.
    #[must_use]
    pub fn failed(&self) -> u64 {
        self.failed.load(Ordering::Relaxed)
    }

    /// How long all calls took.
    #[must_use]
    pub fn durations(&self) -> &DurationHistogram {
        &self.durations
    }

    pub(crate) fn count(&self, took: Duration, failed: bool) {
        self.failed.fetch_add(failed.into(), Ordering::Relaxed);
        self.durations.observe(took);
    }
}

/// When a replica that could not be reached is tried again.
#[derive(Debug, Default)]
struct ReconnectBackoff {
    failures: u32,
    until: Option<Instant>,
}

impl Pace {
    fn new(began: Instant) -> Self {
        Self {
            times: ResponseTimes::default(),
            failures: RecentFailures::default(),
            leased: None,
            began,
            slowness: Slowness::default(),
        }
    }
}

impl Replica {
    /// A replica at `http://host:port` or `unix:/path`. It is connected by the first call, and again after the connection
    /// broke.
    ///
    /// # Errors
    ///
    /// If the text is not a URI.
    pub fn new(uri: &str, limits: Limits) -> Result<Self, BadUri> {
        let target = Target::new(uri)?;
        Ok(Self::connecting(uri.to_owned(), target, None, limits))
    }

    /// A replica at `https://host:port`.
    ///
    /// # Errors
    ///
    /// If the text is not a URI.
    pub fn with_tls(uri: &str, tls: ClientTls, limits: Limits) -> Result<Self, BadUri> {
        let target = Target::new(uri)?;
        Ok(Self::connecting(uri.to_owned(), target, Some(tls), limits))
    }

    /// A replica at one of the addresses of a host name. Requests name the host, not the address.
    ///
    /// # Errors
    ///
    /// If the name's URI is not valid.
    pub(crate) fn resolved(name: &str, at: SocketAddr, limits: Limits) -> Result<Self, BadUri> {
        let uri = uri_of(at);
        let target = Target::new(&uri)?.naming(Target::new(name)?);
        Ok(Self {
            host_name: Some(name.to_owned()),
            ..Self::connecting(uri, target, None, limits)
        })
    }

    /// A replica at an instance of a service. Requests name the instance's host, not the address.
    ///
    /// # Errors
    ///
    /// If the host cannot be part of a URI.
    pub(crate) fn of_instance(
        service: &str,
        instance: &Instance,
        tls: Option<ClientTls>,
        limits: Limits,
    ) -> Result<Self, BadUri> {
        let scheme = if tls.is_some() { "https" } else { "http" };
        let port = instance.addresses.first().map_or(0, SocketAddr::port);
        let named = format!("{scheme}://{}:{port}", instance.host);
        let uri = match instance.addresses.as_slice() {
            [only] => format!("{scheme}://{only}"),
            _ => named.clone(),
        };
        let target = Target::new(&uri)?.naming(Target::new(&named)?);
        let connector = |connector: Connector| connector.at(&instance.addresses);
        Ok(Self {
            host_name: Some(service.to_owned()),
            addresses: instance.addresses.clone(),
            ..Self::connecting_by(uri, target, (tls, connector), limits)
        })
    }

    fn connecting(uri: String, target: Target, tls: Option<ClientTls>, limits: Limits) -> Self {
        let at = uri.clone();
        Self::connecting_by(uri, target, (tls, |it: Connector| it.to(&at)), limits)
    }

    fn connecting_by(
        uri: String,
        target: Target,
        (tls, to): (Option<ClientTls>, impl FnOnce(Connector) -> Connector),
        limits: Limits,
    ) -> Self {
        let peer_spoke = PeerSpoke::default();
        let connector =
            to(Connector::new(tls.clone(), peer_spoke.clone())).with_tcp_within(TCP_CONNECT_MAX);
        let connection = Connection::new(connector, target);
        let channel = ReplicaChannel::Connection(connection);
        Self {
            tls,
            peer_spoke,
            ..Self::calling(uri, channel, limits)
        }
    }

    /// A replica in this process. Its address, which logs and metrics show, names no place of a network.
    #[must_use]
    pub fn local(address: String, service: LocalService, limits: Limits) -> Self {
        let peer_spoke = PeerSpoke::default();
        peer_spoke.set(true);
        Self {
            peer_spoke,
            ..Self::calling(address, ReplicaChannel::Local(service), limits)
        }
    }

    /// Whether it is called over a network, or that of this machine.
    fn is_over_network(&self) -> bool {
        let is_connected = matches!(self.channel, ReplicaChannel::Connection(_));
        is_connected && socket_path(&self.uri).is_none()
    }

    fn calling(uri: String, channel: ReplicaChannel, limits: Limits) -> Self {
        Self {
            uri,
            host_name: None,
            addresses: Vec::new(),
            rank: AtomicU32::new(rank(0, 1)),
            channel,
            tls: None,
            peer_spoke: PeerSpoke::default(),
            limits,
            in_flight: AtomicUsize::new(0),
            calls: CallCounts::default(),
            recoveries: AtomicU64::new(0),
            backoff: Mutex::default(),
            pace: Mutex::new(Pace::new(Instant::now())),
            is_slow: AtomicBool::new(false),
            is_failing: AtomicBool::new(false),
        }
    }

    /// Its address, as a URI.
    #[must_use]
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The URI with the name that was resolved to this replica, if there is one.
    #[must_use]
    pub fn host_name(&self) -> Option<&str> {
        self.host_name.as_deref()
    }

    /// Where it is connected to, if it is an instance of a service.
    pub(crate) fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The priority and the weight of its SRV record; 0 and 1 if it has none.
    #[must_use]
    pub fn rank(&self) -> (u16, u16) {
        let [a, b, c, d] = self.rank.load(Ordering::Relaxed).to_be_bytes();
        (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]))
    }

    pub(crate) fn set_rank(&self, priority: u16, weight: u16) {
        self.rank.store(rank(priority, weight), Ordering::Relaxed);
    }

    /// The options of its TLS; `None` if its connection is not encrypted.
    #[must_use]
    pub fn tls_options(&self) -> Option<&TlsOptions> {
        self.tls.as_ref().map(ClientTls::options)
    }

    /// How often it came back after it could not be reached; it may be a different program since.
    #[must_use]
    pub fn recoveries(&self) -> u64 {
        self.recoveries.load(Ordering::Relaxed)
    }

    /// Whether a process has sent anything on the newest connection.
    #[must_use]
    pub fn peer_spoke(&self) -> bool {
        self.peer_spoke.get()
    }

    /// Its requests in progress.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Its calls that ended. Each try counts.
    #[must_use]
    pub fn calls(&self) -> &CallCounts {
        &self.calls
    }

    /// Whether a call need not wait for a connection.
    pub(crate) fn is_connected(&self) -> bool {
        self.channel.is_open()
    }

    /// Sets whether the calls that follow wait for a connection only briefly, because another replica has one.
    pub(crate) fn wait_briefly(&self, briefly: bool) {
        self.channel.wait_briefly(briefly);
    }

    pub(crate) fn begin(&self, now: Instant) {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        self.pace().leased = Some(now);
    }

    pub(crate) fn end(&self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }

    pub(crate) fn is_backing_off(&self, now: Instant) -> bool {
        self.backoff().until.is_some_and(|until| now < until)
    }

    /// Whether it could not be reached when it was last tried.
    #[must_use]
    pub fn is_ejected(&self) -> bool {
        self.backoff().failures > 0
    }

    /// Records what a call says of the replica: one that could not be reached is avoided for a while. Returns whether this is
    /// the first time since it could be reached.
    pub(crate) fn record(&self, reached: Reached, now: Instant) -> bool {
        let mut backoff = self.backoff();
        match reached {
            Reached::Yes if backoff.failures > 0 => {
                tracing::info!(replica = self.uri, "replica is back");
                self.recoveries.fetch_add(1, Ordering::Relaxed);
                *backoff = ReconnectBackoff::default();
                // It may be another process, so what was usual before does not count.
                *self.pace() = Pace::new(now);
                return false;
            }
            Reached::Yes => return false,
            // A call may just take long. One that could not be reached before has still not answered.
            Reached::Unknown if backoff.failures == 0 => return false,
            Reached::Unknown | Reached::No => {}
        }
        let is_first = backoff.failures == 0;
        if is_first {
            tracing::warn!(replica = self.uri, "replica cannot be reached");
        }
        let wait = BACKOFF_FIRST
            .saturating_mul(1 << backoff.failures.min(10))
            .min(BACKOFF_MAX);
        backoff.failures += 1;
        backoff.until = Some(now + wait);
        is_first
    }

    /// Notes how long a call took that succeeded.
    pub(crate) fn answered_after(&self, took: Duration) {
        let mut pace = self.pace();
        pace.times.add(took);
        pace.failures.add(false);
    }

    /// Notes that the executor failed a call. How long that took says nothing of the calls that succeed.
    pub(crate) fn failed(&self) {
        self.pace().failures.add(true);
    }

    /// Notes that a call was given up by its caller, or at its deadline: it would have taken longer than this.
    pub(crate) fn abandoned_after(&self, waited: Duration) {
        let mut pace = self.pace();
        if pace.times.usual().is_none_or(|usual| waited > usual) {
            pace.times.add(waited);
        }
    }

    pub(crate) fn known_pace(&self, now: Instant) -> KnownPace {
        let pace = self.pace();
        let is_unheard = |at| now.saturating_duration_since(at) >= UNHEARD_AFTER;
        KnownPace {
            usual: pace.times.usual(),
            fails: pace.failures.are_most(),
            is_unheard: pace.leased.is_none_or(is_unheard),
            reachable: now.saturating_duration_since(pace.began),
        }
    }

    /// Whether its calls take much longer than those of the other replicas of its node, so that it gets fewer.
    #[must_use]
    pub fn is_slow(&self) -> bool {
        self.is_slow.load(Ordering::Relaxed)
    }

    /// Notes whether the replica is slow now. That is logged when it has been so for some time.
    pub(crate) fn set_slow(&self, is_slow: bool, now: Instant) {
        let was_slow = self.is_slow();
        if !was_slow && !is_slow {
            return;
        }
        if was_slow != is_slow {
            self.is_slow.store(is_slow, Ordering::Relaxed);
        }
        let replica = self.uri.as_str();
        match self.pace().slowness.note(is_slow, now) {
            Some(true) => tracing::warn!(
                replica,
                "replica is much slower than the others and gets fewer requests"
            ),
            Some(false) => tracing::info!(replica, "replica is no longer slow"),
            None => {}
        }
    }

    /// Whether it fails most of its calls and most others of its node do not, so that it gets fewer.
    #[must_use]
    pub fn is_failing(&self) -> bool {
        self.is_failing.load(Ordering::Relaxed)
    }

    /// Notes whether the replica fails more than the others now, and logs a change.
    pub(crate) fn set_failing(&self, is_failing: bool) {
        if self.is_failing() == is_failing
            || self.is_failing.swap(is_failing, Ordering::Relaxed) == is_failing
        {
            return;
        }
        let replica = self.uri.as_str();
        match is_failing {
            true => tracing::warn!(
                replica,
                "replica fails most of its calls, unlike the others, and gets fewer requests"
            ),
            false => tracing::info!(
                replica,
                "replica no longer fails more calls than the others"
            ),
        }
    }

    fn backoff(&self) -> std::sync::MutexGuard<'_, ReconnectBackoff> {
        self.backoff.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pace(&self) -> std::sync::MutexGuard<'_, Pace> {
        self.pace.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rank(priority: u16, weight: u16) -> u32 {
    u32::from(priority) << 16 | u32::from(weight)
}

/// `http://address:port`.
pub(crate) fn uri_of(at: SocketAddr) -> String {
    format!("http://{at}")
}
