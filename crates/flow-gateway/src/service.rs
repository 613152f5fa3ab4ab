//! What a gateway does for its clients, whatever protocol they speak.
//!
//! The service alone admits or refuses requests, counts them, logs their failures, and decides which failures are
//! replies and which end the call. Protocol adapters, such as `grpc.rs`, translate between their messages and these
//! functions, and do nothing else.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use flow_core::{CallOptions, Code, Endpoint, Failure, RequestId, Usage};
use flow_net::{ByteBudget, Draining, Shards};
use flow_proto::Envelope;
use flow_proto::jina::{
    EndpointsProto, HeaderProto, JinaInfoProto, SingleDocumentRequestProto, StatusProto,
};
use futures_util::future::Either;
use futures_util::{Stream, StreamExt};
use prost::Message;
use tokio::time::timeout_at;

use crate::admission::{RequestPermit, identify};
use crate::auth;
use crate::discovery::OfferedEndpoints;
use crate::heavy::HeavyWork;
use crate::metrics::RefusalReason;
use crate::request_record::{Part, RequestRecord, Waiting};
use crate::snapshot::Snapshot;
use crate::snapshot_store::SnapshotStore;
use crate::stream::{self, StreamOptions};
use crate::{discovery, generate};

/// Largest window that a client may ask for: the window decides how much memory a stream takes.
const PREFETCH_MAX: NonZeroUsize = NonZeroUsize::new(10_000).expect("10,000 is not zero");

/// A gateway's service. Clones are the same service.
#[derive(Debug, Clone)]
pub(crate) struct GatewayService {
    snapshots: Arc<SnapshotStore>,
    draining: Draining,
}

/// The reply to a single request.
#[derive(Debug)]
pub(crate) struct UnaryReply {
    /// The reply; its header may report a failure of an executor, or a bad request.
    pub(crate) envelope: Envelope,
    /// How many of the shards answered that were called; `None` if no node has shards.
    pub(crate) shards: Option<Shards>,
    /// What models did for the request; `None` if no executor counts it.
    pub(crate) usage: Option<Usage>,
}

/// What a client asks of a stream.
#[derive(Debug, Clone, Default)]
pub(crate) struct StreamRequest {
    /// Requests in progress; `None` for the flow's own `prefetch`.
    pub(crate) prefetch: Option<NonZeroUsize>,
    /// Whether replies leave in the order of the requests.
    pub(crate) in_order: bool,
    /// The options of each request.
    pub(crate) call: CallOptions,
    /// What the stream may hold; `None` for no limit.
    pub(crate) budget: Option<ByteBudget>,
}

impl GatewayService {
    pub(crate) fn new(snapshots: Arc<SnapshotStore>, draining: Draining) -> Self {
        Self {
            snapshots,
            draining,
        }
    }

    /// One request, one reply.
    ///
    /// # Errors
    ///
    /// If the gateway is busy, or no executor answered. What an executor answered is a reply.
    pub(crate) fn unary(
        &self,
        request: Envelope,
        options: CallOptions,
    ) -> impl Future<Output = Result<UnaryReply, Failure>> + Send {
        self.part(request, options, Part::Whole)
    }

    /// One request, one reply, for a part of a call. A further piece waits if the gateway is busy, until its deadline.
    ///
    /// # Errors
    ///
    /// If the gateway is busy, or the deadline passes, or no executor answered. What an executor answered is a reply.
    pub(crate) async fn part(
        &self,
        request: Envelope,
        options: CallOptions,
        part: Part,
    ) -> Result<UnaryReply, Failure> {
        self.allow(&request, &options, part)?;
        let admitted = match part {
            Part::Preparation | Part::Whole | Part::First => self.admit(&request, &options)?,
            Part::Further => self.admit_later(&request, &options).await?,
        };
        let finished = admitted.of_part(part).run(request, options).await;
        match finished.failure {
            Some(failure) if failure.code() != Code::BadRequest => Err(failure),
            _ => Ok(UnaryReply {
                envelope: finished.reply,
                shards: finished.shards,
                usage: finished.usage,
            }),
        }
    }

