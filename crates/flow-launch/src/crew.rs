//! Everybody who works for a flow: each process with its keeper, and the placement they make together.
//!
//! The crew is looked at by many (the control socket, the launcher) and changed by one at a time
//! (`change.rs`). What it knows of a process is what its keeper shows.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use flow_core::NodeName;
use flow_spec::{Placement, Places, Plan};
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use crate::child::StartError;
use crate::command::Common;
use crate::dock::{Dock, Docker};
use crate::event::{Event, Member};
use crate::feed::{Feed, Placing};
use crate::journal::Journal;
use crate::liveness::Liveness;
use crate::post::{Part, Post, Role};
use crate::relay::Outlets;
use crate::seen::{Seen, Stage};
use crate::supervise::{Keeper, Order, Orders, told};

/// A process of the flow, as everybody but its keeper sees it.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) post: Arc<Post>,
    orders: watch::Sender<Order>,
    seen: watch::Receiver<Seen>,
}

impl Kept {
    pub(crate) fn seen(&self) -> Seen {
        self.seen.borrow().clone()
    }

    /// Waits until it is ready for the first time.
    ///
    /// # Errors
    /// If it never was; none is told where it was stopped before.
    pub(crate) async fn ready(&self) -> Result<Member, Option<Arc<StartError>>> {
        let mut seen = self.seen.clone();
        let settled = |seen: &Seen| seen.member.is_some() || seen.stage == Stage::Failed;
        match seen.wait_for(settled).await {
            Ok(seen) => seen.member.clone().ok_or(seen.failure.clone()),
            Err(_ended) => Err(None),
        }
    }

    /// Waits until its keeper has given up on it.
    pub(crate) async fn given_up(&self) {
        let mut seen = self.seen.clone();
        let given_up = |seen: &Seen| seen.stage == Stage::GivenUp;
        if seen.wait_for(given_up).await.is_err() {
            std::future::pending().await
        }
    }

    /// Whether somebody keeps it: it lives, or will again.
    pub(crate) fn is_kept(&self) -> bool {
        let stage = self.seen.borrow().stage;
        !matches!(stage, Stage::Failed | Stage::GivenUp) && self.seen.has_changed().is_ok()
    }

    /// Where it listens, or did when it last was ready.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let seen = self.seen.borrow();
        seen.member.as_ref().map(Member::reachable)
    }

    /// Lets it finish what is under way, and waits until it is gone.
    pub(crate) async fn stop(&self) {
        self.orders.send_replace(Order::Drain);
        let mut seen = self.seen.clone();
        while seen.changed().await.is_ok() {}
    }
}

/// Processes that end together.
#[derive(Debug)]
struct Group {
    orders: watch::Sender<Order>,
    keepers: TaskTracker,
}

impl Group {
    fn new() -> Self {
        Self {
            orders: watch::Sender::new(Order::Serve),
            keepers: TaskTracker::new(),
        }
    }

    async fn stop(&self, outer: &mut watch::Receiver<Order>) {
        self.orders.send_replace(Order::Drain);
        self.keepers.close();
        tokio::select! {
            () = self.keepers.wait() => return,
            () = told(outer, Order::Kill) => {}
        }
        self.orders.send_replace(Order::Kill);
        self.keepers.wait().await;
    }
}

/// What is to run, and who does.
#[derive(Debug)]
struct Book {
    plan: Plan,
    gateway: Option<Kept>,
    /// In the plan's order.
    executors: Vec<Kept>,
}

/// All processes of a flow.
#[derive(Debug)]
pub(crate) struct Crew {
    pub(crate) common: Common,
    book: Mutex<Book>,
    gateways: Group,
    executors: Group,
    events: mpsc::Sender<Event>,
    journal: Option<Journal>,
    liveness: Liveness,
    dock: Arc<Dock>,
    placings: watch::Sender<Option<Placing>>,
    settled: watch::Sender<u64>,
    /// Changes wait here for each other.
    pub(crate) turn: tokio::sync::Mutex<()>,
}

/// What a crew is made of besides its plan.
pub(crate) struct Kit {
    pub(crate) common: Common,
    pub(crate) events: mpsc::Sender<Event>,
    pub(crate) journal: Option<Journal>,
    pub(crate) liveness: Liveness,
    pub(crate) docker: Docker,
}

