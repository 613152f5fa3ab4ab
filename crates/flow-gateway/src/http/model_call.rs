//! Sends the documents of a call to the executor of a model, for every API that calls models.
//!
//! A large call is sent in pieces, a few at a time, so that the requests of other clients run in between.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use flow_core::{
    CallOptions, Code, DocArrayVersion, Document, DocumentArray, Failure, Usage, parameters,
};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto};
use futures_util::{StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value};

use super::api_error::{ApiError, ErrorKind};
use super::models::{ServedModel, ServedModels};
use crate::pieces::CallInPieces;
use crate::request_record::Part;
use crate::service::{GatewayService, UnaryReply};
use crate::stages::StageTimes;

/// The parameter that chooses documents, and its value for those of the request and not for documents nested in them.
pub(super) const OWN_DOCUMENTS: (&str, &str) = ("access_paths", "@r");

/// Texts of one piece: as many as the batches of an encoder on the CPU have.
pub(super) const PIECE_TEXTS: usize = 64;

/// Pieces of one call that may be in progress.
const PIECES_AT_ONCE: usize = 4;

/// How many texts of a call had a vector already, if the executor has a cache.
pub(crate) const CACHED_TEXTS: HeaderName = HeaderName::from_static("x-flow-cached-texts");

/// The time of the whole call and of its stages.
pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// A call of a model.
#[derive(Debug, Clone)]
pub(super) struct ModelCall<'c> {
    pub(super) service: &'c GatewayService,
    pub(super) models: &'c ServedModels,
    pub(super) model: &'c ServedModel,
    /// Parameters of the executor.
    pub(super) parameters: &'c Map<String, Value>,
    pub(super) options: &'c CallOptions,
    /// The field that has the texts, for messages.
    pub(super) field: &'static str,
    /// The number of texts.
    pub(super) count: usize,
}

/// What a call of a model took.
#[derive(Debug, Clone, Default)]
pub(crate) struct ModelWork {
    /// What the model did; `None` if its executor does not count it.
    pub(crate) usage: Option<Usage>,
    /// The time of the call.
    pub(crate) took: Duration,
    /// The time of its stages at the executor; of a call in pieces, the longest of each.
    pub(crate) stages: StageTimes,
}

impl ModelCall<'_> {
    /// Sends pieces, a few at a time. Gives the documents of their replies to `take`, in the same order.
    pub(super) async fn run(
        &self,
        pieces: impl ExactSizeIterator<Item = DocumentArray> + Send,
        mut take: impl FnMut(DocumentArray) -> Result<(), Failure> + Send,
    ) -> Result<ModelWork, ApiError> {
        let started = Instant::now();
        let mut options = CallOptions {
            timing: true,
            ..self.options.clone()
        };
        let is_only = pieces.len() == 1;
        let mut whole = (!is_only).then(|| {
            let of = (self.model.endpoint.as_str(), self.count);
            CallInPieces::begin(self.service.snapshot(), of, &mut options)
        });
        let executor = self.model.executor.as_str();
        let call = DocumentsCall {
            executor: self.models.have_several_executors().then_some(executor),
            endpoint: &self.model.endpoint,
            parameters: self.parameters,
            options: &options,
        };
        let sent = pieces.enumerate().map(|(index, documents)| {
            let part = match index {
                0 if is_only => Part::Whole,
                0 => Part::First,
                _ => Part::Further,
            };
            call.send(self.service, documents, part)
        });
        let mut replies = std::pin::pin!(stream::iter(sent).buffered(PIECES_AT_ONCE));
        let limit = TokenLimit::of(self.service, self.field);
        let mut work = ModelWork::default();
        let outcome: Result<(), CallFailure> = async {
            while let Some(reply) = replies.try_next().await? {
                work.usage = Usage::sum(work.usage, reply.usage);
                limit.check(work.tokens())?;
                work.stages = work.stages.max(reply.stages);
                if let Some(whole) = &mut whole {
                    whole.add(reply.bytes, &reply.routes);
                }
                take(reply.documents)?;
            }
            Ok(())
        }
        .await;
        if let Some(whole) = whole {
            whole.end(outcome.as_ref().err().map(|error| &error.failure));
        }
        outcome?;
        work.took = started.elapsed();
        Ok(work)
    }
}

