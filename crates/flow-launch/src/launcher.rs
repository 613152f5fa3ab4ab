//! All processes of a flow: started together, stopped in order.
//!
//! The launcher owns the keepers of `supervise.rs` and decides what concerns more than one of them:
//! when the gateway learns its placement, when the flow has started or failed to, and who ends first.
//! It runs on the thread that `running.rs` made for it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use flow_net::Bound;
use flow_spec::{NodeIdx, Placement, Places, Plan};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::event::{Event, Member};
use crate::post::{self, Post, Role};
use crate::running::{Failed, Launch, Started};
use crate::supervise::{Keeper, Order, Placed, Report, told};

/// Reports that wait to be read; a keeper with one more waits too. Reading one takes no time.
const REPORTS_MAX: usize = 16;

/// Runs a flow from start to stop.
///
/// `started` is answered as soon as the flow serves, or when it has failed and nothing of it is left.
pub(crate) async fn run(
    launch: Launch,
    events: mpsc::Sender<Event>,
    orders: watch::Receiver<Order>,
    started: oneshot::Sender<Result<Started, Failed>>,
) -> Result<(), Failed> {
    let mut launcher = match check_port(&launch.plan).await {
        Ok(()) => Launcher::start(launch, events, orders),
        Err(error) => {
            drop(started.send(Err(error)));
            return Ok(());
        }
    };
    let outcome = launcher.started().await;
    let serves = outcome.is_ok();
    if !serves {
        launcher.stop().await;
    }
    // Nobody waits: then it was stopped, and the order to stop follows.
    drop(started.send(outcome));
    if !serves {
        return Ok(());
    }
    let ended = launcher.serve().await;
    launcher.stop().await;
    ended
}

/// Says at once what the gateway would say only after every executor has loaded its model.
async fn check_port(plan: &Plan) -> Result<(), Failed> {
    let Some(port) = plan.gateway.port else {
        return Ok(());
    };
    let bound = Bound::listen(&plan.gateway.host, port).await;
    bound
        .map(drop)
        .map_err(|source| Failed::Port { port, source })
}

#[derive(Debug)]
struct Launcher {
    plan: Plan,
    gateway: Group,
    executors: Group,
    /// Executors that are to be ready before the gateway can be placed.
    awaited: usize,
    /// Those that are.
    members: Vec<Member>,
    placed: watch::Sender<Option<Arc<str>>>,
    placement: Option<Placement>,
    reports: mpsc::Receiver<Report>,
    orders: watch::Receiver<Order>,
}

impl Launcher {
    /// Starts every process, and waits for none.
    fn start(launch: Launch, events: mpsc::Sender<Event>, orders: watch::Receiver<Order>) -> Self {
        let (plan, common) = launch.into_parts();
        let executors = post::executors(&plan, &common);
        let (placed, placed_rx) = watch::channel(None);
        let (report_tx, reports) = mpsc::channel(REPORTS_MAX);
        let outlets = Outlets {
            placed: placed_rx,
            events,
            reports: report_tx,
        };
        let mut launcher = Self {
            awaited: executors.len(),
            executors: Group::start(executors, &outlets),
            gateway: Group::start(vec![post::gateway(&plan, &common)], &outlets),
            plan,
            members: Vec::new(),
            placed,
            placement: None,
            reports,
            orders,
        };
        launcher.place_if_all_are_ready();
        launcher
    }

    /// Waits until the flow serves.
    async fn started(&mut self) -> Result<Started, Failed> {
        loop {
            match self.report().await {
                None => return Err(Failed::Stopped),
                Some(Report::Failed(error)) => return Err(Failed::Start(error)),
                Some(Report::GivenUp(Role::Gateway)) => return Err(Failed::GivenUp),
                // It served for a time: the flow does what it can with the others.
                Some(Report::GivenUp(Role::Replica { .. })) => {}
                Some(Report::Ready(member)) => {
                    if let Some(started) = self.ready(member) {
                        return Ok(started);
                    }
                }
            }
        }
    }

    /// Takes note of a ready process; some: it was the last one.
    fn ready(&mut self, member: Member) -> Option<Started> {
        if member.role == Role::Gateway {
            return Some(Started {
                gateway: member,
                executors: std::mem::take(&mut self.members),
                placement: self.placement.take()?,
            });
        }
        self.members.push(member);
        self.place_if_all_are_ready();
        None
    }

    fn place_if_all_are_ready(&mut self) {
        if self.members.len() < self.awaited {
            return;
        }
        self.members.sort_by_key(|it| it.role);
        let placement = Placement::new(self.plan.clone(), |node| places(&self.members, node));
        let text = serde_json::to_string(&placement).expect("a placement is always JSON");
        self.placed.send_replace(Some(text.into()));
        self.placement = Some(placement);
    }

    /// Waits until the flow is to stop.
    async fn serve(&mut self) -> Result<(), Failed> {
        loop {
            match self.report().await {
                None => return Ok(()),
                // Without it nothing that goes on would be of use to anybody.
                Some(Report::GivenUp(Role::Gateway)) => return Err(Failed::GivenUp),
                Some(_) => {}
            }
        }
    }

    /// The next report; none: the flow is to stop.
    async fn report(&mut self) -> Option<Report> {
        tokio::select! {
            report = self.reports.recv() => report,
            () = told(&mut self.orders, Order::Drain) => None,
        }
    }

    /// Ends every process, against the stream of requests.
    async fn stop(&mut self) {
        // Whoever has something to report goes on without.
        self.reports.close();
        self.gateway.stop(&mut self.orders).await;
        self.executors.stop(&mut self.orders).await;
    }
}

/// Where the replicas of a node listen.
fn places(members: &[Member], node: NodeIdx) -> Places {
    let is_of = |it: &&Member| matches!(it.role, Role::Replica { node: of, .. } if of == node);
    let of_node = members.iter().filter(is_of);
    Places::replicas(of_node.map(|it| reachable(it.address).into()).collect())
}

/// Where to call somebody who listens at all addresses of this machine, the IPv4 ones always among them.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// What each keeper gets of the outside.
struct Outlets {
    placed: Placed,
    events: mpsc::Sender<Event>,
    reports: mpsc::Sender<Report>,
}

/// Processes that end together.
#[derive(Debug)]
struct Group {
    orders: watch::Sender<Order>,
    keepers: JoinSet<()>,
}

impl Group {
    fn start(posts: Vec<Post>, outlets: &Outlets) -> Self {
        let (orders, told) = watch::channel(Order::Serve);
        let mut keepers = JoinSet::new();
        for post in posts {
            let keeper = Keeper {
                post,
                placed: outlets.placed.clone(),
                orders: told.clone(),
                events: outlets.events.clone(),
                reports: outlets.reports.clone(),
            };
            keepers.spawn(keeper.keep());
        }
        Self { orders, keepers }
    }

    async fn stop(&mut self, outer: &mut watch::Receiver<Order>) {
        self.orders.send_replace(Order::Drain);
        tokio::select! {
            () = ended(&mut self.keepers) => return,
            () = told(outer, Order::Kill) => {}
        }
        self.orders.send_replace(Order::Kill);
        ended(&mut self.keepers).await;
    }
}

async fn ended(keepers: &mut JoinSet<()>) {
    while keepers.join_next().await.is_some() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(listens: &str, called: &str) {
        assert_eq!(reachable(listens.parse().unwrap()).to_string(), called);
    }

    #[test]
    fn who_listens_everywhere_is_called_here() {
        check("0.0.0.0:7", "127.0.0.1:7");
        check("[::]:7", "127.0.0.1:7");
        check("10.1.2.3:7", "10.1.2.3:7");
    }
}
