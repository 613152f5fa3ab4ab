//! Encodes texts by the flow, for every API that asks for vectors.
//!
//! A large call is sent in pieces, a few at a time, so that the requests of other clients run in between.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use flow_core::{
    CallOptions, Code, DocArrayVersion, Document, DocumentArray, EmbeddingType, Failure, Tensor,
    Usage, parameters,
};
use flow_proto::Envelope;
use flow_proto::jina::{HeaderProto, RouteProto};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use serde_json::{Map, Value, json};

use super::api_error::{ApiError, ErrorKind};
use super::models::{ServedModel, ServedModels};
use crate::pieces::CallInPieces;
use crate::request_record::Part;
use crate::service::{GatewayService, UnaryReply};
use crate::stages::StageTimes;

/// Texts of one piece: as many as the batches of an encoder on the CPU have.
const PIECE_TEXTS: usize = 64;

/// Pieces of one call that may be in progress.
const PIECES_AT_ONCE: usize = 4;

/// How many texts of a call had a vector already, if the executor has a cache.
pub(crate) const CACHED_TEXTS: HeaderName = HeaderName::from_static("x-flow-cached-texts");

/// The time of the whole call and of its stages.
pub(crate) const SERVER_TIMING: HeaderName = HeaderName::from_static("server-timing");

/// The texts of a call, and what it asks of their vectors.
#[derive(Debug, Clone, Default)]
pub(crate) struct EmbedRequest {
    pub(crate) texts: Vec<String>,
    /// Parameters of the executor.
    pub(crate) parameters: Map<String, Value>,
    /// The field that has the texts, for messages.
    pub(crate) field: &'static str,
    /// The length of the vectors, if it is not the model's, and the field that asks for it.
    pub(crate) dimensions: Option<(usize, &'static str)>,
    /// Whether vectors that the model does not normalize are normalized here.
    pub(crate) normalize: bool,
}

/// The vectors of a call.
#[derive(Debug)]
pub(crate) struct Embeddings {
    pub(crate) vectors: Vec<Vec<f32>>,
    /// What the model did; `None` if its executor does not count it.
    pub(crate) usage: Option<Usage>,
    /// The time of the call.
    pub(crate) took: Duration,
    /// The time of its stages at the executor; of a call in pieces, the longest of each.
    pub(crate) stages: StageTimes,
}

impl Embeddings {
    /// About how many bytes the vectors take as JSON.
    pub(crate) fn json_len(&self) -> usize {
        let values: usize = self.vectors.iter().map(Vec::len).sum();
        values * 12
    }

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
    pub(crate) usage: Option<Usage>,
    /// Empty unless the call asks for its times.
    pub(crate) stages: StageTimes,
    /// Bytes of the request's documents and parameters.
    bytes: usize,
    /// Where the request was, and when.
    routes: Vec<RouteProto>,
}

/// Encodes texts with a model.
pub(crate) async fn embed(
    service: &GatewayService,
    models: &ServedModels,
    model: &ServedModel,
    mut request: EmbedRequest,
    options: &CallOptions,
) -> Result<Embeddings, ApiError> {
    let started = Instant::now();
    check_texts(service, &request)?;
    ask_for_floats(model, &mut request.parameters);
    let cut = cut(model, &request)?;
    let mut options = CallOptions {
        timing: true,
        ..options.clone()
    };
    let count = request.texts.len();
    let pieces = pieces(std::mem::take(&mut request.texts));
    let mut whole = (pieces.len() > 1).then(|| {
        let of = (model.endpoint.as_str(), count);
        CallInPieces::begin(service.snapshot(), of, &mut options)
    });
    let call = DocumentsCall {
        executor: models.are_several().then_some(model.executor.as_str()),
        endpoint: &model.endpoint,
        parameters: &request.parameters,
        options: &options,
    };
    let replies = replies(service, &call, model.version, pieces);
    let finish = |vector| finished(vector, cut, request.normalize);
    let limit = TokenLimit::of(service, request.field);
    let collected = collect(replies, &mut whole, (count, &model.executor), limit, finish).await;
    if let Some(whole) = whole {
        whole.end(collected.as_ref().err().map(|error| &error.failure));
    }
    let mut all = collected?;
    all.took = started.elapsed();
    Ok(all)
}

/// Sends pieces, a few at a time. Returns their replies in the same order.
fn replies<'c>(
    service: &'c GatewayService,
    call: &'c DocumentsCall<'_>,
    version: DocArrayVersion,
    pieces: Vec<Vec<String>>,
) -> impl Stream<Item = Result<DocumentsReply, Failure>> + Send {
    let is_only = pieces.len() == 1;
    let pieces = pieces.into_iter().enumerate();
    let sent = pieces.map(move |(index, texts): (usize, Vec<String>)| {
        let documents = texts.into_iter().map(|text| {
            let mut document = Document::of_version(version);
            document.set_text(text);
            document
        });
        let part = match index {
            0 if is_only => Part::Whole,
            0 => Part::First,
            _ => Part::Further,
        };
        call.send(service, documents.collect(), part)
    });
    stream::iter(sent).buffered(PIECES_AT_ONCE)
}

