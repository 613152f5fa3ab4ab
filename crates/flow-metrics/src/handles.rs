//! What is counted with: atomics that many threads add to, and one reads now and then.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// How often something happened. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Counter(Arc<AtomicU64>);

/// How many there are now. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Gauge(Arc<AtomicI64>);

/// How often something took how long, in all. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Seconds(Arc<Summary>);

/// How many messages there were, and how many bytes in all. Clones count together.
#[derive(Debug, Clone, Default)]
pub struct Lengths(Arc<Summary>);

/// A sum of whole numbers: nanoseconds, bytes. When it has gone once around, which takes centuries of work, it
/// begins again, and Prometheus takes that for what it takes a restart for.
#[derive(Debug, Default)]
struct Summary {
    count: AtomicU64,
    sum: AtomicU64,
}

impl Summary {
    fn add(&self, value: u64) {
        self.sum.fetch_add(value, Relaxed);
        self.count.fetch_add(1, Relaxed);
    }

    fn read(&self) -> (u64, u64) {
        (self.count.load(Relaxed), self.sum.load(Relaxed))
    }
}

impl Counter {
    /// It happened so many times more.
    pub fn add(&self, times: usize) {
        self.0.fetch_add(times as u64, Relaxed);
    }

    /// How often so far.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

impl Gauge {
    /// One more.
    pub fn up(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    /// One less.
    pub fn down(&self) {
        self.0.fetch_sub(1, Relaxed);
    }

    /// How many there are.
    #[must_use]
    pub fn get(&self) -> i64 {
        self.0.load(Relaxed)
    }
}

impl Seconds {
    /// Once more, and it took so long.
    pub fn observe(&self, took: Duration) {
        // A single observation of centuries is none.
        self.0
            .add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Runs until dropped, and then counts, whatever the outcome was.
    pub fn start(&self) -> Stopwatch {
        Stopwatch {
            seconds: self.clone(),
            started: Instant::now(),
        }
    }

    /// How often, and how long in all.
    #[must_use]
    pub fn get(&self) -> (u64, Duration) {
        let (count, sum) = self.0.read();
        (count, Duration::from_nanos(sum))
    }
}

impl Lengths {
    /// One more message, of so many bytes.
    pub fn observe(&self, bytes: usize) {
        self.0.add(bytes as u64);
    }

    /// How many, and how many bytes in all.
    #[must_use]
    pub fn get(&self) -> (u64, u64) {
        self.0.read()
    }
}

/// A time that is being taken.
#[derive(Debug)]
#[must_use = "the time ends when this is dropped"]
pub struct Stopwatch {
    seconds: Seconds,
    started: Instant,
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.seconds.observe(self.started.elapsed());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_count_side_by_side_is_all_there() {
        let (counter, gauge, lengths) = <(Counter, Gauge, Lengths)>::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1_000 {
                        counter.add(2);
                        gauge.up();
                        lengths.observe(3);
                        gauge.down();
                    }
                });
            }
        });
        assert_eq!((counter.get(), gauge.get()), (8_000, 0));
        assert_eq!(lengths.get(), (4_000, 12_000));
    }

    #[test]
    fn a_stopwatch_counts_when_it_is_dropped_even_by_a_panic() {
        let seconds = Seconds::default();
        drop(seconds.start());
        let watched = seconds.clone();
        let panicked = std::thread::spawn(move || {
            let _time = watched.start();
            std::panic::resume_unwind(Box::new(()));
        });
        assert!(panicked.join().is_err());
        let (count, sum) = seconds.get();
        assert_eq!(count, 2);
        assert!(sum > Duration::ZERO);
    }
}