impl ModelCall<'_> {
    /// Sends texts in pieces of so many, a document for each text. Gives the documents of the replies to `take`, in the order of
    /// the texts.
    pub(super) async fn run_texts(
        &self,
        texts: &[String],
        piece: usize,
        mut take: impl FnMut(&Document) -> Result<(), Failure> + Send,
    ) -> Result<ModelWork, ApiError> {
        let pieces = (0..texts.len()).step_by(piece).map(|start| {
            let texts = &texts[start..texts.len().min(start + piece)];
            text_documents(texts, self.model.version)
        });
        let mut taken = 0;
        self.run(pieces, |reply| {
            let (sent, got) = (piece.min(texts.len() - taken), reply.len());
            if got != sent {
                let what = format!("returned {got} documents for {sent}");
                return Err(self.model.failure(&what));
            }
            taken += got;
            reply.iter().try_for_each(&mut take)
        })
        .await
    }
}

impl ModelWork {
    /// The tokens that the model read; `None` if its executor does not count them.
    pub(crate) fn tokens(&self) -> Option<u64> {
        self.usage.map(|it| it.tokens)
    }

    /// The headers of the reply that every API has.
    pub(crate) fn headers(&self) -> HeaderMap {
        let cached = self.usage.and_then(|it| it.cached_texts);
        let cached = cached.map(|texts| (CACHED_TEXTS, HeaderValue::from(texts)));
        let timing = HeaderValue::try_from(self.server_timing());
        let timing = timing.ok().map(|it| (SERVER_TIMING, it));
        cached.into_iter().chain(timing).collect()
    }

    /// The whole time and that of each stage, in milliseconds.
    fn server_timing(&self) -> String {
        let stages = [
            ("gateway", Some(self.took)),
            ("queue", self.stages.queue),
            ("tokenize", self.stages.tokenization),
            ("compute", self.stages.inference),
        ];
        let entries = stages.into_iter().filter_map(|(name, took)| {
            let ms = took?.as_secs_f64() * 1e3;
            Some(format!("{name};dur={ms:.3}"))
        });
        entries.collect::<Vec<_>>().join(", ")
    }
}

/// Documents with these texts.
fn text_documents(texts: &[String], version: DocArrayVersion) -> DocumentArray {
    let documents = texts.iter().map(|text| {
        let mut document = Document::of_version(version);
        document.set_text(text);
        document
    });
    documents.collect()
}

/// Checks the number of the texts of a field.
pub(super) fn check_count(
    service: &GatewayService,
    field: &'static str,
    count: usize,
) -> Result<(), ApiError> {
    let max = inputs_max(service);
    if count == 0 {
        let message = format!("`{field}` is empty");
        return Err(ApiError::new(ErrorKind::Empty, message).at(field));
    }
    if count > max {
        let message =
            format!("`{field}` has {count} texts; at most {max} are allowed (`documents_max`)");
        return Err(ApiError::invalid(field, message));
    }
    // Each text has a token or more.
    TokenLimit::of(service, field).check(Some(count as u64))?;
    Ok(())
}

/// Checks the number of the texts of a field, and that each has something to read.
pub(super) fn check_texts(
    service: &GatewayService,
    field: &'static str,
    mut texts: impl ExactSizeIterator<Item = impl AsRef<str>>,
) -> Result<(), ApiError> {
    check_count(service, field, texts.len())?;
    match texts.position(|text| text.as_ref().is_empty()) {
        None => Ok(()),
        Some(index) => {
            let message = format!("text {index} of `{field}` is empty");
            Err(ApiError::new(ErrorKind::Empty, message).at(field))
        }
    }
}

/// The texts that one call may have.
pub(crate) fn inputs_max(service: &GatewayService) -> usize {
    service.snapshot().shared.requests.documents.documents_max
}

