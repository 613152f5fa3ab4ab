//! A bounded channel for lines whose sender never waits.
//!
//! A terminal may be paused, a pipe full, a disk slow. A process whose lines wait for one of them would stop serving, so
//! lines that find the channel full are dropped and counted. The receiver gets the count of each process where the
//! lines would have been: after the lines that were in the channel before them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TryRecvError;

/// Lines of one process that were dropped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DroppedLines {
    /// The process's name.
    pub name: Arc<str>,
    /// How many lines.
    pub count: u64,
}

impl fmt::Display for DroppedLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = if self.count == 1 { "line" } else { "lines" };
        write!(f, "… {} {lines} dropped", self.count)
    }
}

/// Places that lines leave free for other items, which are few: one for each start of a process.
const RESERVED: usize = 1_024;

/// Maximum number of items that [`LossyReceiver::blocking_recv_some`] returns.
const SOME_MAX: usize = 256;

/// A channel for at most `capacity` items with lines.
#[must_use]
pub fn lossy_channel<T>(capacity: usize) -> (LossySender<T>, LossyReceiver<T>) {
    let (sender, receiver) = mpsc::channel(capacity + RESERVED);
    let dropped = Arc::<Mutex<Counts>>::default();
    let sender = LossySender {
        sender,
        dropped: dropped.clone(),
    };
    (sender, LossyReceiver { receiver, dropped })
}

/// Lines dropped since the last report to the receiver, by process.
#[derive(Debug, Default)]
struct Counts(BTreeMap<Arc<str>, u64>);

impl Counts {
    fn add(&mut self, name: Arc<str>, count: usize) {
        *self.0.entry(name).or_default() += count as u64;
    }

    fn take_first(&mut self) -> Option<DroppedLines> {
        let (name, count) = self.0.pop_first()?;
        Some(DroppedLines { name, count })
    }
}

