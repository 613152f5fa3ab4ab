//! The connections of a server that are open: how many, from where, and which ones are closed to make room.
//!
//! Decides and counts; `connection.rs` serves them. The current time is an argument.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use crate::byte_budget::ByteBudget;
use crate::http2_windows::Http2Window;
use crate::limits::ConnectionLimits;
use crate::partial_message::PartialMessage;
use crate::read_turn::ReadTurn;

/// Bytes after which the protocol of a connection is known: HTTP/2's preface.
const PREFACE_LEN: usize = 24;

/// The first bytes of HTTP/2, which no method of HTTP/1 has.
const HTTP2_BEGINS: &[u8] = b"PRI ";

/// When room is made, at most this fraction of the connections is closed at once.
const ROOM_SHARE: usize = 4;

/// Time that a connection has at least until it is closed to make room: its next request may be on its way.
const IDLE_MIN: Duration = Duration::from_millis(200);

/// The same for one that has sent nothing. A client sends its first bytes with the end of the handshake, and the sooner
/// silent connections are closed, the sooner those that wait behind them are accepted.
const SILENT_MIN: Duration = Duration::from_millis(50);

/// Time that the byte budget may be full before the connection that holds most of it is closed.
const FULL_MAX: Duration = Duration::from_secs(10);

/// What is known of an open connection.
#[derive(Debug)]
pub(crate) struct OpenConnection {
    peer: Option<SocketAddr>,
    /// The address that counts as one client.
    from: Option<IpAddr>,
    opened: Instant,
    /// Age at which it is closed.
    age_max: Option<Duration>,
    received: AtomicUsize,
    /// Requests whose reply is not complete.
    requests: AtomicUsize,
    /// When the last request ended, in milliseconds after `opened`.
    last_used: AtomicU64,
    /// Bytes of its requests and replies.
    pub(crate) budget: Option<ByteBudget>,
    /// What it may have in flight over HTTP/2; `None` for as much as the limits say, or if it speaks another protocol.
    window: Mutex<Option<Http2Window>>,
    /// What was read of a message after an upgrade.
    pub(crate) partial: PartialMessage,
    /// Limits what is read before other tasks run.
    pub(crate) turn: ReadTurn,
    /// Cancelled to finish its requests and close it.
    pub(crate) closing: CancellationToken,
    /// Cancelled to close it at once.
    pub(crate) cut: CancellationToken,
}

impl OpenConnection {
    /// The address of the client.
    pub(crate) fn client(&self) -> Option<IpAddr> {
        self.from
    }

    /// The other end of the connection.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }

    /// Notes bytes that were received. If the first ones are not those of HTTP/2, the connection needs no window.
    pub(crate) fn received(&self, bytes: &[u8]) {
        let before = self.received.fetch_add(bytes.len(), Ordering::Relaxed);
        let compared = bytes.len().min(HTTP2_BEGINS.len());
        if before == 0 && bytes[..compared] != HTTP2_BEGINS[..compared] {
            let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
            window.take();
        }
        self.turn.read(bytes.len());
        self.partial.read(bytes.len());
    }

    /// A connection with this budget and nothing else.
    #[cfg(test)]
    pub(crate) fn with_budget(budget: ByteBudget) -> Self {
        let mut all = OpenConnections::new(ConnectionLimits::default(), Some(budget));
        let added = all.add(None, CancellationToken::new(), Instant::now());
        drop(all);
        added.and_then(|(_, it)| Arc::into_inner(it)).unwrap()
    }

    /// Bytes that it may have in flight over HTTP/2; `None` for as many as the limits say.
    pub(crate) fn window(&self) -> Option<u32> {
        let window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        window.as_ref().map(Http2Window::bytes)
    }