    /// Admits a request as soon as the gateway is not busy, before its deadline.
    async fn admit_later(
        &self,
        request: &Envelope,
        options: &CallOptions,
    ) -> Result<RequestPermit, Failure> {
        let admitted = RequestPermit::later(self.snapshots.newest());
        match options.deadline.instant() {
            None => Ok(admitted.await),
            Some(end) => {
                let waiting = Waiting::begin();
                let admitted = timeout_at(end.into(), admitted).await;
                admitted.map_err(|_elapsed| self.too_late(request, options, waiting))
            }
        }
    }

    /// A stream of requests, and one reply for each. A request waits if the gateway is busy.
    pub(crate) fn stream<R>(
        &self,
        requests: R,
        request: StreamRequest,
    ) -> impl Stream<Item = Result<Envelope, Failure>> + Send + use<R>
    where
        R: Stream<Item = Result<Envelope, Failure>> + Send + Unpin + 'static,
    {
        let default = self.snapshots.newest().plan.gateway.prefetch;
        let options = StreamOptions {
            window: request.prefetch.unwrap_or(default).min(PREFETCH_MAX),
            in_order: request.in_order,
            call: request.call,
            budget: request.budget,
            identity: auth::current(),
        };
        let requests = allowed(requests);
        stream::replies(&self.snapshots, requests, options, self.draining.clone())
    }

    /// One document, and the documents that the flow makes of it, as they are made.
    ///
    /// # Errors
    ///
    /// If the gateway is busy, the flow cannot stream, or no executor answered.
    pub(crate) async fn generate(
        &self,
        mut request: SingleDocumentRequestProto,
        options: CallOptions,
    ) -> Result<
        impl Stream<Item = Result<SingleDocumentRequestProto, Failure>> + Send + use<>,
        Failure,
    > {
        identify(request.header.get_or_insert_default(), &options);
        let header = request.header.clone();
        let record = RequestRecord::of_document(&request, &options);
        let documents = async {
            if let Some(identity) = auth::current() {
                let header = header.as_ref();
                identity.check_endpoint(header.and_then(|it| it.exec_endpoint.as_deref()))?;
                identity.check_tokens()?;
                identity.count(1)?;
            }
            let admitted = self.admit_now(&request, header.as_ref(), &options)?;
            generate::documents(admitted, request, (options, record.clone())).await
        };
        let documents = documents.await;
        documents.inspect_err(|failure| {
            self.snapshot()
                .log_failure(&record, header.as_ref(), failure)
        })
    }

    /// Sends an empty request through the whole flow.
    ///
    /// # Errors
    ///
    /// If the gateway is busy. A flow that does not work is a status that says so.
    pub(crate) async fn dry_run(&self, options: CallOptions) -> Result<StatusProto, Failure> {
        let header = HeaderProto {
            request_id: RequestId::random().into(),
            exec_endpoint: Some(Endpoint::DRY_RUN.to_owned()),
            ..HeaderProto::default()
        };
        let request = Envelope {
            header: Some(header),
            ..Envelope::default()
        };
        let admitted = self.admit(&request, &options)?;
        let finished = admitted.run(request, options).await;
        let status = finished.reply.header.and_then(|header| header.status);
        Ok(status.unwrap_or_default())
    }

    /// The endpoints of all executors.
    ///
    /// # Errors
    ///
    /// If the gateway is busy, or an executor cannot be reached.
    pub(crate) async fn endpoints(&self, options: &CallOptions) -> Result<EndpointsProto, Failure> {
        let admitted = self.admit_question(options)?;
        discovery::endpoints(&admitted.snapshot, options.deadline).await
    }

    /// What the executors offer, as far as it is known.
    pub(crate) fn offered(&self) -> OfferedEndpoints {
        OfferedEndpoints::known(&self.snapshots.newest())
    }

    /// What the executors offer. Those that have not said so yet are asked.
    ///
    /// # Errors
    ///
    /// If an executor has to be asked, and the gateway is busy.
    pub(crate) async fn ask_offered(
        &self,
        options: &CallOptions,
    ) -> Result<OfferedEndpoints, Failure> {
        let known = self.offered();
        if known.is_complete() {
            return Ok(known);
        }
        let admitted = self.admit_question(options)?;
        Ok(OfferedEndpoints::asked(&admitted.snapshot).await)
    }

