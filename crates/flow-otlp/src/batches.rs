//! Gathers what comes one by one, and sends it in batches.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use crate::delivery::{Delivery, LAST_EXPORT_MAX};
use crate::settings::BatchSettings;

/// Time during which more may arrive before they are taken from the queue. Otherwise every line of a busy process would wake
/// the exporting thread, which costs more than the line.
const PAUSE: Duration = Duration::from_millis(5);

/// What waits, and where it goes.
pub(crate) struct Batches<T, E> {
    pub(crate) settings: BatchSettings,
    pub(crate) waiting: mpsc::Receiver<T>,
    pub(crate) delivery: Delivery,
    /// Makes one message of a batch.
    pub(crate) encode: E,
}

/// What is sent at once.
struct Gathered<T> {
    batch: Vec<T>,
    /// Whether the process ends.
    is_last: bool,
}

impl<T, E: Fn(Vec<T>) -> Vec<u8>> Batches<T, E> {
    /// Sends batches until the process ends, and then what waits.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut is_over = false;
        while !is_over {
            let gathered = self.gather(&stop).await;
            is_over = gathered.is_last;
            let count = gathered.batch.len();
            if count == 0 {
                continue;
            }
            let message = (self.encode)(gathered.batch);
            let limit = self.settings.timeout;
            if is_over {
                let limit = limit.min(LAST_EXPORT_MAX);
                self.delivery.send(&message, count, limit).await;
                continue;
            }
            is_over = send(&mut self.delivery, (&message, count, limit), &stop).await;
        }
    }

    /// The first that comes, and those that come within the delay after it, as far as they fit; or all that wait, if the
    /// process ends.
    async fn gather(&mut self, stop: &CancellationToken) -> Gathered<T> {
        let (mut batch, mut is_last) = (Vec::new(), false);
        let mut until = None;
        while batch.len() < self.settings.batch_max && !is_last {
            let due = async {
                match until {
                    Some(until) => sleep_until(until).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                () = stop.cancelled() => is_last = true,
                next = self.waiting.recv() => match next {
                    Some(next) => {
                        batch.push(next);
                        until.get_or_insert_with(|| Instant::now() + self.settings.delay);
                        is_last = self.pause(stop).await;
                        self.take_waiting(&mut batch);
                    }
                    None => is_last = true,
                },
                () = due => break,
            }
        }
        while is_last && let Ok(next) = self.waiting.try_recv() {
            batch.push(next);
        }
        Gathered { batch, is_last }
    }

    /// Waits while more arrive. Returns whether the process ended meanwhile.
    async fn pause(&self, stop: &CancellationToken) -> bool {
        tokio::select! {
            () = stop.cancelled() => true,
            () = sleep(PAUSE.min(self.settings.delay)) => false,
        }
    }

    /// Takes those that have arrived, as far as they fit.
    fn take_waiting(&mut self, batch: &mut Vec<T>) {
        while batch.len() < self.settings.batch_max
            && let Ok(next) = self.waiting.try_recv()
        {
            batch.push(next);
        }
    }
}

/// Sends a message while the process runs. Returns whether the process ended meanwhile; then there is little time left, and
/// what waits behind the message is given up.
pub(crate) async fn send(
    delivery: &mut Delivery,
    (message, count, limit): (&[u8], usize, Duration),
    stop: &CancellationToken,
) -> bool {
    let mut sending = std::pin::pin!(delivery.send(message, count, limit));
    tokio::select! {
        () = &mut sending => false,
        () = stop.cancelled() => {
            drop(timeout(LAST_EXPORT_MAX, sending).await);
            true
        }
    }
}