/// The tokens that one call may have, if that is limited.
pub(crate) fn tokens_max(service: &GatewayService) -> Option<NonZeroUsize> {
    service.snapshot().plan.gateway.limits.tokens_max
}

/// The tokens that one call may have. They are known when a piece of the call is done, and the rest is not sent then.
#[derive(Debug, Clone, Copy)]
struct TokenLimit {
    max: Option<NonZeroUsize>,
    /// The field that has the texts.
    field: &'static str,
}

impl TokenLimit {
    fn of(service: &GatewayService, field: &'static str) -> Self {
        let max = tokens_max(service);
        Self { max, field }
    }

    /// Refuses a call with too many tokens.
    fn check(self, tokens: Option<u64>) -> Result<(), CallFailure> {
        let Self { max, field } = self;
        match (max, tokens) {
            (Some(max), Some(tokens)) if tokens > max.get() as u64 => {
                let message = format!(
                    "`{field}` has more than {max} tokens, the limit of a call (`tokens_max`)"
                );
                Err(CallFailure {
                    failure: Failure::new(Code::BadRequest, message),
                    field: Some(field),
                })
            }
            _ => Ok(()),
        }
    }
}

/// Why a model was not called, or did not answer.
#[derive(Debug)]
struct CallFailure {
    failure: Failure,
    /// The field that is invalid.
    field: Option<&'static str>,
}

impl From<Failure> for CallFailure {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            field: None,
        }
    }
}

impl From<CallFailure> for ApiError {
    fn from(error: CallFailure) -> Self {
        match error.field {
            Some(field) => Self::invalid(field, error.failure.message()),
            None => error.failure.into(),
        }
    }
}

/// Documents for an endpoint of an executor.
#[derive(Debug, Clone)]
pub(crate) struct DocumentsCall<'c> {
    pub(crate) executor: Option<&'c str>,
    pub(crate) endpoint: &'c str,
    pub(crate) parameters: &'c Map<String, Value>,
    pub(crate) options: &'c CallOptions,
}

/// What executors made of documents.
#[derive(Debug)]
pub(crate) struct DocumentsReply {
    pub(crate) documents: DocumentArray,
    /// What models did; `None` if no executor counts it.
    usage: Option<Usage>,
    /// Empty unless the call asks for its times.
    stages: StageTimes,
    /// Bytes of the request's documents and parameters.
    bytes: usize,
    /// Where the request was, and when.
    routes: Vec<RouteProto>,
}

impl DocumentsCall<'_> {
    /// Sends documents, and returns those of the reply.
    pub(crate) async fn send(
        &self,
        service: &GatewayService,
        documents: DocumentArray,
        part: Part,
    ) -> Result<DocumentsReply, Failure> {
        let request = self.envelope(&documents);
        let len = |bytes: &Option<Bytes>| bytes.as_ref().map_or(0, Bytes::len);
        let bytes = len(&request.data) + len(&request.parameters);
        let reply = service.part(request, self.options.clone(), part).await;
        let UnaryReply {
            envelope, usage, ..
        } = reply?;
        let status = envelope.header.and_then(|header| header.status);
        if let Some(failure) = status.as_ref().and_then(Failure::from_status) {
            return Err(failure);
        }
        let data = envelope.data.unwrap_or_default();
        Ok(DocumentsReply {
            documents: DocumentArray::decode(&data)?,
            usage,
            stages: StageTimes::of(&envelope.routes),
            bytes,
            routes: envelope.routes,
        })
    }

    fn envelope(&self, documents: &DocumentArray) -> Envelope {
        // An expression that matches this executor only.
        let target = self
            .executor
            .map(|name| format!("{}$", regex::escape(name)));
        let header = HeaderProto {
            exec_endpoint: Some(self.endpoint.to_owned()),
            target_executor: target,
            ..HeaderProto::default()
        };
        let parameters = self.parameters;
        Envelope {
            header: Some(header),
            parameters: (!parameters.is_empty()).then(|| parameters::from_json(parameters)),
            data: Some(documents.encode()),
            ..Envelope::default()
        }
    }
}