/// The vectors of all replies of an executor to so many texts.
async fn collect(
    replies: impl Stream<Item = Result<DocumentsReply, Failure>>,
    whole: &mut Option<CallInPieces>,
    (count, executor): (usize, &str),
    limit: TokenLimit,
    finish: impl Fn(Vec<f32>) -> Vec<f32>,
) -> Result<Embeddings, EmbedError> {
    let mut replies = std::pin::pin!(replies);
    let mut all = Embeddings {
        vectors: Vec::with_capacity(count),
        usage: None,
        took: Duration::ZERO,
        stages: StageTimes::default(),
    };
    while let Some(reply) = replies.try_next().await? {
        for document in reply.documents.iter() {
            all.vectors.push(finish(vector(document, executor)?));
        }
        all.usage = Usage::sum(all.usage, reply.usage);
        limit.check(all.tokens())?;
        all.stages = all.stages.max(reply.stages);
        if let Some(whole) = whole {
            whole.add(reply.bytes, &reply.routes);
        }
    }
    check_reply(count, all.vectors.len(), executor)?;
    Ok(all)
}

/// Asks for floats, from which every format is made, if the executor would send something else.
fn ask_for_floats(model: &ServedModel, parameters: &mut Map<String, Value>) {
    let own = model.info.as_ref().and_then(|info| info.embedding_type);
    if own.is_some_and(|own| own != EmbeddingType::F32) {
        parameters.insert(
            EmbeddingType::PARAMETER.to_owned(),
            json!(EmbeddingType::F32),
        );
    }
}

/// The texts in pieces.
fn pieces(texts: Vec<String>) -> Vec<Vec<String>> {
    let mut texts = texts.into_iter();
    let piece = || -> Option<Vec<String>> {
        let piece: Vec<String> = texts.by_ref().take(PIECE_TEXTS).collect();
        (!piece.is_empty()).then_some(piece)
    };
    std::iter::from_fn(piece).collect()
}

