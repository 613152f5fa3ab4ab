//! Builds the reply: the client's own header and parameters, the routes with their times, the results of
//! executors, and the documents.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use flow_core::parameters::{RESULTS, are_trivial, decode};
use flow_core::{Failure, Usage};
use flow_net::Shards;
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto, StatusProto, status_proto};
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Struct, Timestamp, Value};

use crate::stages::Stages;

/// The name of the first route of every reply.
pub(crate) const GATEWAY: &str = "gateway";

/// How a node's call ended, or a whole request.
#[derive(Debug, Clone)]
pub(crate) enum CallOutcome<D = Option<Bytes>> {
    /// It made these documents.
    Done(D),
    /// An executor replied with a failure, and the documents that it sent with it.
    ExecutorError(Box<StatusProto>, Option<Bytes>),
    /// No executor replied.
    Failed(Failure),
}

/// Collects what a reply contains besides its documents.
#[derive(Debug)]
pub(crate) struct ReplyBuilder {
    pub(crate) header: HeaderProto,
    pub(crate) parameters: Option<Bytes>,
    results: BTreeMap<String, Value>,
    routes: Vec<RouteProto>,
    /// The shards of all nodes that have several.
    shards: Option<Shards>,
    /// The tokens that models read at all nodes.
    usage: Option<Usage>,
    /// The stages of the times of all nodes.
    pub(crate) stages: Stages,
    /// How many documents the request has.
    pub(crate) documents: Option<usize>,
}

/// One node's entry in the routes of a reply.
#[derive(Debug)]
pub(crate) struct RouteEntry<'n> {
    pub(crate) node: &'n str,
    pub(crate) started: SystemTime,
    pub(crate) ended: SystemTime,
    /// What failed there, completely or partly.
    pub(crate) status: Option<StatusProto>,
}

/// A complete reply.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) reply: Envelope,
    /// Why there is no answer of an executor. A call of a single request fails with it.
    pub(crate) failure: Option<Failure>,
    /// The number of shards that answered, of those that were called.
    pub(crate) shards: Option<Shards>,
    /// What models did for the request; `None` if no executor counts it.
    pub(crate) usage: Option<Usage>,
    /// Where the time went, if the caller asks for it. They are not among the routes yet, which are the nodes.
    pub(crate) stages: Stages,
    /// How many documents the request had, nested ones included; `None` if it was refused before they were counted.
    pub(crate) documents: Option<usize>,
}

impl ReplyBuilder {
    pub(crate) fn new(header: HeaderProto, parameters: Option<Bytes>, started: SystemTime) -> Self {
        Self {
            header,
            parameters,
            results: BTreeMap::new(),
            routes: vec![route(GATEWAY, started)],
            shards: None,
            usage: None,
            stages: Stages::default(),
            documents: None,
        }
    }

    /// The builder for nodes that are called after the reply: it has the header and the parameters of their request.
    /// Nothing is copied if there are no such nodes.
    pub(crate) fn after_reply(&self, has_floating: bool, started: SystemTime) -> Self {
        match has_floating {
            true => Self::new(self.header.clone(), self.parameters.clone(), started),
            false => Self::new(HeaderProto::default(), None, started),
        }
    }

    pub(crate) fn add_route(&mut self, entry: RouteEntry<'_>) {
        self.routes.push(entry.into_route());
    }

    pub(crate) fn add_shards(&mut self, shards: Option<Shards>) {
        if let Some(Shards { total, failed }) = shards {
            let all = self.shards.get_or_insert(Shards {
                total: 0,
                failed: 0,
            });
            all.total += total;
            all.failed += failed;
        }
    }

    pub(crate) fn add_usage(&mut self, usage: Option<Usage>) {
        self.usage = Usage::sum(self.usage, usage);
    }

    /// Adds the `__results__` of an executor's reply.
    pub(crate) fn add_results(&mut self, parameters: Option<&Bytes>) {
        let Some(parameters) = parameters.filter(|all| !are_trivial(all)) else {
            return;
        };
        let results = decode(parameters)
            .ok()
            .and_then(|mut all| all.fields.remove(RESULTS));
        if let Some(Kind::StructValue(results)) = results.and_then(|results| results.kind) {
            self.results.extend(results.fields);
        }
    }

    /// The client's own parameters, with the results of all executors.
    fn final_parameters(&mut self) -> Option<Bytes> {
        if self.results.is_empty() {
            return self.parameters.take();
        }
        let own = self.parameters.as_ref().and_then(|own| decode(own).ok());
        let mut own = own.unwrap_or_default();
        let results = std::mem::take(&mut self.results);
        let all = own.fields.entry(RESULTS.to_owned()).or_default();
        match &mut all.kind {
            Some(Kind::StructValue(sent)) => sent.fields.extend(results),
            other => *other = Some(Kind::StructValue(Struct { fields: results })),
        }
        Some(own.encode_to_vec().into())
    }