    /// Requests whose reply is not complete.
    pub(crate) fn requests(&self) -> usize {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn begin_request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn end_request(&self) {
        let used = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_used.store(used, Ordering::Relaxed);
        self.requests.fetch_sub(1, Ordering::Relaxed);
    }

    fn is_idle(&self) -> bool {
        self.requests() == 0
    }

    fn is_silent(&self) -> bool {
        self.received.load(Ordering::Relaxed) < PREFACE_LEN
    }

    /// Whether it has had time for its next request.
    fn had_time(&self, now: Instant) -> bool {
        let min = match self.is_silent() {
            true => SILENT_MIN,
            false => IDLE_MIN,
        };
        self.idle_time(now) >= min
    }

    /// How long it has had no request.
    fn idle_time(&self, now: Instant) -> Duration {
        let used = Duration::from_millis(self.last_used.load(Ordering::Relaxed));
        now.saturating_duration_since(self.opened + used)
    }

    /// Closes a connection that has no request.
    fn close(&self) {
        match self.is_silent() {
            true => self.cut.cancel(),
            // A request that is on its way gets its reply.
            false => self.closing.cancel(),
        }
    }
}

/// All connections of a server that are open.
#[derive(Debug)]
pub(crate) struct OpenConnections {
    limits: ConnectionLimits,
    budget: Option<ByteBudget>,
    by_id: HashMap<u64, Arc<OpenConnection>>,
    by_address: HashMap<IpAddr, usize>,
    next_id: u64,
    full_since: Option<Instant>,
}

impl OpenConnections {
    pub(crate) fn new(limits: ConnectionLimits, budget: Option<ByteBudget>) -> Self {
        Self {
            limits,
            budget,
            by_id: HashMap::new(),
            by_address: HashMap::new(),
            next_id: 0,
            full_since: None,
        }
    }

    /// Whether there may be one more connection.
    pub(crate) fn have_room(&self) -> bool {
        let max = self.limits.connections_max;
        max.is_none_or(|max| self.by_id.len() < max.get())
    }

    /// Closes some connections without requests: first those that never sent anything, then those idle for longest.
    pub(crate) fn make_room(&self, now: Instant) {
        close_idlest(self.by_id.values(), self.by_id.len() / ROOM_SHARE + 1, now);
    }

    /// Adds a connection, unless its address has as many as it may. Then one of them is closed if it is idle.
    pub(crate) fn add(
        &mut self,
        peer: Option<SocketAddr>,
        closing: CancellationToken,
        now: Instant,
    ) -> Option<(u64, Arc<OpenConnection>)> {
        let from = peer.map(|it| network(it.ip()));
        if let (Some(address), Some(max)) = (from, self.limits.per_address_max) {
            let count = self.by_address.get(&address).copied().unwrap_or(0);
            if count >= max.get() {
                let same = self.by_id.values().filter(|it| it.from == from);
                close_idlest(same, 1, now);
                return None;
            }
        }
        if let Some(address) = from {
            *self.by_address.entry(address).or_default() += 1;
        }
        let id = self.next_id;
        self.next_id += 1;
        let connection = Arc::new(OpenConnection {
            peer,
            from,
            opened: now,
            age_max: self.limits.age_max.map(|max| jittered(max, id)),
            received: AtomicUsize::new(0),
            requests: AtomicUsize::new(0),
            last_used: AtomicU64::new(0),
            budget: self.budget.as_ref().map(ByteBudget::for_connection),
            window: Mutex::new(
                self.budget
                    .as_ref()
                    .map(|it| it.open_window(self.limits.connection_window)),
            ),
            partial: PartialMessage::default(),
            turn: ReadTurn::default(),
            closing,
            cut: CancellationToken::new(),
        });
        self.by_id.insert(id, connection.clone());
        Some((id, connection))
    }

    /// Removes a connection that has ended.
    pub(crate) fn remove(&mut self, id: u64) {
        let address = self.by_id.remove(&id).and_then(|it| it.from);
        if let Some(address) = address
            && let Some(count) = self.by_address.get_mut(&address)
        {
            *count -= 1;
            if *count == 0 {
                self.by_address.remove(&address);
            }
        }
    }

