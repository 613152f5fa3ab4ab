//! The load: whole passes over the bodies, a number of requests at a time.

use std::cell::Cell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::task::{JoinSet, LocalSet};

use crate::target::Target;

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    seconds: f64,
    /// Milliseconds of each request.
    times: Vec<f64>,
}

impl Outcome {
    pub(crate) fn json(&self) -> String {
        let Self { seconds, times } = self;
        format!("{{\"seconds\": {seconds:?}, \"times_ms\": {times:?}}}")
    }
}

/// Sends all bodies, over and over until this time has passed and a pass is complete: so each server gets the same ones equally often.
/// Requests before the clock starts open the connections.
pub(crate) async fn run(
    target: Target,
    bodies: Vec<Bytes>,
    concurrent: usize,
    at_least: Duration,
) -> anyhow::Result<Outcome> {
    let target = Rc::new(target);
    let opening = bodies.iter().cycle().take(concurrent).cloned().collect();
    send_all(&target, Queue::new(opening, Duration::ZERO), concurrent).await?;
    send_all(&target, Queue::new(bodies, at_least), concurrent).await
}

async fn send_all(target: &Rc<Target>, queue: Queue, concurrent: usize) -> anyhow::Result<Outcome> {
    let queue = Rc::new(queue);
    let mut senders = JoinSet::new();
    let local = LocalSet::new();
    for _ in 0..concurrent {
        let sender = send_some(Rc::clone(target), Rc::clone(&queue));
        senders.spawn_local_on(sender, &local);
    }
    let mut outcome = Outcome::default();
    let all_sent = async {
        while let Some(times) = senders.join_next().await {
            outcome.times.extend(times??);
        }
        anyhow::Ok(())
    };
    local.run_until(all_sent).await?;
    outcome.seconds = queue.started.elapsed().as_secs_f64();
    Ok(outcome)
}

/// Sends one body after another until there are no more, and returns the milliseconds of each.
async fn send_some(target: Rc<Target>, queue: Rc<Queue>) -> anyhow::Result<Vec<f64>> {
    let mut times = Vec::new();
    while let Some(body) = queue.next() {
        let began = Instant::now();
        target.send(body).await?;
        times.push(began.elapsed().as_secs_f64() * 1e3);
    }
    Ok(times)
}

/// The bodies that are to be sent.
struct Queue {
    bodies: Vec<Bytes>,
    taken: Cell<usize>,
    started: Instant,
    at_least: Duration,
}

impl Queue {
    fn new(bodies: Vec<Bytes>, at_least: Duration) -> Self {
        Self {
            bodies,
            taken: Cell::new(0),
            started: Instant::now(),
            at_least,
        }
    }

    fn next(&self) -> Option<Bytes> {
        let taken = self.taken.get();
        let place = taken % self.bodies.len();
        if place == 0 && taken != 0 && self.at_least <= self.started.elapsed() {
            return None;
        }
        self.taken.set(taken + 1);
        Some(self.bodies[place].clone())
    }
}
