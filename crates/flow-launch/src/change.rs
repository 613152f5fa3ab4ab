//! Changes a running flow without losing a request.
//!
//! A change is a new plan, or the wish that some processes of the present one be new. What may stay
//! stays. For the rest the order is always the same: new processes start and get ready; the gateway is
//! told where everybody is now; it says when no request follows what it was told before; the old
//! processes drain and end. If a new process is never ready, everything is as it was.
//!
//! A process at a port that the file gives cannot meet its successor: it is taken out first, while others
//! of its shard do its work.

use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;

use flow_spec::{Gateway, LocalRun, Plan, Run};
use tokio::sync::mpsc;

use crate::child::StartError;
use crate::crew::{Crew, Kept};
use crate::event::Member;
use crate::post::{self, GATEWAY, NodeDevices, Post, Role};

/// Sentences about a change that may wait for whoever asked for it; he misses what is beyond.
pub(crate) const SENTENCES_MAX: usize = 256;

/// Why a flow is not changed. It runs on as it was.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Unchanged {
    #[error("the flow has no `{name}`; it has {known}")]
    Unknown { name: String, known: String },
    #[error("somebody else has started `{0}`, so it is not ours to change")]
    External(String),
    #[error(
        "the gateway holds the clients' streams and stays as long as the flow does: use `flow down` and `flow up`"
    )]
    Gateway,
    #[error(transparent)]
    Devices(NodeDevices),
    #[error("a new process was not ready, and everything is as it was")]
    NotReady(#[source] Arc<StartError>),
    #[error("the flow is about to end")]
    Ending,
    #[error("port {port} moves from one executor to another: use `flow down` and `flow up`")]
    PortMoves { port: u16 },
}

/// Who is told how a change goes on.
#[derive(Debug, Clone)]
pub(crate) struct Tell(pub(crate) mpsc::Sender<String>);

impl Tell {
    /// To whoever asked, and into the log.
    fn say(&self, sentence: String) {
        tracing::info!("{sentence}");
        self.whisper(sentence);
    }

    /// To whoever asked, who must not hold up the change if he does not listen.
    fn whisper(&self, sentence: String) {
        drop(self.0.try_send(sentence));
    }
}

/// One change of a crew, which has its turn.
pub(crate) struct Change<'c> {
    crew: &'c Crew,
    tell: Tell,
    _turn: tokio::sync::MutexGuard<'c, ()>,
}

/// Who is to hold a post after the change.
enum Next {
    Stays(Kept),
    New(Box<Post>),
}

impl<'c> Change<'c> {
    /// Waits until no other change is under way.
    pub(crate) async fn begin(crew: &'c Crew, tell: Tell) -> Self {
        let turn = crew.turn.lock().await;
        Self {
            crew,
            tell,
            _turn: turn,
        }
    }

    /// Starts a node, or one process of it, anew: one process after another.
    pub(crate) async fn restart(&self, name: &str) -> Result<(), Unchanged> {
        if name == GATEWAY {
            return Err(Unchanged::Gateway);
        }
        let plan = self.crew.plan();
        let posts = self.posts(&plan)?;
        let roles: Vec<Role> = posts
            .into_iter()
            .filter(|post| self.is_called(post, name))
            .map(|post| post.role)
            .collect();
        if roles.is_empty() {
            return Err(self.nobody(&plan, name));
        }
        for role in roles {
            self.become_(plan.clone(), &BTreeSet::from([role])).await?;
        }
        Ok(())
    }

    /// Whether a post is meant by a name: that of its node, its own, or the one its process still has.
    fn is_called(&self, post: &Post, name: &str) -> bool {
        let executors = self.crew.executors();
        let mut kept = executors.iter().filter(|it| it.post.role == post.role);
        let is_node = matches!(&post.role, Role::Executor { node, .. } if node.as_str() == name);
        is_node || &*post.name == name || kept.any(|it| &*it.post.name == name)
    }

    fn nobody(&self, plan: &Plan, name: &str) -> Unchanged {
        if plan.find(name).is_some() {
            return Unchanged::External(name.to_owned());
        }
        let executors = self.crew.executors();
        let names: Vec<String> = executors
            .iter()
            .map(|kept| format!("`{}`", kept.post.name))
            .collect();
        Unchanged::Unknown {
            name: name.to_owned(),
            known: names.join(", "),
        }
    }