    /// Closes connections whose time is over. Called some times a second.
    pub(crate) fn close_expired(&mut self, now: Instant) {
        for connection in self.by_id.values() {
            let age = now.saturating_duration_since(connection.opened);
            if connection.is_silent() {
                if self.limits.preface_max.is_some_and(|max| age >= max) {
                    connection.cut.cancel();
                }
                continue;
            }
            let is_idle = self
                .limits
                .idle_max
                .is_some_and(|max| connection.is_idle() && connection.idle_time(now) >= max);
            if is_idle || connection.age_max.is_some_and(|max| age >= max) {
                connection.closing.cancel();
            }
        }
        self.relieve_budget(now);
    }

    /// Closes the connection that holds most bytes if the budget has been full for a while: its client sends more than
    /// the flow can do, or does not read its replies.
    fn relieve_budget(&mut self, now: Instant) {
        if self.budget.as_ref().is_none_or(ByteBudget::has_room) {
            self.full_since = None;
            return;
        }
        let since = *self.full_since.get_or_insert(now);
        if now.saturating_duration_since(since) < FULL_MAX {
            return;
        }
        self.full_since = None;
        let held = |it: &&Arc<OpenConnection>| it.budget.as_ref().map_or(0, ByteBudget::held);
        if let Some(largest) = self.by_id.values().max_by_key(held) {
            tracing::warn!(
                from = ?largest.from,
                bytes = held(&largest),
                "requests and replies have filled the memory budget for {} s; closing the connection that holds most",
                FULL_MAX.as_secs()
            );
            largest.cut.cancel();
        }
    }
}

/// Closes `count` of the connections that have no request.
fn close_idlest<'c>(
    connections: impl Iterator<Item = &'c Arc<OpenConnection>>,
    count: usize,
    now: Instant,
) {
    let is_open = |it: &&Arc<OpenConnection>| !it.closing.is_cancelled() && !it.cut.is_cancelled();
    let mut idle: Vec<_> = connections
        .filter(|it| it.is_idle())
        .filter(is_open)
        .filter(|it| it.had_time(now))
        .map(|it| (it.is_silent(), it.idle_time(now), it))
        .collect();
    idle.sort_unstable_by_key(|(is_silent, time, _)| std::cmp::Reverse((*is_silent, *time)));
    idle.iter().take(count).for_each(|(.., it)| it.close());
}

/// The address that counts as one client: of IPv6, the network that a site gets.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) if !address.is_loopback() => {
            IpAddr::V6((address.to_bits() >> 64 << 64).into())
        }
        other => other,
    }
}

