//! The endpoint: takes the texts out of documents, and puts their vectors into tags.

use std::time::Instant;

use flow_core::{Chain, Document};
use flow_executor::{
    CallError, Cancellation, Endpoint, Endpoints, Executor, Facts, LoadContext, LoadError,
    ModelInfo, ModelKind, Models, Parameters, Tokens,
};
use flow_inference::{
    ACCESS_PATHS, ModelFiles, ModelMetrics, SelectedTexts, TRUNCATE, TRUNCATION_DIRECTION,
    WithoutText, back_end, cores, sums, too_long,
};
use flow_models::{EncodeError, EncoderOptions, SparseEncoder, SparseRequest, TruncationDirection};

use crate::config::SparseEncoderConfig;
use crate::vector_tag;

/// The parameters that set the number of weights which a vector keeps. If a request has both, the first one applies.
const LIMIT: [&str; 2] = ["top_k", "limit"];

/// The parameter that limits the texts of a batch.
const BATCH_SIZE: &str = "batch_size";

/// The parameter that names the tag of the vectors.
const TAG: &str = "tag";

/// The parameters that the endpoints accept.
const PARAMETERS: [&str; 8] = [
    ACCESS_PATHS[0],
    ACCESS_PATHS[1],
    LIMIT[0],
    LIMIT[1],
    BATCH_SIZE,
    TAG,
    TRUNCATE,
    TRUNCATION_DIRECTION,
];

/// The endpoint that encodes.
const ENCODE: &str = "/encode";

/// Weights of the vectors of one call together. Each takes about 30 bytes of a message.
const WEIGHTS_MAX: usize = 1 << 20;

/// Gives each document that has a text a sparse vector, in a tag.
#[derive(Debug)]
pub struct SparseEncoderExecutor {
    encoder: SparseEncoder,
    config: SparseEncoderConfig,
    metrics: ModelMetrics,
    without_text: WithoutText,
}

impl Executor for SparseEncoderExecutor {
    type With = SparseEncoderConfig;

    fn check(config: &SparseEncoderConfig) -> Result<(), LoadError> {
        Ok(config.check()?)
    }

    fn load(mut config: SparseEncoderConfig, context: &LoadContext) -> Result<Self, LoadError> {
        if config.back_end.is_none() {
            config.back_end = back_end::from_environment(&context.environment)?;
        }
        let revision = config.revision.as_deref();
        let files = ModelFiles::pull(&config.model, revision, &context.environment)?;
        let started = Instant::now();
        let options = EncoderOptions {
            cache_folder: Some(files.cache),
            ..config.model_options()
        };
        let encoder = SparseEncoder::load(&files.folder, &options, cores())?;
        tracing::info!(
            model = config.model,
            folder = %files.folder.display(),
            words = encoder.words(),
            max_length = encoder.max_length(),
            seconds = started.elapsed().as_secs_f32(),
            "model loaded"
        );
        Ok(Self {
            encoder,
            config,
            metrics: ModelMetrics::register(&context.monitor)?,
            without_text: WithoutText::default(),
        })
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on_batch(ENCODE, Self::encode)
            .default_batch(Self::encode)
            .accepts(ENCODE, PARAMETERS)
            .accepts(Endpoint::DEFAULT, PARAMETERS)
    }

    fn facts(&self) -> Facts {
        let info = self.encoder.info();
        let facts = [
            ("device", "cpu".to_owned()),
            ("model", self.config.model.clone()),
            ("engine", info.engine.to_owned()),
            ("back_end", info.back_end),
            ("precision", info.precision),
            ("threads", self.encoder.threads().to_string()),
            ("words", self.encoder.words().to_string()),
        ];
        facts
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    fn models(&self) -> Models {
        let info = ModelInfo {
            name: self.config.model.clone(),
            revision: self.config.revision.clone(),
            kind: ModelKind::SparseEmbedding,
            dimensions: self.encoder.words(),
            max_length: self.encoder.max_length(),
            pooling: "splade".to_owned(),
            precision: self.encoder.info().precision,
            device: "cpu".to_owned(),
            batch_texts: self.encoder.max_batch_texts().get(),
            batch_tokens: self.encoder.max_batch_tokens().get(),
            ..ModelInfo::default()
        };
        Models::from([(ENCODE.to_owned(), info)])
    }
}

impl SparseEncoderExecutor {
    fn encode(
        &mut self,
        docs: &mut [Document],
        parameters: &Parameters,
    ) -> Result<Tokens, CallError> {
        let paths = parameters.first(&ACCESS_PATHS)?;
        let paths = paths.unwrap_or_else(|| self.config.access_paths.clone());
        let tag: Option<String> = parameters.get(TAG)?;
        let tag = tag.unwrap_or_else(|| self.config.tag.clone());
        let request = SparseRequest {
            batch_size: parameters.get(BATCH_SIZE)?,
            direction: parameters.get(TRUNCATION_DIRECTION)?.unwrap_or_default(),
            top_k: parameters.first(&LIMIT)?.or(self.config.top_k),
        };
        let SelectedTexts {
            texts,
            texts_of,
            without_text,
        } = SelectedTexts::read(docs, &paths)?;
        self.without_text
            .log(without_text, "documents without a text get no vector");
        let cancellation = Cancellation::current();
        if parameters.get(TRUNCATE)? == Some(false) {
            self.check_lengths(&texts, request.direction, &cancellation)?;
        }
        let is_cancelled = || cancellation.is_cancelled();
        let encoded = self
            .encoder
            .encode(&texts, (request, WEIGHTS_MAX), &is_cancelled);
        let encoded = encoded.map_err(|error| call_error(&error))?;
        self.metrics
            .observe(encoded.tokens.iter().sum(), encoded.times);
        let mut vectors = encoded.vectors.iter();
        paths.visit(docs, &mut |doc| {
            if doc.has_text()
                && let Some(vector) = vectors.next()
            {
                vector_tag::write(doc, &tag, vector);
            }
        })?;
        Ok(sums(&texts_of, &encoded.tokens).collect())
    }

    /// Refuses texts that the model would not read as a whole.
    fn check_lengths(
        &self,
        texts: &[String],
        direction: TruncationDirection,
        cancellation: &Cancellation,
    ) -> Result<(), CallError> {
        for text in texts {
            if cancellation.is_cancelled() {
                return Err(CallError::cancelled());
            }
            if self.encoder.truncates(text, direction)? {
                return Err(too_long(text, self.encoder.max_length()));
            }
        }
        Ok(())
    }
}

/// The error of a call.
fn call_error(error: &EncodeError) -> CallError {
    match error {
        EncodeError::Cancelled => CallError::cancelled(),
        EncodeError::TooManyWeights { .. } => CallError::bad_request(format!(
            "{error}; send the texts in several requests, or set `top_k`"
        )),
        error => CallError::new(Chain(error).to_string()),
    }
}