    /// The newest placement of the flow.
    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshots.newest()
    }

    /// Runs work on many bytes.
    pub(crate) fn heavy(&self) -> HeavyWork {
        self.snapshots.newest().shared.heavy.clone()
    }

    /// Whether each executor was ready.
    pub(crate) fn is_ready(&self) -> bool {
        let snapshot = self.snapshots.newest();
        let mut nodes = snapshot.nodes();
        nodes.all(|(_, node)| node.was_ready())
    }

    /// The drain of the gateway.
    pub(crate) fn draining(&self) -> Draining {
        self.draining.clone()
    }

    /// The versions of this program and its machine.
    #[allow(
        clippy::unused_self,
        reason = "an operation of the service like the others"
    )]
    pub(crate) fn status(&self) -> JinaInfoProto {
        flow_net::info()
    }

    /// Checks that the API key of a request allows it, and logs the refusal.
    fn allow(&self, request: &Envelope, options: &CallOptions, part: Part) -> Result<(), Failure> {
        let Some(identity) = auth::current() else {
            return Ok(());
        };
        let allowed = match part {
            // Its documents and its endpoint are those of the call, which follows.
            Part::Preparation => identity.check_tokens(),
            Part::Whole | Part::First => {
                let tokens = identity.check_tokens();
                tokens.and_then(|()| identity.admit(request))
            }
            Part::Further => identity.admit(request),
        };
        allowed.inspect_err(|refusal| self.log_failure(request, options, refusal))
    }

    /// Admits a request at once, or refuses it, and logs and counts the refusal.
    fn admit(&self, request: &Envelope, options: &CallOptions) -> Result<RequestPermit, Failure> {
        let admitted = self.admit_now(request, request.header.as_ref(), options);
        admitted.inspect_err(|refusal| self.log_failure(request, options, refusal))
    }

    /// Admits a request at once, or refuses it and counts the refusal.
    fn admit_now(
        &self,
        request: &impl Message,
        header: Option<&HeaderProto>,
        options: &CallOptions,
    ) -> Result<RequestPermit, Failure> {
        RequestPermit::now(self.snapshots.newest()).map_err(|snapshot| {
            let arrival = (&options.origin, None);
            snapshot.count_refusal(request, header, arrival, RefusalReason::InFlightMax);
            snapshot.limit.refusal()
        })
    }

    /// Admits a question about the executors at once, or refuses it, and logs and counts the refusal. Questions are no requests
    /// in the metrics of endpoints.
    fn admit_question(&self, options: &CallOptions) -> Result<RequestPermit, Failure> {
        let admitted = RequestPermit::now(self.snapshots.newest());
        admitted.map_err(|snapshot| {
            if let Some(metrics) = &snapshot.shared.metrics {
                metrics.refuse(RefusalReason::InFlightMax);
            }
            let refusal = snapshot.limit.refusal();
            let mut question = Envelope::default();
            identify(question.header.get_or_insert_default(), options);
            self.log_failure(&question, options, &refusal);
            refusal
        })
    }

    /// The failure of a request whose deadline passed before it was admitted, which is counted and logged.
    fn too_late(&self, request: &Envelope, options: &CallOptions, waiting: Waiting) -> Failure {
        let text = "the deadline passed while the gateway was busy";
        let failure = Failure::new(Code::DeadlineExceeded, text);
        let arrival = (&options.origin, Some(waiting.end()));
        let header = request.header.as_ref();
        let snapshot = self.snapshot();
        snapshot.count_refusal(request, header, arrival, RefusalReason::Deadline);
        self.log_failure(request, options, &failure);
        failure
    }

    /// Logs a request that failed before it was run.
    fn log_failure(&self, request: &Envelope, options: &CallOptions, failure: &Failure) {
        let record = RequestRecord::new(request, options, Duration::ZERO);
        self.snapshot()
            .log_failure(&record, request.header.as_ref(), failure);
    }
}

/// The requests of a stream that the API key of the stream allows, as fast as it allows them. The first other one ends the
/// stream.
fn allowed<R>(requests: R) -> impl Stream<Item = Result<Envelope, Failure>> + Send + Unpin + use<R>
where
    R: Stream<Item = Result<Envelope, Failure>> + Send + Unpin + 'static,
{
    let Some(identity) = auth::current() else {
        return Either::Left(requests);
    };
    let checked = requests.then(move |request| {
        let identity = identity.clone();
        async move {
            let request = request?;
            identity.wait_for_turn().await?;
            identity.check_tokens()?;
            identity.admit(&request)?;
            Ok::<_, Failure>(request)
        }
    });
    Either::Right(Box::pin(checked))
}

#[cfg(test)]
mod tests;