/// The time with up to a tenth more or less, so that connections opened together are not closed together.
fn jittered(time: Duration, id: u64) -> Duration {
    // A multiplicative hash: consecutive numbers are spread evenly.
    let spread = u32::try_from(id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54).unwrap_or(512);
    time / 10 * 9 + time / 5 * spread / 1024
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::num::NonZeroUsize;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn limits() -> ConnectionLimits {
        ConnectionLimits {
            connections_max: NonZeroUsize::new(3),
            per_address_max: NonZeroUsize::new(2),
            preface_max: Some(Duration::from_secs(10)),
            idle_max: Some(Duration::from_secs(100)),
            age_max: Some(Duration::from_secs(1000)),
            ..ConnectionLimits::default()
        }
    }

    struct Fixture {
        open: OpenConnections,
        start: Instant,
    }

    impl Fixture {
        fn new(budget: Option<ByteBudget>) -> Self {
            Self {
                open: OpenConnections::new(limits(), budget),
                start: Instant::now(),
            }
        }

        fn add(&mut self, from: Option<IpAddr>) -> Option<(u64, Arc<OpenConnection>)> {
            let peer = from.map(|it| SocketAddr::new(it, 1));
            self.open.add(peer, CancellationToken::new(), self.start)
        }

        fn after(&mut self, seconds: u64) {
            let now = self.start + Duration::from_secs(seconds);
            self.open.close_expired(now);
        }
    }

    fn spoken(connection: &OpenConnection) {
        connection.received(&[b'x'; PREFACE_LEN]);
    }

    #[test]
    fn a_silent_connection_makes_room_before_an_idle_one_and_a_busy_one_never() {
        let mut fixture = Fixture::new(None);
        let [busy, idle, silent] = [(); 3].map(|()| fixture.add(None).unwrap().1);
        spoken(&busy);
        spoken(&idle);
        busy.begin_request();
        assert!(!fixture.open.have_room());
        fixture.open.make_room(fixture.start);
        assert!(!silent.cut.is_cancelled(), "it is new");
        fixture.open.make_room(fixture.start + SILENT_MIN);
        assert!(silent.cut.is_cancelled() && !idle.closing.is_cancelled());
        let now = fixture.start + IDLE_MIN;
        fixture.open.make_room(now);
        assert!(idle.closing.is_cancelled() && !idle.cut.is_cancelled());
        fixture.open.make_room(now);
        assert!(!busy.closing.is_cancelled() && !busy.cut.is_cancelled());
        fixture.open.remove(0);
        assert!(fixture.open.have_room());
    }

    #[test]
    fn an_address_has_a_limit_of_connections() {
        let mut fixture = Fixture::new(None);
        let (first, _) = fixture.add(Some(HERE)).unwrap();
        assert!(fixture.add(Some(HERE)).is_some());
        assert!(fixture.add(Some(HERE)).is_none());
        fixture.open.remove(first);
        assert!(fixture.add(Some(HERE)).is_some());
        assert!(
            fixture
                .add(Some(Ipv4Addr::new(10, 0, 0, 1).into()))
                .is_some()
        );
    }

    #[test]
    fn an_ipv6_site_is_one_address() {
        let address = |text: &str| network(text.parse().unwrap());
        assert_eq!(address("2001:db8::1"), address("2001:db8::2"));
        assert_ne!(address("2001:db8::1"), address("2001:db8:0:1::1"));
        assert_eq!(address("::ffff:10.0.0.1"), address("10.0.0.1"));
    }

    #[test]
    fn silent_idle_and_old_connections_are_closed_in_time() {
        let mut fixture = Fixture::new(None);
        let [busy, idle, silent] = [(); 3].map(|()| fixture.add(None).unwrap().1);
        spoken(&busy);
        spoken(&idle);
        busy.begin_request();
        fixture.after(9);
        assert!(!silent.cut.is_cancelled());
        fixture.after(10);
        assert!(silent.cut.is_cancelled());
        fixture.after(99);
        assert!(!idle.closing.is_cancelled());
        fixture.after(100);
        assert!(idle.closing.is_cancelled());
        fixture.after(899);
        assert!(!busy.closing.is_cancelled());
        fixture.after(1100);
        assert!(busy.closing.is_cancelled() && !busy.cut.is_cancelled());
    }

    #[test]
    fn the_age_of_connections_differs_by_a_tenth() {
        let ages: Vec<u64> = (0..1000)
            .map(|id| jittered(Duration::from_secs(1000), id).as_secs())
            .collect();
        assert!(ages.iter().all(|age| (899..=1100).contains(age)));
        let late = ages.iter().filter(|age| **age > 1000).count();
        assert!((400..600).contains(&late), "{late}");
    }

    #[test]
    fn a_full_budget_closes_the_connection_that_holds_most() {
        let budget = ByteBudget::new(100);
        let mut fixture = Fixture::new(Some(budget.clone()));
        let [large, small] = [(); 2].map(|()| fixture.add(None).unwrap().1);
        spoken(&large);
        spoken(&small);
        large.begin_request();
        let _held = large.budget.as_ref().unwrap().hold(90);
        let few = small.budget.as_ref().unwrap().hold(10);
        fixture.after(1);
        fixture.after(9);
        assert!(!large.cut.is_cancelled());
        fixture.after(11);
        assert!(large.cut.is_cancelled() && !small.cut.is_cancelled());
        drop(few);
        fixture.after(12);
        fixture.after(60);
        assert!(!small.cut.is_cancelled());
    }
}
