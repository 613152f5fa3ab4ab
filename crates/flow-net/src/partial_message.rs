//! The bytes of a message that a client has begun to send on a connection which was upgraded, such as to WebSocket.
//!
//! They lie in the buffers of the protocol's own code, which knows no budget. So they are counted where they are read from
//! the connection, from the end of one message to the end of the next.

use std::io;
use std::pin::Pin;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::{Context, Poll, ready};

use crate::byte_budget::{ByteBudget, HeldBytes};

const FULL: &str =
    "the server holds as many bytes of requests and replies as it may; try again later";

/// A byte counts this often: the buffer of the protocol's code is copied to a larger one when it is full, and for a moment both
/// are there.
const COPIES: usize = 2;

/// Counts the bytes of a message that has begun. Does nothing before the connection is upgraded.
#[derive(Debug, Default)]
pub(crate) struct PartialMessage(OnceLock<Mutex<Counted>>);

struct Counted {
    held: HeldBytes,
    budget: ByteBudget,
    bytes: usize,
    /// Set while a message waits for room.
    room: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl std::fmt::Debug for Counted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Counted").field(&self.bytes).finish()
    }
}

impl PartialMessage {
    /// Begins to count in a budget.
    pub(crate) fn begin(&self, budget: &ByteBudget) {
        self.0.get_or_init(|| {
            Mutex::new(Counted {
                held: budget.hold(0),
                budget: budget.clone(),
                bytes: 0,
                room: None,
            })
        });
    }

    /// Ready when more may be read: a message begins while there is room, and may then grow a little beyond.
    ///
    /// # Errors
    /// If a message that has begun may not grow. Waiting with it would keep its bytes from all others.
    pub(crate) fn poll_room(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.counted() {
            Some(mut counted) => counted.poll_room(context),
            None => Poll::Ready(Ok(())),
        }
    }

    /// Notes bytes that were read.
    pub(crate) fn read(&self, bytes: usize) {
        if let Some(mut counted) = self.counted() {
            let bytes = counted.bytes + bytes;
            counted.set(bytes);
        }
    }

    /// Notes further bytes of a message that has begun.
    ///
    /// # Errors
    /// If the message may not grow.
    pub(crate) fn grow(&self, bytes: usize) -> io::Result<()> {
        let Some(mut counted) = self.counted() else {
            return Ok(());
        };
        let bytes = counted.bytes + bytes;
        counted.set(bytes);
        match counted.budget.may_grow() {
            true => Ok(()),
            false => Err(full()),
        }
    }

    /// Notes that the message is complete. Who has it counts it from here on.
    pub(crate) fn complete(&self) {
        if let Some(mut counted) = self.counted() {
            counted.set(0);
        }
    }

    /// Records that this many of the bytes belong to no message.
    pub(crate) fn leave_out(&self, bytes: usize) {
        if let Some(mut counted) = self.counted() {
            let bytes = counted.bytes.saturating_sub(bytes);
            counted.set(bytes);
        }
    }

    fn counted(&self) -> Option<MutexGuard<'_, Counted>> {
        let counted = self.0.get()?;
        Some(counted.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Counted {
    fn set(&mut self, bytes: usize) {
        self.bytes = bytes;
        self.held.set(COPIES * bytes);
    }

    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.bytes > 0 {
            return Poll::Ready(match self.budget.may_grow() {
                true => Ok(()),
                false => Err(full()),
            });
        }
        if self.room.is_none() && self.budget.has_room() {
            return Poll::Ready(Ok(()));
        }
        let room = self.room.get_or_insert_with(|| {
            let budget = self.budget.clone();
            Box::pin(async move { budget.room().await })
        });
        ready!(room.as_mut().poll(context));
        self.room = None;
        Poll::Ready(Ok(()))
    }
}

fn full() -> io::Error {
    io::Error::new(io::ErrorKind::QuotaExceeded, FULL)
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use futures_util::FutureExt;

    use super::*;

    /// Whether it may be read; `None` as long as it has to wait.
    fn may_read(message: &PartialMessage) -> Option<bool> {
        let room = poll_fn(|context| message.poll_room(context));
        room.now_or_never().map(|room| room.is_ok())
    }

    #[test]
    fn a_message_counts_until_it_is_complete() {
        let budget = ByteBudget::new(100);
        let message = PartialMessage::default();
        message.read(50);
        assert_eq!(budget.held(), 0, "the connection is not upgraded");
        message.begin(&budget);
        message.read(50);
        message.read(20);
        assert_eq!(budget.held(), 2 * 70);
        message.leave_out(6);
        assert_eq!(budget.held(), 2 * 64);
        message.complete();
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_message_begins_while_there_is_room_and_grows_within_its_part() {
        let budget = ByteBudget::new(400);
        let parts = [(); 3].map(|()| budget.for_connection());
        let [one, other] = [(); 2].map(|()| PartialMessage::default());
        one.begin(&parts[0]);
        other.begin(&parts[1]);
        one.read(40);
        assert_eq!([&one, &other].map(may_read), [Some(true); 2]);
        let mut held = parts[2].hold(410);
        assert_eq!([&one, &other].map(may_read), [Some(true); 2]);
        held.set(420);
        assert_eq!([&one, &other].map(may_read), [Some(false), None]);
        held.set(380);
        one.read(11);
        assert_eq!(may_read(&one), Some(false), "beyond its part");
        one.complete();
        assert_eq!([&one, &other].map(may_read), [Some(true); 2]);
    }
}
