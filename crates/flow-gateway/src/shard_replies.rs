//! Joins the replies of a node's shards. Pure.
//!
//! A shard that does not answer takes away its part of the documents, and the node's route names it. The call fails
//! only if no shard answered.

use bytes::Bytes;
use flow_core::{Code, Failure, Usage};
use flow_net::{Reply, Shards};
use flow_proto::Envelope;
use flow_proto::jina::RouteProto;

use crate::merge::{concatenate, merge};
use crate::reply::error_status;
use crate::stages;

/// The reply of a node.
#[derive(Debug)]
pub(crate) struct NodeReply {
    pub(crate) reply: Envelope,
    /// The parameters of the other replies that it was made from; they may contain results.
    pub(crate) parameters: Vec<Bytes>,
    pub(crate) shards: Option<Shards>,
    /// The text in the node's route about shards that did not answer.
    pub(crate) note: Option<String>,
    /// What models did for the request, if one of them counts it.
    pub(crate) usage: Option<Usage>,
    /// The stages of its time, if the caller asks for them.
    pub(crate) stages: Vec<RouteProto>,
}

/// The reply of one shard. A reply that reports a failure counts as no answer.
pub(crate) type ShardReply = Result<Reply, Failure>;

/// The replies of a node's shards, each kind in the order of the shards.
pub(crate) struct ShardReplies {
    pub(crate) answered: Vec<Envelope>,
    failed: Vec<(usize, ShardReply)>,
    pub(crate) shards: Shards,
    /// That of those that answered.
    pub(crate) usage: Option<Usage>,
    /// The stages of all of them.
    pub(crate) stages: Vec<RouteProto>,
}

impl NodeReply {
    /// A reply that no shards are behind.
    pub(crate) fn alone(reply: Envelope) -> Self {
        Self {
            reply,
            parameters: Vec::new(),
            shards: None,
            note: None,
            usage: None,
            stages: Vec::new(),
        }
    }
}

impl From<Reply> for NodeReply {
    /// The reply of one executor, or of a stock head with shards of its own.
    fn from(mut reply: Reply) -> Self {
        let missing = reply.shards.filter(|shards| shards.failed > 0);
        let note = missing
            .map(|Shards { total, failed }| format!("{failed} of {total} shards did not answer"));
        Self {
            shards: reply.shards,
            note,
            usage: reply.usage,
            stages: stages::take(&mut reply.envelope),
            ..Self::alone(reply.envelope)
        }
    }
}

impl ShardReplies {
    pub(crate) fn new(replies: Vec<ShardReply>) -> Self {
        let total = replies.len();
        let mut answered = Vec::with_capacity(total);
        let (mut failed, mut usage, mut times) = (Vec::new(), None, Vec::new());
        for (shard, reply) in replies.into_iter().enumerate() {
            match reply {
                Ok(mut reply) if error_status(reply.envelope.header.as_ref()).is_none() => {
                    times.extend(stages::take(&mut reply.envelope));
                    usage = Usage::sum(usage, reply.usage);
                    answered.push(reply.envelope);
                }
                other => failed.push((shard, other)),
            }
        }
        let count = |len| u32::try_from(len).unwrap_or(u32::MAX);
        let shards = Shards {
            total: count(total),
            failed: count(failed.len()),
        };
        Self {
            answered,
            failed,
            shards,
            usage,
            stages: times,
        }
    }

    /// Which shards did not answer, and why: `1 of 3 shards did not answer; shard 1: no such index`.
    pub(crate) fn note(&self) -> Option<String> {
        if self.failed.is_empty() {
            return None;
        }
        let reasons = self.failed.iter().map(|(shard, reply)| {
            let reason = match reply {
                Err(failure) => failure.message().to_owned(),
                Ok(reply) => error_status(reply.envelope.header.as_ref())
                    .map(|status| status.description.clone())
                    .unwrap_or_default(),
            };
            format!("; shard {shard}: {reason}")
        });
        let reasons: String = reasons.collect();
        let (failed, total) = (self.failed.len(), self.shards.total);
        Some(format!(
            "{failed} of {total} shards did not answer{reasons}"
        ))
    }

    /// What the node replies if no shard answered: the first reply that reports a failure, or else the first
    /// failure.
    pub(crate) fn into_failure(self) -> Result<NodeReply, Failure> {
        let note = (self.shards.total > 1).then(|| self.note()).flatten();
        let (mut reported, mut failed) = (None, None);
        for (_, reply) in self.failed {
            match reply {
                Ok(reply) => reported = reported.or(Some(reply)),
                Err(failure) => failed = failed.or(Some(failure)),
            }
        }
        match (reported, failed) {
            (Some(reply), _) => Ok(NodeReply {
                note,
                ..reply.into()
            }),
            (None, Some(failure)) => Err(match note {
                None => failure,
                Some(note) => Failure::new(failure.code(), note),
            }),
            (None, None) => Err(Failure::new(Code::Internal, "the node has no shards")),
        }
    }
}

