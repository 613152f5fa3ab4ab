//! One node's visit: what a head process does elsewhere happens here.
//!
//! `uses_before` gets the request first. Then, by the endpoint's polling, one shard in turn gets it, or
//! each of them. Their replies become one, in the order of the shards: merged, put one after another
//! (`no_reduce`), or made by `uses_after` from all of them. A shard that does not answer takes its part
//! away and is named in the node's route; the visit fails only if none answered.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use flow_core::Failure;
use flow_net::{Pool, Reply, Shards, Terms};
use flow_proto::Envelope;
use flow_proto::jina::RouteProto;
use flow_spec::{Calls, NodePlan, Poll};
use futures_util::future::join_all;

use crate::merge::{concatenate, merge};
use crate::offered::Offered;
use crate::reply::refusal;

/// Where a node's processes are, and what is known of them.
#[derive(Debug)]
pub(crate) struct Node {
    /// Never empty.
    pub(crate) shards: Vec<Pool>,
    pub(crate) before: Option<Pool>,
    pub(crate) after: Option<Pool>,
    /// Which shard is next where one is asked.
    turn: AtomicUsize,
    pub(crate) offered: Offered,
    was_ready: AtomicBool,
}

/// What came of a visit.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) reply: Envelope,
    /// Parameters of the other replies that it was made from; they may hold results.
    pub(crate) parameters: Vec<Bytes>,
    pub(crate) shards: Option<Shards>,
    /// What the node's route says of shards that did not answer.
    pub(crate) note: Option<String>,
}

/// What one shard said; a refusal is as good as no answer.
type FromShard = Result<Reply, Failure>;

impl Node {
    pub(crate) fn new(shards: Vec<Pool>, before: Option<Pool>, after: Option<Pool>) -> Self {
        Self {
            shards,
            before,
            after,
            turn: AtomicUsize::new(0),
            offered: Offered::default(),
            was_ready: AtomicBool::new(false),
        }
    }

    /// Whether the node has been seen to serve, by this core or by one before it.
    pub(crate) fn was_ready(&self) -> bool {
        self.was_ready.load(Ordering::Relaxed)
    }

    pub(crate) fn note_ready(&self) {
        self.was_ready.store(true, Ordering::Relaxed);
    }

    pub(crate) fn pools(&self) -> impl Iterator<Item = &Pool> {
        self.shards.iter().chain(&self.before).chain(&self.after)
    }

    /// Another number each time that one of those who tell what is offered may be another program.
    pub(crate) fn generation(&self) -> u64 {
        self.shards.iter().map(Pool::generation).sum()
    }

    /// Sends the node its request, which has several parts where its inputs are not merged.
    pub(crate) async fn visit(
        &self,
        plan: &NodePlan,
        parts: Vec<Envelope>,
        terms: &Terms,
    ) -> Result<Answer, Failure> {
        if let (None, [only], None) = (&self.before, self.shards.as_slice(), &self.after) {
            return only.call(&parts, terms).await.map(Answer::of);
        }
        // Apart, so that the requests of all other nodes do not keep room for this.
        Box::pin(self.visit_cut(plan, parts, terms)).await
    }

    /// A node that is cut into shards, or that has something before or after it.
    async fn visit_cut(
        &self,
        plan: &NodePlan,
        parts: Vec<Envelope>,
        terms: &Terms,
    ) -> Result<Answer, Failure> {
        let mut parameters = Vec::new();
        let mut parts = parts;
        if let Some(before) = &self.before {
            let Reply { envelope, .. } = before.call(&parts, terms).await?;
            if refusal(envelope.header.as_ref()).is_some() {
                return Ok(Answer::alone(envelope));
            }
            parameters.extend(envelope.parameters);
            parts.truncate(1);
            parts
                .iter_mut()
                .for_each(|it| it.data.clone_from(&envelope.data));
        }
        let replies = self.poll(&plan.calls, &parts, terms).await;
        let mut answer = self.gather(plan, (&parts, replies), terms).await?;
        answer.parameters.extend(parameters);
        Ok(answer)
    }

    /// The replies of those shards that were asked.
    async fn poll(&self, calls: &Calls, parts: &[Envelope], terms: &Terms) -> Vec<FromShard> {
        let header = parts.first().and_then(|it| it.header.as_ref());
        let endpoint = header.and_then(|it| it.exec_endpoint.as_deref());
        match calls.polling.of(endpoint.unwrap_or_default()) {
            Poll::Any => {
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                let shard = &self.shards[turn % self.shards.len()];
                vec![shard.call(parts, terms).await]
            }
            Poll::All => {
                let asked = self.shards.iter().map(|shard| shard.call(parts, terms));
                join_all(asked).await
            }
        }
    }

