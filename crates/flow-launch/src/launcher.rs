//! A flow from its start to its end: who starts when, who ends first, and what happens in between.
//!
//! It runs on the thread that `running.rs` made for it, and with it everything that serves a running
//! flow: the control socket and the look at the flow's file.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::thread::available_parallelism;

use flow_net::Listener;
use flow_spec::Plan;
use futures_util::future::try_join_all;
use tokio::sync::{oneshot, watch};

use crate::child::StartError;
use crate::control::Control;
use crate::crew::{Crew, Kept};
use crate::event::Member;
use crate::follow::{self, Source};
use crate::post;
use crate::preparation::Preparation;
use crate::running::{Failed, Started};
use crate::supervise::{Order, told};

/// What a flow needs while it runs.
pub(crate) struct Flow {
    pub(crate) crew: Arc<Crew>,
    pub(crate) source: Option<Source>,
    pub(crate) preparation: Option<Preparation>,
    pub(crate) orders: watch::Receiver<Order>,
}

/// Runs a flow from start to stop, and answers its callers meanwhile.
///
/// `started` is answered as soon as the flow serves, or when it has failed and nothing of it is left.
pub(crate) async fn run(
    flow: Flow,
    control: &Control,
    started: oneshot::Sender<Result<Started, Failed>>,
) -> Result<(), Failed> {
    tokio::select! {
        ended = flow.live(started) => ended,
        never = control.serve() => match never {},
    }
}

/// Says at once what the gateway would say only after every executor has loaded its model.
async fn check_port(plan: &Plan) -> Result<(), Failed> {
    let Some(port) = plan.gateway.port else {
        return Ok(());
    };
    let bound = Listener::bind(&plan.gateway.host, port).await;
    bound
        .map(drop)
        .map_err(|source| Failed::Port { port, source })
}

/// The same of the port for its metrics.
async fn check_metrics_port(plan: &Plan) -> Result<(), Failed> {
    let monitoring = plan.gateway.monitoring.as_ref();
    match monitoring.map_or(0, |it| it.port(0)) {
        0 => Ok(()),
        port => {
            let bound = Listener::bind(&plan.gateway.host, port).await;
            let bound = bound.map(drop);
            bound.map_err(|source| Failed::MetricsPort { port, source })
        }
    }
}

impl Flow {
    async fn live(
        mut self,
        started: oneshot::Sender<Result<Started, Failed>>,
    ) -> Result<(), Failed> {
        let outcome = self.start().await;
        let serves = outcome.is_ok();
        if serves {
            self.crew.tell_serving().await;
        } else {
            self.crew.stop(&mut self.orders).await;
        }
        // Nobody waits: then it was stopped, and the order to stop follows.
        drop(started.send(outcome));
        if !serves {
            return Ok(());
        }
        let ended = self.serve().await;
        self.crew.stop(&mut self.orders).await;
        ended
    }

    /// Prepares and starts every process, and waits until the flow serves or is to stop.
    async fn start(&mut self) -> Result<Started, Failed> {
        // Whoever wants to change something waits until there is something to change.
        let _turn = self.crew.turn.lock().await;
        let mut plan = self.crew.plan();
        check_port(&plan).await?;
        check_metrics_port(&plan).await?;
        if let Some(preparation) = self.preparation.take() {
            plan = preparation.done(&mut self.orders).await?;
        }
        let posts = post::executors(&plan, &self.crew.common).map_err(Failed::Devices)?;
        let crew = &self.crew;
        let executors: Vec<Kept> = posts.into_iter().map(|post| crew.start(post)).collect();
        let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let gateway = crew.start(post::gateway(&plan, &crew.common, cores));
        crew.put(plan, executors.clone());
        crew.put_gateway(gateway.clone());
        let started = async {
            // The gateway reports only after its placement, unless it fails.
            let ready = async {
                let members = try_join_all(executors.iter().map(ready)).await?;
                let (_, placement) = crew.place();
                Ok((members, placement))
            };
            let ((executors, placement), gateway) = tokio::try_join!(ready, self::ready(&gateway))?;
            Ok(Started {
                gateway,
                executors,
                placement,
            })
        };
        tokio::select! {
            started = started => started,
            () = told(&mut self.orders, Order::Drain) => Err(Failed::Stopped),
        }
    }

    /// Waits until the flow is to stop.
    async fn serve(&mut self) -> Result<(), Failed> {
        let gateway = self.crew.gateway();
        let given_up = async {
            match &gateway {
                Some(gateway) => gateway.given_up().await,
                None => std::future::pending().await,
            }
        };
        let source = self.source.clone();
        let follow = self.crew.plan().reload;
        tokio::select! {
            () = told(&mut self.orders, Order::Drain) => Ok(()),
            // Without it nothing that goes on would be of use to anybody.
            () = given_up => Err(Failed::GivenUp),
            never = follow::follow(source.filter(|_| follow), &self.crew) => match never {},
        }
    }
}

async fn ready(kept: &Kept) -> Result<Member, Failed> {
    let ready = kept.ready().await;
    ready.map_err(|error: Option<Arc<StartError>>| error.map_or(Failed::Stopped, Failed::Start))
}
