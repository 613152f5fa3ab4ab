//! Limits the bytes of requests and replies that a process holds.
//!
//! A budget has parts: that of a connection is part of the process's, that of a stream part of its connection's. What a
//! part holds counts in all budgets around it. A new message is read only while all of them have room, so a client that
//! sends much or reads nothing fills its own part, and not the others'.

use std::pin::pin;

use crate::http2_windows::{Http2Window, Http2Windows};
use crate::sync::{Arc, AtomicUsize, Notify, Ordering};

/// A connection may hold this fraction of the process's budget, and a stream half of that.
const CONNECTION_SHARE: usize = 4;
const STREAM_SHARE: usize = 2;

/// A connection that holds at most this fraction of its part is quiet: the part of one that sends small requests.
const QUIET_SHARE: usize = 16;

/// Of the memory of a process, this fraction is for what is in flight on its connections. With messages a quarter above
/// their limit, both together take little more than the memory.
const WINDOWS_SHARE: usize = 4;

/// A limit on bytes. Clones are the same budget.
#[derive(Debug, Clone)]
pub struct ByteBudget(Arc<Budget>);

#[derive(Debug)]
struct Budget {
    max: usize,
    held: AtomicUsize,
    whole: Option<ByteBudget>,
    waiters: Arc<Waiters>,
    windows: Http2Windows,
    /// A connection may hold this fraction.
    connection_share: usize,
}

/// What waits for room, in a budget or in any of its parts.
#[derive(Debug, Default)]
struct Waiters {
    count: AtomicUsize,
    released: Notify,
}

/// Bytes that count in a budget until this is dropped.
#[derive(Debug)]
pub struct HeldBytes {
    budget: ByteBudget,
    bytes: usize,
}

impl ByteBudget {
    /// The budget of a process whose requests and replies may take this much memory: three quarters of it. The rest is for the
    /// windows of HTTP/2.
    #[must_use]
    pub fn of_memory(memory: usize) -> Self {
        let windows = memory / WINDOWS_SHARE;
        Self::with_windows(memory - windows, windows, CONNECTION_SHARE)
    }

    /// A budget of this many bytes, and a third of that for the windows of HTTP/2.
    #[must_use]
    pub fn new(max: usize) -> Self {
        Self::with_windows(max, max / (WINDOWS_SHARE - 1), CONNECTION_SHARE)
    }

    fn with_windows(max: usize, windows: usize, connection_share: usize) -> Self {
        Self(Arc::new(Budget {
            max,
            held: AtomicUsize::new(0),
            whole: None,
            waiters: Arc::default(),
            windows: Http2Windows::new(windows),
            connection_share,
        }))
    }

    /// A new connection's window of HTTP/2, of at most this many bytes.
    pub(crate) fn open_window(&self, max: u32) -> Http2Window {
        self.0.windows.open(max)
    }

    /// The part of a connection.
    #[must_use]
    pub fn for_connection(&self) -> Self {
        self.part(self.0.connection_share)
    }

    /// The budget of a process whose clients are gateways, each with one connection for the requests of all its clients: a
    /// connection may hold all of it.
    #[must_use]
    pub fn for_gateways(memory: usize) -> Self {
        let windows = memory / WINDOWS_SHARE;
        Self::with_windows(memory - windows, windows, 1)
    }

    /// The part of a stream.
    #[must_use]
    pub fn for_stream(&self) -> Self {
        self.part(STREAM_SHARE)
    }

    fn part(&self, share: usize) -> Self {
        Self(Arc::new(Budget {
            max: self.0.max / share,
            held: AtomicUsize::new(0),
            whole: Some(self.clone()),
            waiters: self.0.waiters.clone(),
            windows: self.0.windows.clone(),
            connection_share: self.0.connection_share,
        }))
    }

    /// The limit, in bytes.
    #[must_use]
    pub fn max(&self) -> usize {
        self.0.max
    }

    /// The limit of the process of whose budget this is a part, in bytes.
    #[must_use]
    pub fn process_max(&self) -> usize {
        self.chain().last().unwrap_or(self).0.max
    }

    /// Bytes that are held.
    #[must_use]
    pub fn held(&self) -> usize {
        self.0.held.load(Ordering::SeqCst)
    }

    /// Counts bytes that are in memory, whether or not there is room.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> HeldBytes {
        self.add(bytes);
        HeldBytes {
            budget: self.clone(),
            bytes,
        }
    }

    /// Whether this budget and those around it have room for a new message of any length. What a few connections hold leaves
    /// room for one that holds next to nothing: up to a quarter above the limit of the process.
    #[must_use]
    pub fn has_room(&self) -> bool {
        let Some(around) = &self.0.whole else {
            return self.held() < self.0.max;
        };
        let is_connection = around.0.whole.is_none();
        let is_quiet = is_connection && self.held() <= self.0.max / QUIET_SHARE;
        self.held() < self.0.max && (around.has_room() || (is_quiet && self.may_grow()))
    }

    /// Whether a message that has begun may grow: up to the limit of the process, and a quarter above it as long as its
    /// connection keeps to its own part. So no connection alone takes the last quarter.
    #[must_use]
    pub fn may_grow(&self) -> bool {
        let mut connection = self;
        while let Some(around) = connection
            .0
            .whole
            .as_ref()
            .filter(|it| it.0.whole.is_some())
        {
            connection = around;
        }
        let whole = connection.0.whole.as_ref().unwrap_or(self);
        let (held, max) = (whole.held(), whole.0.max);
        held < max || (held < max.saturating_add(max / 4) && connection.held() <= connection.0.max)
    }

    /// Waits until there is room.
    pub async fn room(&self) {
        while !self.has_room() {
            let waiters = self.0.waiters.clone();
            waiters.count.fetch_add(1, Ordering::SeqCst);
            let _guard = Waiting(&waiters.count);
            let mut released = pin!(waiters.released.notified());
            // From here on a release is noticed.
            released.as_mut().enable();
            if !self.has_room() {
                released.await;
            }
        }
    }

    /// This budget and those around it.
    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.0.whole.as_ref())
    }

    fn add(&self, bytes: usize) {
        for budget in self.chain() {
            budget.0.held.fetch_add(bytes, Ordering::SeqCst);
        }
    }

    fn release(&self, bytes: usize) {
        for budget in self.chain() {
            budget.0.held.fetch_sub(bytes, Ordering::SeqCst);
        }
        if self.0.waiters.count.load(Ordering::SeqCst) > 0 {
            self.0.waiters.released.notify_waiters();
        }
    }
}

