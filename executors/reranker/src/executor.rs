//! The endpoints: takes the texts of queries and their matches, and orders the matches.

use std::time::Instant;

use flow_core::Document;
use flow_executor::{
    CallError, Cancellation, Endpoint, Endpoints, Executor, Facts, LoadContext, LoadError,
    ModelInfo, ModelKind, Models, Parameters, Tokens,
};
use flow_inference::{
    ACCESS_PATHS, ModelFiles, ModelMetrics, TRUNCATE, TRUNCATION_DIRECTION, WithoutText, back_end,
    device_name, excerpt, model_error, open_devices, sums, watch_gpus,
};
use flow_models::{CrossEncoder, EncodeError, EncoderOptions, ScoreRequest};

use crate::config::RerankerConfig;
use crate::ranking::RankingOptions;
use crate::texts::PairTexts;

/// The parameters that set the number of matches that a document keeps. If a request has both, the first one applies.
const LIMIT: [&str; 2] = ["top_k", "limit"];

/// The parameter that limits the pairs of a batch.
const BATCH_SIZE: &str = "batch_size";

/// The parameter that says whether scores are as the model gives them.
const RAW_SCORES: &str = "raw_scores";

/// The parameters that the endpoints accept.
const PARAMETERS: [&str; 8] = [
    ACCESS_PATHS[0],
    ACCESS_PATHS[1],
    LIMIT[0],
    LIMIT[1],
    BATCH_SIZE,
    RAW_SCORES,
    TRUNCATE,
    TRUNCATION_DIRECTION,
];

/// The endpoint that orders matches.
const RANK: &str = "/rank";

/// Orders the matches of each document that has a text.
#[derive(Debug)]
pub struct Reranker {
    model: CrossEncoder,
    config: RerankerConfig,
    metrics: ModelMetrics,
    without_text: WithoutText,
}

impl Executor for Reranker {
    type With = RerankerConfig;

    fn check(config: &RerankerConfig) -> Result<(), LoadError> {
        Ok(config.check()?)
    }

    fn load(mut config: RerankerConfig, context: &LoadContext) -> Result<Self, LoadError> {
        if config.back_end.is_none() {
            config.back_end = back_end::from_environment(&context.environment)?;
        }
        let devices = open_devices(config.device)?;
        let revision = config.revision.as_deref();
        let files = ModelFiles::pull(&config.model, revision, &context.environment)?;
        let started = Instant::now();
        let options = EncoderOptions {
            cache_folder: Some(files.cache),
            ..config.model_options()
        };
        let model = CrossEncoder::load(&files.folder, &options, devices)?;
        tracing::info!(
            model = config.model,
            folder = %files.folder.display(),
            max_length = model.model().max_length(),
            seconds = started.elapsed().as_secs_f32(),
            "model loaded"
        );
        let gpu = model.model().gpu();
        watch_gpus(gpu, model.model().max_batch_tokens(), &context.monitor)?;
        Ok(Self {
            model,
            config,
            metrics: ModelMetrics::register(&context.monitor)?,
            without_text: WithoutText::default(),
        })
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on_batch(RANK, Self::rank)
            .default_batch(Self::rank)
            .accepts(RANK, PARAMETERS)
            .accepts(Endpoint::DEFAULT, PARAMETERS)
    }

    fn facts(&self) -> Facts {
        let model = self.model.model();
        let info = model.info();
        let facts = [
            ("device", device_name(model.gpu())),
            ("model", self.config.model.clone()),
            ("engine", info.engine.to_owned()),
            ("back_end", info.back_end),
            ("precision", info.precision),
            ("threads", model.threads().to_string()),
        ];
        facts
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    fn models(&self) -> Models {
        let model = self.model.model();
        let info = ModelInfo {
            name: self.config.model.clone(),
            revision: self.config.revision.clone(),
            kind: ModelKind::Reranker,
            max_length: model.max_length(),
            precision: model.info().precision,
            device: device_name(model.gpu()),
            batch_texts: model.max_batch_texts().get(),
            batch_tokens: model.max_batch_tokens().get(),
            ..ModelInfo::default()
        };
        Models::from([(RANK.to_owned(), info)])
    }
}

impl Reranker {
    fn rank(
        &mut self,
        docs: &mut [Document],
        parameters: &Parameters,
    ) -> Result<Tokens, CallError> {
        let paths = parameters.first(&ACCESS_PATHS)?;
        let paths = paths.unwrap_or_else(|| self.config.access_paths.clone());
        let raw_scores = parameters.get(RAW_SCORES)?;
        let ranking = RankingOptions {
            raw_scores: raw_scores.unwrap_or(self.config.raw_scores),
            top_k: parameters.first(&LIMIT)?.or(self.config.top_k),
        };
        let request = ScoreRequest {
            batch_size: parameters.get(BATCH_SIZE)?,
            truncate: parameters.get(TRUNCATE)? != Some(false),
            direction: parameters.get(TRUNCATION_DIRECTION)?.unwrap_or_default(),
        };
        let texts = PairTexts::read(docs, &paths)?;
        texts.check_limit()?;
        self.without_text.log(
            texts.without_text,
            "the matches of documents without a text are not ordered",
        );
        let cancellation = Cancellation::current();
        let is_cancelled = || cancellation.is_cancelled();
        let scored = self
            .model
            .score(&texts.queries, &texts.matches, request, &is_cancelled);
        let scored = scored.map_err(|error| call_error(&error, &texts))?;
        self.metrics
            .observe(scored.tokens.iter().sum(), scored.times);
        ranking.apply(docs, &paths, &scored.scores)?;
        Ok(sums(&texts.pairs_of, &scored.tokens).collect())
    }
}

/// The error of a call.
fn call_error(error: &EncodeError, texts: &PairTexts) -> CallError {
    match error {
        // Its place among the texts of a call says nothing to a client whose call was sent in pieces.
        EncodeError::TooLong { text, max } => {
            let text = texts.matches.get(*text).map_or("", |(_, text)| text);
            CallError::bad_request(format!(
                "a text and its query have more than {max} tokens together, the most that the model reads: `{}…`; \
                 shorten one of them, or let them be truncated",
                excerpt(text)
            ))
        }
        error => model_error(error),
    }
}