    /// Gives a node so many replicas, in each of its shards.
    pub(crate) async fn scale(&self, name: &str, replicas: NonZeroU16) -> Result<(), Unchanged> {
        if name == GATEWAY {
            return Err(Unchanged::Gateway);
        }
        let mut plan = self.crew.plan();
        match local_run(&mut plan, name) {
            Some(run) => run.replicas = replicas,
            None => return Err(self.nobody(&plan, name)),
        }
        self.become_(plan, &BTreeSet::new()).await
    }

    /// Follows a new plan. What of the gateway cannot change while it runs is told, and stays.
    pub(crate) async fn reload(&self, mut plan: Plan) -> Result<(), Unchanged> {
        let present = self.crew.plan().gateway;
        for what in keep_fixed(&present, &mut plan.gateway) {
            self.tell.say(format!(
                "the gateway's {what} cannot change while the flow runs: use `flow down` and `flow up`"
            ));
        }
        if plan == self.crew.plan() {
            self.tell.say("nothing differs".to_owned());
            return Ok(());
        }
        self.become_(plan, &BTreeSet::new()).await
    }

    fn posts(&self, plan: &Plan) -> Result<Vec<Post>, Unchanged> {
        post::executors(plan, &self.crew.common).map_err(Unchanged::Devices)
    }

    /// Makes the crew what a plan wants; processes with these roles are new in any case.
    async fn become_(&self, plan: Plan, renewed: &BTreeSet<Role>) -> Result<(), Unchanged> {
        let posts = self.posts(&plan)?;
        let (at_taken_ports, free): (Vec<Post>, Vec<Post>) =
            posts.iter().cloned().partition(|post| {
                self.stays(post, renewed).is_none() && self.holder_of(post).is_some()
            });
        for post in at_taken_ports {
            self.renew_in_place(post).await?;
        }
        let free: BTreeSet<Role> = free.into_iter().map(|post| post.role).collect();
        let renewed: BTreeSet<Role> = renewed.intersection(&free).cloned().collect();
        let next: Vec<Next> = posts
            .into_iter()
            .map(|post| match self.stays(&post, &renewed) {
                Some(kept) => Next::Stays(kept),
                None => Next::New(Box::new(post)),
            })
            .collect();
        let executors = self.start(next).await?;
        self.hand_over(plan, executors).await;
        Ok(())
    }

    /// The process that holds a post and may go on to.
    fn stays(&self, post: &Post, renewed: &BTreeSet<Role>) -> Option<Kept> {
        if renewed.contains(&post.role) {
            return None;
        }
        let executors = self.crew.executors();
        let mut able = executors
            .into_iter()
            .filter(|kept| kept.is_kept() && post.is_met_by(&kept.post));
        able.next()
    }

    /// Who listens at a port that the plan gives to this post, and which port it is.
    fn holder_of(&self, post: &Post) -> Option<(Kept, u16)> {
        let wanted = [Some(post.ports.serving), post.ports.metrics];
        let wanted: Vec<u16> = wanted.into_iter().flatten().filter(|it| *it > 0).collect();
        let executors = self.crew.executors().into_iter();
        let mut holders = executors.filter(Kept::is_kept).filter_map(|kept| {
            let member = kept.seen().member?;
            let metrics = member.metrics.map(|it| it.port());
            let mut held = [Some(member.address.port()), metrics].into_iter().flatten();
            let port = held.find(|port| wanted.contains(port))?;
            Some((kept, port))
        });
        holders.next()
    }

    /// Starts whoever is new, all at once, and waits until everybody is ready.
    async fn start(&self, next: Vec<Next>) -> Result<Vec<Kept>, Unchanged> {
        let mut started = Vec::new();
        let executors: Vec<Kept> = next
            .into_iter()
            .map(|next| match next {
                Next::Stays(kept) => kept,
                Next::New(post) => {
                    let kept = self.crew.start(*post);
                    started.push(kept.clone());
                    kept
                }
            })
            .collect();
        for kept in &started {
            if let Err(error) = self.ready(kept).await {
                for kept in &started {
                    kept.stop().await;
                }
                return Err(error);
            }
        }
        Ok(executors)
    }