/// Checks the number of texts, and that each has something to encode.
fn check_texts(service: &GatewayService, request: &EmbedRequest) -> Result<(), ApiError> {
    let (count, max) = (request.texts.len(), inputs_max(service));
    if count == 0 {
        let message = format!("`{}` is empty", request.field);
        return Err(ApiError::new(ErrorKind::Empty, message).at(request.field));
    }
    if count > max {
        let message = format!(
            "`{}` has {count} texts; at most {max} are allowed (`documents_max`)",
            request.field
        );
        return Err(ApiError::invalid(request.field, message));
    }
    // Each text has a token or more.
    TokenLimit::of(service, request.field).check(Some(count as u64))?;
    match request.texts.iter().position(String::is_empty) {
        None => Ok(()),
        Some(index) => {
            let message = format!("text {index} of `{}` is empty", request.field);
            Err(ApiError::new(ErrorKind::Empty, message).at(request.field))
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
    fn check(self, tokens: Option<u64>) -> Result<(), EmbedError> {
        let Self { max, field } = self;
        match (max, tokens) {
            (Some(max), Some(tokens)) if tokens > max.get() as u64 => {
                let message = format!(
                    "`{field}` has more than {max} tokens, the limit of a call (`tokens_max`)"
                );
                Err(EmbedError {
                    failure: Failure::new(Code::BadRequest, message),
                    field: Some(field),
                })
            }
            _ => Ok(()),
        }
    }
}

/// Why texts were not encoded.
#[derive(Debug)]
struct EmbedError {
    failure: Failure,
    /// The field that is invalid.
    field: Option<&'static str>,
}

impl From<Failure> for EmbedError {
    fn from(failure: Failure) -> Self {
        Self {
            failure,
            field: None,
        }
    }
}

impl From<EmbedError> for ApiError {
    fn from(error: EmbedError) -> Self {
        match error.field {
            Some(field) => Self::invalid(field, error.failure.message()),
            None => error.failure.into(),
        }
    }
}

/// The length to which vectors are cut, if they are.
fn cut(model: &ServedModel, request: &EmbedRequest) -> Result<Option<usize>, ApiError> {
    let Some((dimensions, field)) = request.dimensions else {
        return Ok(None);
    };
    let Some(info) = &model.info else {
        let message = format!(
            "the executor of `{}` does not report its dimensions",
            model.id
        );
        return Err(ApiError::invalid(field, message));
    };
    let own = info.dimensions;
    if dimensions == own {
        return Ok(None);
    }
    if dimensions < own && dimensions > 0 && info.shorter.allow(dimensions) {
        return Ok(Some(dimensions));
    }
    let message = format!(
        "the vectors of `{}` have {own} dimensions, and its `config.json` does not say that it was trained for \
         {dimensions} (`matryoshka_dimensions`)",
        model.id
    );
    Err(ApiError::invalid(field, message))
}

/// The vector of a document.
fn vector(document: &Document, executor: &str) -> Result<Vec<f32>, Failure> {
    let embedding = document.embedding();
    let vector = embedding.as_ref().and_then(Tensor::to_f32);
    vector.ok_or_else(|| {
        let message =
            format!("executor `{executor}` returned a document without an embedding of floats");
        Failure::new(Code::ExecutorFailed, message)
    })
}

/// A vector as the request wants it.
fn finished(mut vector: Vec<f32>, cut: Option<usize>, normalize: bool) -> Vec<f32> {
    if let Some(cut) = cut {
        vector.truncate(cut);
    }
    if normalize || cut.is_some() {
        let length = vector.iter().map(|value| value * value).sum::<f32>().sqrt();
        if length > 0.0 {
            vector.iter_mut().for_each(|value| *value /= length);
        }
    }
    vector
}

fn check_reply(sent: usize, got: usize, executor: &str) -> Result<(), Failure> {
    if sent == got {
        return Ok(());
    }
    let message = format!("executor `{executor}` got {sent} texts and returned {got} vectors");
    Err(Failure::new(Code::ExecutorFailed, message))
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

#[cfg(test)]
mod tests {
    use flow_core::{ModelInfo, ShorterVectors};

    use super::*;

    fn model(shorter: ShorterVectors) -> ServedModel {
        ServedModel {
            id: "m".to_owned(),
            executor: "encoder".to_owned(),
            endpoint: "/encode".to_owned(),
            info: Some(ModelInfo {
                dimensions: 8,
                shorter,
                ..ModelInfo::default()
            }),
            version: flow_core::DocArrayVersion::default(),
        }
    }

    #[track_caller]
    fn check_cut(shorter: ShorterVectors, wanted: usize, expected: Option<Option<usize>>) {
        let request = EmbedRequest {
            dimensions: Some((wanted, "dimensions")),
            ..EmbedRequest::default()
        };
        let cut = cut(&model(shorter), &request);
        assert_eq!(cut.clone().ok(), expected, "{wanted}: {cut:?}");
    }

    #[test]
    fn vectors_are_cut_only_to_lengths_that_the_model_was_trained_for() {
        check_cut(ShorterVectors::No, 8, Some(None));
        check_cut(ShorterVectors::No, 4, None);
        check_cut(ShorterVectors::Any, 4, Some(Some(4)));
        check_cut(ShorterVectors::Any, 9, None);
        check_cut(ShorterVectors::Any, 0, None);
        check_cut(ShorterVectors::Only(vec![2]), 2, Some(Some(2)));
        check_cut(ShorterVectors::Only(vec![2]), 4, None);
    }

    #[test]
    fn a_large_call_is_sent_in_pieces() {
        let texts = |count: usize| (0..count).map(|it| it.to_string()).collect();
        let lens = |count| {
            pieces(texts(count))
                .iter()
                .map(Vec::len)
                .collect::<Vec<_>>()
        };
        assert_eq!(lens(1), [1]);
        assert_eq!(lens(PIECE_TEXTS), [PIECE_TEXTS]);
        assert_eq!(lens(PIECE_TEXTS + 1), [PIECE_TEXTS, 1]);
        assert_eq!(pieces(texts(130)).concat(), texts(130));
    }

    #[test]
    fn a_vector_that_is_cut_gets_the_length_1_again() {
        assert_eq!(finished(vec![3.0, 4.0, 12.0], Some(2), false), [0.6, 0.8]);
        assert_eq!(finished(vec![3.0, 4.0], None, true), [0.6, 0.8]);
        assert_eq!(finished(vec![3.0, 4.0], None, false), [3.0, 4.0]);
        assert_eq!(finished(vec![0.0], None, true), [0.0]);
    }
}