/// A future that waits for room, and is counted as long as it does.
struct Waiting<'c>(&'c AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl HeldBytes {
    /// Holds `more` bytes if a message [may grow](ByteBudget::may_grow) by them. Otherwise nothing changes, and it returns
    /// false.
    #[must_use]
    pub fn try_add(&mut self, more: usize) -> bool {
        self.budget.add(more);
        if !self.budget.may_grow() {
            self.budget.release(more);
            return false;
        }
        self.bytes += more;
        true
    }

    /// Holds `fewer` bytes less, and at least none.
    pub fn release(&mut self, fewer: usize) {
        self.set(self.bytes.saturating_sub(fewer));
    }

    /// Changes how many bytes are held.
    pub fn set(&mut self, bytes: usize) {
        match bytes.checked_sub(self.bytes) {
            Some(0) => {}
            Some(more) => self.budget.add(more),
            None => self.budget.release(self.bytes - bytes),
        }
        self.bytes = bytes;
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn bytes_count_in_all_budgets_around_a_part() {
        let whole = ByteBudget::new(80);
        let connection = whole.for_connection();
        let stream = connection.for_stream();
        assert_eq!((connection.max(), stream.max()), (20, 10));
        let mut held = stream.hold(7);
        assert_eq!((whole.held(), connection.held(), stream.held()), (7, 7, 7));
        held.set(3);
        let other = connection.hold(1);
        assert_eq!((whole.held(), connection.held(), stream.held()), (4, 4, 3));
        drop((held, other));
        assert_eq!((whole.held(), connection.held(), stream.held()), (0, 0, 0));
    }

    #[test]
    fn a_full_part_leaves_room_for_the_others() {
        let whole = ByteBudget::new(80);
        let (full, other) = (whole.for_connection(), whole.for_connection());
        let _held = full.hold(20);
        assert!(!full.has_room() && !full.for_stream().has_room());
        assert!(other.has_room() && other.for_stream().has_room());
    }

    #[test]
    fn a_quiet_connection_has_room_beside_others_that_have_filled_the_budget() {
        let whole = ByteBudget::new(160);
        let (quiet, other) = (whole.for_connection(), whole.for_connection());
        let mut held = other.hold(160);
        assert!(quiet.has_room() && quiet.for_stream().has_room());
        assert!(!other.has_room() && !whole.has_room());
        let own = quiet.hold(3);
        assert!(
            !quiet.has_room(),
            "it holds more than a sixteenth of its part"
        );
        drop(own);
        held.set(200);
        assert!(!quiet.has_room(), "the budget is exceeded by a quarter");
    }

    #[test]
    fn a_message_grows_a_quarter_above_the_limit_if_its_connection_keeps_to_its_part() {
        let whole = ByteBudget::new(80);
        let (connection, other) = (whole.for_connection(), whole.for_connection());
        let mut held = connection.hold(79);
        assert!(connection.may_grow() && connection.for_stream().may_grow());
        held.set(80);
        assert!(!connection.may_grow() && !connection.for_stream().may_grow());
        let _own = other.hold(19);
        assert!(other.may_grow() && other.for_stream().may_grow());
        let _more = other.hold(1);
        assert!(!other.may_grow());
    }

    #[test]
    fn bytes_are_added_only_where_there_is_room() {
        let whole = ByteBudget::new(80);
        let stream = whole.for_connection().for_stream();
        assert_eq!(stream.process_max(), 80);
        let mut held = stream.hold(10);
        assert!(held.try_add(60));
        assert!(!held.try_add(10), "the budget would be full");
        assert_eq!((whole.held(), stream.held()), (70, 70));
        held.release(50);
        assert_eq!((whole.held(), stream.held()), (20, 20));
        drop(held);
        assert_eq!((whole.held(), stream.held()), (0, 0));
    }

    #[test]
    fn waiting_ends_when_bytes_are_released_anywhere() {
        let whole = ByteBudget::new(80);
        let (one, other) = (whole.for_connection(), whole.for_connection());
        let mut held = one.hold(100);
        let mut room = Box::pin(other.room());
        assert!(room.as_mut().now_or_never().is_none());
        held.set(99);
        assert!(room.as_mut().now_or_never().is_some());
        drop(room);
        assert_eq!(whole.0.waiters.count.load(Ordering::SeqCst), 0);
    }
}
