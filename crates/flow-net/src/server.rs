//! Accepts connections and answers them until a drain begins, then lets requests in progress finish.

use std::convert::Infallible;
use std::time::Instant;

use tokio::time::{sleep, timeout};

use crate::accept_errors::AcceptErrors;
use crate::connection::{Connections, HttpService};
use crate::{Accept, ConnectionLimits, Drain};

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
}

impl<L: Accept, S: HttpService> Server<L, S> {
    /// A server with the default limits on its connections.
    pub fn new(listener: L, service: S) -> Self {
        Self {
            listener,
            service,
            limits: ConnectionLimits::default(),
        }
    }

    /// The same server with other limits.
    #[must_use]
    pub fn with_limits(self, limits: ConnectionLimits) -> Self {
        Self { limits, ..self }
    }

    /// Serves until `drain` begins, and then for at most its grace period.
    ///
    /// `before_close` runs when the drain begins, while connections are still accepted: clients that watch
    /// the health of this process use the time to go elsewhere.
    pub async fn serve(self, drain: &Drain, before_close: impl Future<Output = ()>) -> Stopped {
        let mut connections = Connections::new(self.service, self.limits);
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
        // From now on clients are refused, instead of waiting in a queue that nobody empties.
        drop(listener);
        // Connections that are still open after the grace period are cut off when they are dropped.
        match timeout(drain.grace(), connections.close()).await {
            Ok(()) => Stopped::Clean,
            Err(_elapsed) => Stopped::Forced,
        }
    }

    /// Serves until the future is dropped, which cuts off all connections.
    pub async fn serve_until_dropped(mut self) -> Infallible {
        let mut connections = Connections::new(self.service, self.limits);
        accept(&mut self.listener, &mut connections).await
    }
}

/// Serves each connection that comes.
async fn accept<L: Accept, S: HttpService>(
    listener: &mut L,
    connections: &mut Connections<S>,
) -> Infallible {
    let mut errors = AcceptErrors::default();
    loop {
        tokio::select! {
            accepted = listener.accept(), if connections.have_room() => match accepted {
                Ok(stream) => {
                    errors.accepted();
                    connections.serve(stream);
                }
                Err(error) => back_off(&mut errors, &error).await,
            },
            () = connections.ended() => {}
        }
    }
}

async fn back_off(errors: &mut AcceptErrors, error: &std::io::Error) {
    let Some(backoff) = errors.failed(error, Instant::now()) else {
        return tracing::debug!(%error, "a client left before its connection was accepted");
    };
    if backoff.is_new {
        tracing::warn!(%error, "cannot accept connections; trying again until it works");
    } else {
        tracing::debug!(%error, wait = ?backoff.wait, "still cannot accept connections");
    }
    sleep(backoff.wait).await;
}

#[cfg(test)]
mod tests;
