//! Puts the reply together: the client's own header and parameters, the routes with their times, what
//! executors returned, and the documents.

use std::collections::BTreeMap;
use std::time::SystemTime;

use bytes::Bytes;
use flow_core::Failure;
use flow_core::parameters::{RESULTS, are_trivial, decode};
use flow_net::Shards;
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto, StatusProto, status_proto};
use prost::Message;
use prost_types::value::Kind;
use prost_types::{Struct, Timestamp, Value};

/// The name of the first route of every reply.
pub(crate) const GATEWAY: &str = "gateway";

/// How a request's walk ended.
#[derive(Debug, Clone)]
pub(crate) enum End<D = Option<Bytes>> {
    /// These documents came out.
    Done(D),
    /// An executor replied with a failure, and whatever documents it sent with it.
    Refused(Box<StatusProto>, Option<Bytes>),
    /// There was no reply.
    Failed(Failure),
}

/// A request without its documents: what it takes to put its reply together.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) header: HeaderProto,
    pub(crate) parameters: Option<Bytes>,
    results: BTreeMap<String, Value>,
    routes: Vec<RouteProto>,
    /// Of all nodes that have several.
    shards: Option<Shards>,
}

/// One node's part in a reply.
#[derive(Debug)]
pub(crate) struct Visited<'n> {
    pub(crate) node: &'n str,
    pub(crate) started: SystemTime,
    /// What went wrong there, wholly or in part.
    pub(crate) status: Option<StatusProto>,
}

impl Reply {
    pub(crate) fn new(header: HeaderProto, parameters: Option<Bytes>, started: SystemTime) -> Self {
        Self {
            header,
            parameters,
            results: BTreeMap::new(),
            routes: vec![route(GATEWAY, started)],
            shards: None,
        }
    }

    /// What nodes need that start after the reply has left: the header and the parameters of their request.
    /// Where there are none, nothing is copied.
    pub(crate) fn for_the_rest(&self, has_floating: bool, started: SystemTime) -> Self {
        match has_floating {
            true => Self::new(self.header.clone(), self.parameters.clone(), started),
            false => Self::new(HeaderProto::default(), None, started),
        }
    }

    pub(crate) fn add_route(&mut self, visited: Visited<'_>, ended: SystemTime) {
        self.routes.push(RouteProto {
            end_time: Some(ended.into()),
            status: visited.status,
            ..route(visited.node, visited.started)
        });
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

    /// How all shards did that were asked; none: no node has any.
    pub(crate) fn shards(&self) -> Option<Shards> {
        self.shards
    }

    /// Takes the `__results__` of an executor's reply into ours.
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

    pub(crate) fn end(mut self, end: End, ended: SystemTime) -> Envelope {
        self.routes[0].end_time = Some(Timestamp::from(ended));
        let (status, data) = match end {
            End::Done(data) => (StatusProto::default(), data),
            End::Refused(status, data) => (*status, data),
            End::Failed(failure) => (failure.to_status(), None),
        };
        self.header.status = Some(status);
        let parameters = self.final_parameters();
        Envelope {
            header: Some(self.header),
            parameters,
            routes: self.routes,
            data,
        }
    }
}

fn route(name: &str, started: SystemTime) -> RouteProto {
    RouteProto {
        executor: name.to_owned(),
        start_time: Some(started.into()),
        ..RouteProto::default()
    }
}

/// The failure that a header tells of, if it does.
pub(crate) fn refusal(header: Option<&HeaderProto>) -> Option<&StatusProto> {
    failed(header?.status.as_ref())
}

/// A status, if it is that of a failure. Before Jina 3.6 the code for it was 3.
pub(crate) fn failed(status: Option<&StatusProto>) -> Option<&StatusProto> {
    let error: i32 = status_proto::StatusCode::Error.into();
    status.filter(|status| status.code >= error)
}