    async fn ready(&self, kept: &Kept) -> Result<Member, Unchanged> {
        let ready = kept.ready().await;
        let member = ready.map_err(|error| error.map_or(Unchanged::Ending, Unchanged::NotReady))?;
        // Everybody else has heard it as an event.
        self.tell.whisper(member.to_string());
        Ok(member)
    }

    /// From now on these are the executors; whoever is not among them ends when nobody needs him.
    async fn hand_over(&self, plan: Plan, executors: Vec<Kept>) {
        let before = self.crew.executors();
        let stays = |old: &Kept| executors.iter().any(|it| Arc::ptr_eq(&it.post, &old.post));
        let leaving: Vec<Kept> = before.into_iter().filter(|old| !stays(old)).collect();
        self.crew.put(plan, executors);
        let (version, _) = self.crew.place();
        if leaving.is_empty() {
            return;
        }
        self.settle(version).await;
        for old in &leaving {
            self.stop(old).await;
        }
    }

    /// One process makes room for the next at its port.
    async fn renew_in_place(&self, post: Post) -> Result<(), Unchanged> {
        let Some((old, port)) = self.holder_of(&post) else {
            let port = post.ports.serving;
            return Err(Unchanged::PortMoves { port });
        };
        if old.post.role != post.role {
            return Err(Unchanged::PortMoves { port });
        }
        let at = old.address().map(|it| it.port());
        let plan = self.crew.plan();
        let (version, placement) = self.crew.place_without(Some(&old.post.role));
        let still_there = placement.places.iter().any(|places| {
            let mut all = places.all();
            all.any(|address| Some(address.port) == at)
        });
        if still_there {
            self.tell.say(format!(
                "`{}` is alone at its port {}: its requests are tried again, or fail, until it is back",
                post.name, port
            ));
        }
        self.settle(version).await;
        self.stop(&old).await;
        let new = self.crew.start(post);
        let outcome = self.ready(&new).await.map(drop);
        let kept = match &outcome {
            Ok(()) => new,
            // As it was: the old one's successor is its like.
            Err(_) => self.crew.start(Post::clone(&old.post)),
        };
        let executors = self.crew.executors().into_iter().map(|it| {
            let is_old = Arc::ptr_eq(&it.post, &old.post);
            if is_old { kept.clone() } else { it }
        });
        self.crew.put(plan, executors.collect());
        if outcome.is_err() {
            drop(kept.ready().await);
        }
        self.crew.place();
        outcome
    }

    async fn settle(&self, version: u64) {
        let limit = self.crew.common.grace;
        if !self.crew.settled(version, limit).await {
            tracing::warn!(
                ?limit,
                "requests still follow the old placement, and have to end now"
            );
        }
    }

    async fn stop(&self, old: &Kept) {
        let pid = old.seen().member.map(|member| member.pid);
        old.stop().await;
        let pid = pid.map(|pid| format!("@{pid}")).unwrap_or_default();
        self.tell.say(format!("{}{pid} has ended", old.post.name));
    }
}

fn local_run<'p>(plan: &'p mut Plan, name: &str) -> Option<&'p mut LocalRun> {
    let node = plan
        .nodes
        .iter_mut()
        .find(|node| node.name.as_str() == name)?;
    match &mut node.run {
        Run::Local(run) => Some(run),
        Run::External { .. } => None,
    }
}

/// Puts back what of a gateway's process cannot change while it runs, and names what would have.
fn keep_fixed(present: &Gateway, new: &mut Gateway) -> Vec<&'static str> {
    let differ = [
        ("host", present.host != new.host),
        ("port", present.port != new.port),
        ("protocol", present.protocol != new.protocol),
        ("`env`", present.env != new.env),
        ("log", present.log != new.log),
        ("`monitoring`", present.monitoring != new.monitoring),
    ];
    new.host.clone_from(&present.host);
    new.port = present.port;
    new.protocol = present.protocol;
    new.env.clone_from(&present.env);
    new.log = present.log;
    new.monitoring.clone_from(&present.monitoring);
    let named = differ.into_iter().filter(|(_, differs)| *differs);
    named.map(|(what, _)| what).collect()
}
