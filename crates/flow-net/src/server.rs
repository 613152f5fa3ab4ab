//! Accepts connections and answers them until a drain begins, then lets requests in progress finish.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use flow_metrics::Gauge;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use crate::accept_errors::AcceptErrors;
use crate::connection::{Connections, HttpService};
use crate::connection_threads::ConnectionSpawner;
use crate::{Accept, ByteBudget, ConnectionLimits, Drain};

/// How often connections are looked through for those whose time is over.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(200);

/// How serving ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    /// Every request in progress got its reply.
    Clean,
    /// The grace period ended first.
    Forced,
}

/// A listener, and the service that answers on its connections.
#[derive(Debug)]
pub struct Server<L, S> {
    listener: L,
    service: S,
    limits: ConnectionLimits,
    budget: Option<ByteBudget>,
    spawner: ConnectionSpawner,
    /// Open connections.
    open: Gauge,
}

impl<L: Accept, S: HttpService> Server<L, S> {
    /// A server with the default limits on its connections.
    pub fn new(listener: L, service: S) -> Self {
        Self {
            listener,
            service,
            limits: ConnectionLimits::default(),
            budget: None,
            spawner: ConnectionSpawner::default(),
            open: Gauge::default(),
        }
    }

    /// The same server with other limits.
    #[must_use]
    pub fn with_limits(self, limits: ConnectionLimits) -> Self {
        Self { limits, ..self }
    }

    /// The same server with a limit on the bytes of requests and replies. Each connection may hold a part of it.
    #[must_use]
    pub fn with_budget(self, budget: ByteBudget) -> Self {
        Self {
            budget: Some(budget),
            ..self
        }
    }

    /// The same server, which serves connections on these threads, too.
    #[must_use]
    pub fn with_threads(self, spawner: ConnectionSpawner) -> Self {
        Self { spawner, ..self }
    }

    /// The same server, which counts its open connections there.
    #[must_use]
    pub fn with_open_connections(self, open: Gauge) -> Self {
        Self { open, ..self }
    }

    /// Serves until `drain` begins, and then for at most its grace period.
    ///
    /// `before_close` runs when the drain begins, while connections are still accepted: clients that watch
    /// the health of this process use the time to go elsewhere.
    pub async fn serve(self, drain: &Drain, before_close: impl Future<Output = ()>) -> Stopped {
        let mut connections = Connections::new(
            self.service,
            self.limits,
            self.budget,
            &self.spawner,
            self.open,
        );
        let mut listener = self.listener;
        let draining = drain.watch();
        let drained = async {
            draining.begun().await;
            before_close.await;
        };
        tokio::select! {
            never = accept(&mut listener, &mut connections) => match never {},
            () = drained => {}
        }
        // From now on clients are refused, instead of waiting in a queue that is no longer read.
        drop(listener);
        // Connections that are still open after the grace period are cut off when they are dropped.
        match timeout(drain.grace(), connections.close()).await {
            Ok(()) => Stopped::Clean,
            Err(_elapsed) => Stopped::Forced,
        }
    }

    /// Serves until the future is dropped, which cuts off all connections.
    pub async fn serve_until_dropped(mut self) -> Infallible {
        let mut connections = Connections::new(
            self.service,
            self.limits,
            self.budget,
            &self.spawner,
            self.open,
        );
        accept(&mut self.listener, &mut connections).await
    }
}

/// Serves each connection that comes. One that is too many waits, and no other is accepted, until idle ones are closed.
async fn accept<L: Accept, S: HttpService>(
    listener: &mut L,
    connections: &mut Connections<S>,
) -> Infallible {
    let mut errors = AcceptErrors::default();
    let mut waiting = None;
    let mut expiry = interval(EXPIRY_INTERVAL);
    expiry.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = listener.accept(), if waiting.is_none() => match accepted {
                Ok(accepted) => {
                    errors.accepted();
                    waiting = Some(accepted);
                }
                Err(error) => {
                    // Files are what is missing mostly, and each connection that is closed gives one back.
                    connections.make_room();
                    back_off(&mut errors, &error, connections).await;
                }
            },
            () = connections.ended() => {}
            _ = expiry.tick() => connections.close_expired(),
        }
        if waiting.is_some() && !connections.have_room() {
            connections.make_room();
        } else if let Some((stream, from)) = waiting.take() {
            connections.serve::<L>(stream, from);
        }
    }
}

async fn back_off<S: HttpService>(
    errors: &mut AcceptErrors,
    error: &std::io::Error,
    connections: &mut Connections<S>,
) {
    let Some(backoff) = errors.failed(error, Instant::now()) else {
        return tracing::debug!(%error, "a client left before its connection was accepted");
    };
    if backoff.is_new {
        tracing::warn!(%error, "cannot accept connections; retrying");
    } else {
        tracing::debug!(%error, wait = ?backoff.wait, "still cannot accept connections");
    }
    tokio::select! {
        () = sleep(backoff.wait) => {}
        // It gave a file back, so the next attempt may succeed.
        () = connections.ended() => {}
    }
}

#[cfg(test)]
mod tests;