    async fn gather(
        &self,
        plan: &NodePlan,
        (parts, replies): (&[Envelope], Vec<FromShard>),
        terms: &Terms,
    ) -> Result<Answer, Failure> {
        let Gathered {
            mut answered,
            failed,
            shards,
        } = Gathered::of(replies);
        if answered.is_empty() {
            return failed.worst();
        }
        let note = (!failed.0.is_empty()).then(|| failed.note(shards.total));
        let reply = match &self.after {
            Some(after) => {
                let parts = for_after(plan, &parts[0], &answered);
                after.call(&parts, terms).await?.envelope
            }
            None if answered.len() == 1 => answered.remove(0),
            None => one_of(&answered, plan.calls.reduce)?,
        };
        Ok(Answer {
            reply,
            parameters: answered
                .into_iter()
                .filter_map(|it| it.parameters)
                .collect(),
            shards: Some(shards),
            note,
        })
    }
}

/// What shards said, each kind in their order.
struct Gathered {
    answered: Vec<Envelope>,
    failed: Failed,
    shards: Shards,
}

/// Shards that did not answer, by their numbers.
struct Failed(Vec<(usize, FromShard)>);

impl Gathered {
    fn of(replies: Vec<FromShard>) -> Self {
        let total = replies.len();
        let mut answered = Vec::with_capacity(total);
        let mut failed = Vec::new();
        for (number, reply) in replies.into_iter().enumerate() {
            match reply {
                Ok(reply) if refusal(reply.envelope.header.as_ref()).is_none() => {
                    answered.push(reply.envelope);
                }
                other => failed.push((number, other)),
            }
        }
        let count = |len| u32::try_from(len).unwrap_or(u32::MAX);
        let shards = Shards {
            total: count(total),
            failed: count(failed.len()),
        };
        Self {
            answered,
            failed: Failed(failed),
            shards,
        }
    }
}

impl Failed {
    /// `1 of 3 shards did not answer; shard 1: why`
    fn note(&self, total: u32) -> String {
        let reasons = self.0.iter().map(|(number, reply)| {
            let reason = match reply {
                Err(failure) => failure.message().to_owned(),
                Ok(reply) => refusal(reply.envelope.header.as_ref())
                    .map(|status| status.description.clone())
                    .unwrap_or_default(),
            };
            format!("; shard {number}: {reason}")
        });
        let reasons: String = reasons.collect();
        format!("{} of {total} shards did not answer{reasons}", self.0.len())
    }

    /// All of them failed: like the first of them, a reply that says why before none at all.
    fn worst(self) -> Result<Answer, Failure> {
        let total = self.0.len();
        let note = (total > 1).then(|| self.note(u32::try_from(total).unwrap_or(u32::MAX)));
        let (mut refused, mut failed) = (None, None);
        for (_, reply) in self.0 {
            match reply {
                Ok(reply) => refused = refused.or(Some(reply)),
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        match (refused, failed) {
            (Some(reply), _) => Ok(Answer {
                note,
                ..Answer::of(reply)
            }),
            (None, Some(failure)) => Err(match note {
                None => failure,
                Some(note) => Failure::new(failure.code(), note),
            }),
            (None, None) => Err(Failure::new(
                flow_core::Code::Internal,
                "the node has no shards",
            )),
        }
    }
}

/// The documents of several shards as one reply.
fn one_of(answered: &[Envelope], reduce: bool) -> Result<Envelope, Failure> {
    let data: Vec<_> = answered.iter().map(|it| it.data.clone()).collect();
    let data = if reduce {
        merge(&data)?
    } else {
        concatenate(&data)?
    };
    let first = answered.first().cloned().unwrap_or_default();
    Ok(Envelope { data, ..first })
}

/// What `uses_after` gets: one part for each shard that answered.
fn for_after(plan: &NodePlan, asked: &Envelope, answered: &[Envelope]) -> Vec<Envelope> {
    let part = |reply: &Envelope| {
        let mut part = Envelope {
            data: reply.data.clone(),
            ..asked.clone()
        };
        part.routes.push(RouteProto {
            executor: plan.name.as_str().to_owned(),
            ..RouteProto::default()
        });
        part
    };
    answered.iter().map(part).collect()
}

impl Answer {
    fn alone(reply: Envelope) -> Self {
        Self {
            reply,
            parameters: Vec::new(),
            shards: None,
            note: None,
        }
    }

    fn of(reply: Reply) -> Self {
        let missing = reply.shards.filter(|shards| shards.failed > 0);
        let note = missing
            .map(|Shards { total, failed }| format!("{failed} of {total} shards did not answer"));
        Self {
            shards: reply.shards,
            note,
            ..Self::alone(reply.envelope)
        }
    }
}