/// The replies of several shards as one: merged with `reduce`, one after another without.
pub(crate) fn join(answered: &[Envelope], reduce: bool) -> Result<Envelope, Failure> {
    let data: Vec<_> = answered.iter().map(|it| it.data.clone()).collect();
    let data = if reduce {
        merge(&data)?
    } else {
        concatenate(&data)?
    };
    let first = answered.first().cloned().unwrap_or_default();
    Ok(Envelope { data, ..first })
}

/// The request for `uses_after`: one part for each shard that answered.
pub(crate) fn parts_for_after(
    node: &str,
    request: &Envelope,
    answered: &[Envelope],
) -> Vec<Envelope> {
    let part = |reply: &Envelope| {
        let mut part = Envelope {
            data: reply.data.clone(),
            ..request.clone()
        };
        part.routes.push(RouteProto {
            executor: node.to_owned(),
            ..RouteProto::default()
        });
        part
    };
    answered.iter().map(part).collect()
}

#[cfg(test)]
mod tests {
    use flow_core::{Document, DocumentArray};
    use flow_proto::jina::{HeaderProto, StatusProto};

    use super::*;

    fn answer(id: &str) -> ShardReply {
        let mut document = Document::from_text(id);
        document.set_id(id);
        let data = DocumentArray::from_iter([document]).encode();
        Ok(Reply {
            envelope: Envelope {
                data: Some(data),
                ..Envelope::default()
            },
            shards: None,
            usage: Some(used(3)),
        })
    }

    fn used(tokens: u64) -> Usage {
        Usage {
            tokens,
            cached_texts: None,
        }
    }

    fn reported(description: &str) -> ShardReply {
        let status = StatusProto {
            code: 1,
            description: description.to_owned(),
            exception: None,
        };
        let header = HeaderProto {
            status: Some(status),
            ..HeaderProto::default()
        };
        Ok(Reply {
            envelope: Envelope {
                header: Some(header),
                ..Envelope::default()
            },
            shards: None,
            usage: Some(used(3)),
        })
    }

    fn lost() -> ShardReply {
        Err(Failure::new(Code::Lost, "gone"))
    }

    #[test]
    fn shards_that_did_not_answer_are_named_with_their_reasons() {
        let replies = ShardReplies::new(vec![answer("a"), lost(), reported("no index")]);
        assert_eq!(replies.answered.len(), 1);
        let expected = Shards {
            total: 3,
            failed: 2,
        };
        assert_eq!(replies.shards, expected);
        let note = "2 of 3 shards did not answer; shard 1: gone; shard 2: no index";
        assert_eq!(replies.note().as_deref(), Some(note));
        assert_eq!(ShardReplies::new(vec![answer("a")]).note(), None);
    }

    #[test]
    fn the_tokens_of_the_shards_that_answered_add_up() {
        let replies = ShardReplies::new(vec![answer("a"), lost(), answer("b")]);
        assert_eq!(replies.usage, Some(used(6)));
        assert_eq!(ShardReplies::new(vec![lost()]).usage, None);
    }

    #[test]
    fn without_an_answer_a_reported_failure_comes_before_a_lost_one() {
        let failed = ShardReplies::new(vec![lost(), reported("no index")]).into_failure();
        let failed = failed.unwrap();
        let status = error_status(failed.reply.header.as_ref()).unwrap();
        assert_eq!(status.description, "no index");
        let note = "2 of 2 shards did not answer; shard 0: gone; shard 1: no index";
        assert_eq!(failed.note.as_deref(), Some(note));
    }

    #[test]
    fn a_single_failure_stays_as_it_is() {
        let failure = ShardReplies::new(vec![lost()]).into_failure().unwrap_err();
        assert_eq!((failure.code(), failure.message()), (Code::Lost, "gone"));
        let failure = ShardReplies::new(vec![lost(), lost()]).into_failure();
        let note = "2 of 2 shards did not answer; shard 0: gone; shard 1: gone";
        assert_eq!(failure.unwrap_err().message(), note);
    }

    #[test]
    fn replies_are_merged_or_concatenated() {
        let envelope = |id| answer(id).unwrap().envelope;
        let count = |answered: &[Envelope], reduce| {
            let joined = join(answered, reduce).unwrap();
            DocumentArray::decode(&joined.data.unwrap()).unwrap().len()
        };
        let same = [envelope("a"), envelope("a")];
        assert_eq!((count(&same, true), count(&same, false)), (1, 2));
        let different = [envelope("a"), envelope("b")];
        assert_eq!((count(&different, true), count(&different, false)), (2, 2));
    }

    #[test]
    fn each_part_for_uses_after_names_the_node() {
        let answered = [answer("a"), answer("b")].map(|it| it.unwrap().envelope);
        let parts = parts_for_after("idx", &Envelope::default(), &answered);
        assert_eq!(parts.len(), 2);
        for (part, answer) in parts.iter().zip(&answered) {
            assert_eq!(part.data, answer.data);
            assert_eq!(part.routes.last().unwrap().executor, "idx");
        }
    }
}