    /// Completes the reply.
    pub(crate) fn finish(mut self, outcome: CallOutcome, ended: SystemTime) -> Finished {
        self.routes[0].end_time = Some(Timestamp::from(ended));
        let (status, data, failure) = match outcome {
            CallOutcome::Done(data) => (StatusProto::default(), data, None),
            CallOutcome::ExecutorError(status, data) => (*status, data, None),
            CallOutcome::Failed(failure) => (failure.to_status(), None, Some(failure)),
        };
        self.header.status = Some(status);
        let parameters = self.final_parameters();
        let reply = Envelope {
            header: Some(self.header),
            parameters,
            routes: self.routes,
            data,
        };
        Finished {
            reply,
            failure,
            shards: self.shards,
            usage: self.usage,
            stages: self.stages,
            documents: self.documents,
        }
    }
}

impl RouteEntry<'_> {
    pub(crate) fn into_route(self) -> RouteProto {
        RouteProto {
            end_time: Some(self.ended.into()),
            status: self.status,
            ..route(self.node, self.started)
        }
    }
}

/// A route that has begun.
pub(crate) fn route(name: &str, started: SystemTime) -> RouteProto {
    RouteProto {
        executor: name.to_owned(),
        start_time: Some(started.into()),
        ..RouteProto::default()
    }
}

/// The status of a header that reports a failure.
pub(crate) fn error_status(header: Option<&HeaderProto>) -> Option<&StatusProto> {
    if_error(header?.status.as_ref())
}

/// The status, if it is that of a failure. Up to Jina 3.5 the code of a failure was 3.
pub(crate) fn if_error(status: Option<&StatusProto>) -> Option<&StatusProto> {
    let error: i32 = status_proto::StatusCode::Error.into();
    status.filter(|status| status.code >= error)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use flow_core::Code;
    use flow_core::parameters::{from_json, to_json};
    use serde_json::json;

    use super::*;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn builder() -> ReplyBuilder {
        let header = HeaderProto {
            request_id: "7".to_owned(),
            ..HeaderProto::default()
        };
        let sent = from_json(json!({"a": 1}).as_object().unwrap());
        ReplyBuilder::new(header, Some(sent), at(1))
    }

    #[test]
    fn routes_begin_with_the_gateway_and_have_times() {
        let mut reply = builder();
        reply.add_route(RouteEntry {
            node: "enc",
            started: at(2),
            ended: at(3),
            status: None,
        });
        let reply = reply.finish(CallOutcome::Done(None), at(4)).reply;
        let times: Vec<_> = reply
            .routes
            .iter()
            .map(|it| {
                let seconds = |time: &Option<Timestamp>| time.map(|it| it.seconds);
                (
                    it.executor.as_str(),
                    seconds(&it.start_time),
                    seconds(&it.end_time),
                )
            })
            .collect();
        let expected = [("gateway", Some(1), Some(4)), ("enc", Some(2), Some(3))];
        assert_eq!(times, expected);
        assert_eq!(reply.header.unwrap().request_id, "7");
    }

    #[test]
    fn results_of_executors_join_the_clients_own_parameters() {
        let mut reply = builder();
        for (node, count) in [("enc", 1), ("rank", 2)] {
            let returned = json!({"__results__": {node: {"count": count}}, "a": 9});
            reply.add_results(Some(&from_json(returned.as_object().unwrap())));
        }
        let reply = reply.finish(CallOutcome::Done(None), at(2)).reply;
        let expected = json!({
            "a": 1,
            "__results__": {"enc": {"count": 1}, "rank": {"count": 2}},
        });
        assert_eq!(json!(to_json(reply.parameters.as_ref()).unwrap()), expected);
    }

    #[test]
    fn each_outcome_has_its_status() {
        let status = |outcome| {
            let finished = builder().finish(outcome, at(2));
            let status = finished.reply.header.unwrap().status.unwrap();
            (status.code, status.description, finished.failure)
        };
        assert_eq!(status(CallOutcome::Done(None)), (0, String::new(), None));
        let error = StatusProto {
            code: 1,
            description: "no".to_owned(),
            exception: None,
        };
        let (code, description, failure) =
            status(CallOutcome::ExecutorError(Box::new(error), None));
        assert_eq!((code, description.as_str(), failure), (1, "no", None));
        let lost = Failure::new(Code::Lost, "gone");
        let expected = (1, "gone".to_owned(), Some(lost.clone()));
        assert_eq!(status(CallOutcome::Failed(lost)), expected);
    }

    #[test]
    fn shards_of_all_nodes_are_added_up() {
        let mut reply = builder();
        let shards = |total, failed| Some(Shards { total, failed });
        for counts in [shards(3, 1), None, shards(2, 0)] {
            reply.add_shards(counts);
        }
        let finished = reply.finish(CallOutcome::Done(None), at(2));
        assert_eq!(finished.shards, shards(5, 1));
    }
}