impl Crew {
    pub(crate) fn new(plan: Plan, kit: Kit) -> Self {
        Self {
            common: kit.common,
            book: Mutex::new(Book {
                plan,
                gateway: None,
                executors: Vec::new(),
            }),
            gateways: Group::new(),
            executors: Group::new(),
            events: kit.events,
            journal: kit.journal,
            liveness: kit.liveness,
            dock: Arc::new(Dock::new(kit.docker)),
            placings: watch::Sender::new(None),
            settled: watch::Sender::new(0),
            turn: tokio::sync::Mutex::default(),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn plan(&self) -> Plan {
        self.book().plan.clone()
    }

    pub(crate) fn executors(&self) -> Vec<Kept> {
        self.book().executors.clone()
    }

    /// The gateway, once it was started.
    pub(crate) fn gateway(&self) -> Option<Kept> {
        self.book().gateway.clone()
    }

    /// Starts a process. It is nobody's until it is put into the book.
    pub(crate) fn start(&self, post: Post) -> Kept {
        let (group, feed) = match post.role {
            Role::Gateway => (
                &self.gateways,
                Some(Feed::new(self.placings.subscribe(), self.settled.clone())),
            ),
            Role::Executor { .. } => (&self.executors, None),
        };
        let (orders, own) = watch::channel(Order::Serve);
        let (show, seen) = watch::channel(Seen::starting());
        let keeper = Keeper {
            ports: post.ports,
            orders: Orders {
                own,
                group: group.orders.subscribe(),
            },
            seen: show,
            outlets: Outlets {
                events: (!post.quiet).then(|| self.events.clone()),
                journal: self.journal.clone(),
            },
            liveness: self.liveness,
            feed,
            dock: self.dock.clone(),
            post: post.clone(),
        };
        group.keepers.spawn(keeper.keep());
        Kept {
            post: Arc::new(post),
            orders,
            seen,
        }
    }

    pub(crate) fn put_gateway(&self, gateway: Kept) {
        self.book().gateway = Some(gateway);
    }

    /// These are the executors from now on, and that is their plan.
    pub(crate) fn put(&self, plan: Plan, executors: Vec<Kept>) {
        let mut book = self.book();
        book.plan = plan;
        book.executors = executors;
    }

    /// Tells the gateway where everybody is; gives the version back, to wait for.
    pub(crate) fn place(&self) -> (u64, Placement) {
        self.place_without(None)
    }

    /// The same as if this one were not there, where its shard has others.
    pub(crate) fn place_without(&self, absent: Option<&Role>) -> (u64, Placement) {
        let book = self.book();
        let placement = placement(&book.plan, &book.executors, absent);
        let text = serde_json::to_string(&placement).expect("a placement is always JSON");
        let mut version = 0;
        self.placings.send_modify(|placing| {
            version = placing.as_ref().map_or(0, |it| it.version) + 1;
            let text = text.into();
            *placing = Some(Placing { version, text });
        });
        (version, placement)
    }

    /// Waits until every request follows this version, or until the limit is over.
    pub(crate) async fn settled(&self, version: u64, limit: Duration) -> bool {
        let mut settled = self.settled.subscribe();
        let reached = settled.wait_for(|it| *it >= version);
        timeout(limit, reached).await.is_ok_and(|it| it.is_ok())
    }

    /// Says that the flow serves, behind all that was said before.
    pub(crate) async fn tell_serving(&self) {
        // Nobody listens any more: then there is nobody to tell.
        drop(self.events.send(Event::Serving).await);
    }

    /// Ends every process, against the stream of requests.
    pub(crate) async fn stop(&self, orders: &mut watch::Receiver<Order>) {
        self.gateways.stop(orders).await;
        self.executors.stop(orders).await;
    }
}

/// Where everybody is who was ever ready.
fn placement(plan: &Plan, executors: &[Kept], absent: Option<&Role>) -> Placement {
    let found: Vec<(Role, SocketAddr)> = executors
        .iter()
        .filter_map(|kept| Some((kept.post.role.clone(), kept.address()?)))
        .collect();
    Placement::new(plan.clone(), |at| {
        places(&found, &plan.node(at).name, absent)
    })
}

/// Where the processes of a node are.
fn places(found: &[(Role, SocketAddr)], of: &NodeName, absent: Option<&Role>) -> Places {
    let parts = found.iter().filter_map(|(role, address)| match role {
        Role::Executor { node, part } if node == of => {
            Some((*part, *address, absent == Some(role)))
        }
        _ => None,
    });
    let mut places = Places::default();
    let mut left_out = Vec::new();
    for (part, address, is_absent) in parts {
        match part {
            Part::Before => places.before = Some(address.into()),
            Part::After => places.after = Some(address.into()),
            Part::Replica { shard, .. } => {
                let shard = usize::from(shard);
                let len = places.shards.len().max(shard + 1);
                places.shards.resize_with(len, Vec::new);
                if is_absent {
                    left_out.push((shard, address));
                } else {
                    places.shards[shard].push(address.into());
                }
            }
        }
    }
    // A shard without anybody could not be called at all.
    for (shard, address) in left_out {
        if places.shards[shard].is_empty() {
            places.shards[shard].push(address.into());
        }
    }
    places
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(shard: u16, number: u16, port: u16) -> (Role, SocketAddr) {
        let part = Part::Replica { shard, number };
        at(part, port)
    }

    fn at(part: Part, port: u16) -> (Role, SocketAddr) {
        let node = "a".parse().unwrap();
        let role = Role::Executor { node, part };
        (role, SocketAddr::from(([127, 0, 0, 1], port)))
    }

    fn check(found: &[(Role, SocketAddr)], absent: Option<&Role>, expected: &[&[u16]]) {
        let places = places(found, &"a".parse().unwrap(), absent);
        let ports: Vec<Vec<u16>> = places
            .shards
            .iter()
            .map(|shard| shard.iter().map(|it| it.port).collect())
            .collect();
        assert_eq!(ports, expected);
    }

    #[test]
    fn replicas_are_placed_by_shard() {
        let found = [replica(0, 0, 1), replica(0, 1, 2), replica(1, 0, 3)];
        check(&found, None, &[&[1, 2], &[3]]);
        check(&[], None, &[]);
    }

    #[test]
    fn who_is_taken_out_is_left_out_unless_nobody_else_is_there() {
        let found = [replica(0, 0, 1), replica(0, 1, 2), replica(1, 0, 3)];
        check(&found, Some(&found[0].0), &[&[2], &[3]]);
        check(&found, Some(&found[2].0), &[&[1, 2], &[3]]);
    }

    #[test]
    fn what_is_called_around_the_shards_has_places_of_its_own() {
        let found = [replica(0, 0, 1), at(Part::Before, 8), at(Part::After, 9)];
        let places = places(&found, &"a".parse().unwrap(), None);
        assert_eq!(places.before.unwrap().port, 8);
        assert_eq!(places.after.unwrap().port, 9);
    }
}