fn lock(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends items, or drops them when the channel is full.
#[derive(Debug)]
pub struct LossySender<T> {
    sender: mpsc::Sender<T>,
    dropped: Arc<Mutex<Counts>>,
}

impl<T> Clone for LossySender<T> {
    fn clone(&self) -> Self {
        Self {
            sender: self.sender.clone(),
            dropped: self.dropped.clone(),
        }
    }
}

impl<T: From<DroppedLines>> LossySender<T> {
    /// Sends a line of this process, or drops and counts it.
    ///
    /// Once lines are dropped, all are until half of the channel is free: a receiver that is slow all the time gets
    /// runs of lines with reports between them, and not reports alone.
    pub fn send_line(&self, name: &Arc<str>, line: T) {
        self.send_lines(name, line, 1);
    }

    /// The same for an item with so many lines.
    pub fn send_lines(&self, name: &Arc<str>, lines: T, count: usize) {
        let mut dropped = lock(&self.dropped);
        let free = self.sender.capacity().saturating_sub(RESERVED);
        let wanted = match dropped.0.is_empty() {
            true => 1,
            false => (self.sender.max_capacity() - RESERVED).div_ceil(2) + dropped.0.len(),
        };
        if free < wanted.min(self.sender.max_capacity() - RESERVED) {
            dropped.add(name.clone(), count);
            return;
        }
        self.report(&mut dropped);
        self.send(lines);
    }

    fn report(&self, dropped: &mut Counts) {
        while let Some(report) = dropped.take_first() {
            self.send(report.into());
        }
    }

    /// Sends something that is not a line, in the places that lines leave free.
    pub fn send(&self, item: T) {
        // Closed: the receiver is gone, and with it all interest. Full: it has not read for a thousand of these.
        drop(self.sender.try_send(item));
    }
}

/// Receives items, and reports of dropped lines between them.
#[derive(Debug)]
pub struct LossyReceiver<T> {
    receiver: mpsc::Receiver<T>,
    dropped: Arc<Mutex<Counts>>,
}

impl<T: From<DroppedLines>> LossyReceiver<T> {
    /// Waits for the next item; `None` when all senders are gone and everything was received.
    pub async fn recv(&mut self) -> Option<T> {
        match self.try_recv() {
            Some(item) => Some(item),
            None => match self.receiver.recv().await {
                Some(item) => Some(item),
                None => self.try_recv(),
            },
        }
    }

    /// The same for a thread outside of the runtime.
    pub fn blocking_recv(&mut self) -> Option<T> {
        match self.try_recv() {
            Some(item) => Some(item),
            None => match self.receiver.blocking_recv() {
                Some(item) => Some(item),
                None => self.try_recv(),
            },
        }
    }

    /// Waits for the next item, and takes those behind it that are there already, so that they can be written at once. `None`
    /// when all senders are gone and everything was received.
    pub fn blocking_recv_some(&mut self) -> Option<Vec<T>> {
        let mut items = vec![self.blocking_recv()?];
        while items.len() < SOME_MAX
            && let Some(item) = self.try_recv()
        {
            items.push(item);
        }
        Some(items)
    }

    /// An item that is there; when there is none, a report of dropped lines.
    fn try_recv(&mut self) -> Option<T> {
        match self.receiver.try_recv() {
            Ok(item) => Some(item),
            Err(TryRecvError::Empty | TryRecvError::Disconnected) => {
                lock(&self.dropped).take_first().map(T::from)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq)]
    enum Item {
        Line(u32),
        Dropped(String, u64),
    }

    impl From<DroppedLines> for Item {
        fn from(dropped: DroppedLines) -> Self {
            Self::Dropped(dropped.name.to_string(), dropped.count)
        }
    }

    fn send(sender: &LossySender<Item>, name: &str, numbers: std::ops::Range<u32>) {
        for number in numbers {
            sender.send_line(&name.into(), Item::Line(number));
        }
    }

    #[tokio::test]
    async fn lines_that_do_not_fit_are_dropped_and_counted_by_process() {
        let (sender, mut receiver) = lossy_channel(2);
        send(&sender, "a", 0..5);
        send(&sender, "b", 5..6);
        let dropped = |name: &str, count| Some(Item::Dropped(name.to_owned(), count));
        assert_eq!(receiver.recv().await, Some(Item::Line(0)));
        assert_eq!(receiver.recv().await, Some(Item::Line(1)));
        assert_eq!(receiver.recv().await, dropped("a", 3));
        assert_eq!(receiver.recv().await, dropped("b", 1));
        drop(sender);
        assert_eq!(receiver.recv().await, None);
    }

    #[test]
    fn items_that_are_there_are_received_at_once_in_their_order() {
        let (sender, mut receiver) = lossy_channel(300);
        send(&sender, "a", 0..260);
        let numbers = |from: u32, to: u32| (from..to).map(Item::Line).collect::<Vec<_>>();
        assert_eq!(receiver.blocking_recv_some(), Some(numbers(0, 256)));
        assert_eq!(receiver.blocking_recv_some(), Some(numbers(256, 260)));
        drop(sender);
        assert_eq!(receiver.blocking_recv_some(), None);
    }

    #[tokio::test]
    async fn a_report_comes_before_the_lines_that_follow_the_dropped_ones() {
        let (sender, mut receiver) = lossy_channel(4);
        send(&sender, "a", 0..6);
        assert_eq!(receiver.recv().await, Some(Item::Line(0)));
        send(&sender, "a", 6..7);
        for number in 1..4 {
            assert_eq!(receiver.recv().await, Some(Item::Line(number)));
        }
        send(&sender, "a", 7..8);
        assert_eq!(
            receiver.recv().await,
            Some(Item::Dropped("a".to_owned(), 3))
        );
        assert_eq!(receiver.recv().await, Some(Item::Line(7)));
    }

    #[tokio::test]
    async fn drops_are_reported_even_when_the_sender_is_gone() {
        let (sender, mut receiver) = lossy_channel(1);
        send(&sender, "a", 0..9);
        drop(sender);
        assert_eq!(receiver.recv().await, Some(Item::Line(0)));
        assert_eq!(
            receiver.recv().await,
            Some(Item::Dropped("a".to_owned(), 8))
        );
        assert_eq!(receiver.recv().await, None);
    }

    #[test]
    fn a_report_reads_as_a_line() {
        let check = |count, expected: &str| {
            let name = "a".into();
            assert_eq!(DroppedLines { name, count }.to_string(), expected);
        };
        check(1, "… 1 line dropped");
        check(20, "… 20 lines dropped");
    }
}
