//! The endpoints: takes the texts out of documents, and puts vectors into them.

use std::time::Instant;

use flow_core::{AccessPaths, Document, EmbeddingType, Tensor};
use flow_executor::{
    CallError, Cancellation, Endpoint, Endpoints, Executor, Facts, LoadContext, LoadError,
    ModelInfo, ModelKind, Models, Parameters, ShortCalls, ShorterVectors, Tokens,
};
use flow_inference::{
    ACCESS_PATHS, ModelFiles, SelectedTexts, TRUNCATE, TRUNCATION_DIRECTION, WithoutText, back_end,
    device_name, excerpt, model_error, open_devices, sums, too_long, watch_gpus,
};
use flow_models::engine::ForwardError;
use flow_models::{
    CachedEncoder, EncodeError, EncodeRequest, EncodeWork, EncoderOptions, Matryoshka, TextEncoder,
    VectorCache,
};

use crate::config::SentenceEncoderConfig;
use crate::metrics::EncoderMetrics;
use crate::tokens;

/// The parameter that limits the texts of a batch.
const BATCH_SIZE: &str = "batch_size";

/// The parameter that says whether vectors are normalized to length 1.
const NORMALIZE: &str = "normalize";

/// The parameter that names one of the model's own prompts, in place of the default one.
const PROMPT_NAME: &str = "prompt_name";

/// The parameters that the encoding endpoints accept.
const PARAMETERS: [&str; 8] = [
    ACCESS_PATHS[0],
    ACCESS_PATHS[1],
    BATCH_SIZE,
    NORMALIZE,
    TRUNCATE,
    TRUNCATION_DIRECTION,
    PROMPT_NAME,
    EmbeddingType::PARAMETER,
];

/// The parameters that the endpoint for vectors of tokens accepts.
const TOKEN_VECTORS_PARAMETERS: [&str; 5] = [
    ACCESS_PATHS[0],
    ACCESS_PATHS[1],
    TRUNCATE,
    TRUNCATION_DIRECTION,
    PROMPT_NAME,
];

/// The endpoints that show what the tokenizer does. They have other names than the HTTP routes of the gateway for them,
/// because an endpoint of an executor comes before a route of the same name.
const TO_TOKENS: &str = "/to_tokens";
const FROM_TOKENS: &str = "/from_tokens";

/// The endpoint that gives the vectors of tokens.
const TOKEN_VECTORS: &str = "/token_vectors";

/// Bytes of the vectors of the tokens of one call.
const TOKEN_VECTORS_MAX: usize = 128 << 20;

/// The endpoint that encodes.
const ENCODE: &str = "/encode";

/// Sets the embedding of each document that has a text.
#[derive(Debug)]
pub struct SentenceEncoder {
    encoder: CachedEncoder,
    access_paths: AccessPaths,
    embedding_type: EmbeddingType,
    facts: Facts,
    model: ModelInfo,
    metrics: EncoderMetrics,
    without_text: WithoutText,
}

impl Executor for SentenceEncoder {
    type With = SentenceEncoderConfig;

    fn check(config: &SentenceEncoderConfig) -> Result<(), LoadError> {
        Ok(config.check()?)
    }

    fn load(mut config: SentenceEncoderConfig, context: &LoadContext) -> Result<Self, LoadError> {
        if config.back_end.is_none() {
            config.back_end = back_end::from_environment(&context.environment)?;
        }
        let devices = open_devices(config.device)?;
        let revision = config.revision.as_deref();
        let files = ModelFiles::pull(&config.model, revision, &context.environment)?;
        let started = Instant::now();
        let stores = config.cache.options(&files.cache);
        let options = EncoderOptions {
            cache_folder: Some(files.cache),
            ..config.encoder_options()
        };
        let encoder = TextEncoder::load(&files.folder, &options, devices)?;
        let cache =
            stores.map(|stores| VectorCache::open(&stores, (&files.folder, &options), &encoder));
        tracing::info!(
            model = config.model,
            folder = %files.folder.display(),
            width = encoder.width(),
            max_length = encoder.max_length(),
            seconds = started.elapsed().as_secs_f32(),
            "model loaded"
        );
        watch_gpus(encoder.gpu(), encoder.max_batch_tokens(), &context.monitor)?;
        let facts = facts(&config, &encoder);
        let model = model_info(&config, &encoder);
        Ok(Self {
            encoder: CachedEncoder::new(encoder, cache.transpose()?),
            access_paths: config.access_paths,
            embedding_type: config.embedding_type,
            facts,
            model,
            metrics: EncoderMetrics::register(&context.monitor)?,
            without_text: WithoutText::default(),
        })
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on_batch(ENCODE, Self::encode)
            .default_batch(Self::encode)
            .on_batch(TO_TOKENS, Self::tokenize)
            .on_batch(FROM_TOKENS, Self::decode)
            .accepts(ENCODE, PARAMETERS)
            .accepts(Endpoint::DEFAULT, PARAMETERS)
            .accepts(TO_TOKENS, [tokens::ADD_SPECIAL, PROMPT_NAME])
            .accepts(FROM_TOKENS, [tokens::SKIP_SPECIAL])
            .on_batch(TOKEN_VECTORS, Self::encode_tokens)
            .accepts(TOKEN_VECTORS, TOKEN_VECTORS_PARAMETERS)
    }

    fn short_calls(&self) -> ShortCalls<Self> {
        // Calls wait for a GPU, and for the files of a cache.
        let may_wait = self.encoder.encoder().gpu().is_some() || self.encoder.counts().is_some();
        match may_wait {
            false => ShortCalls::where_read(),
            true => ShortCalls::on_worker(),
        }
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn models(&self) -> Models {
        Models::from([(ENCODE.to_owned(), self.model.clone())])
    }
}

impl SentenceEncoder {
    fn encode(
        &mut self,
        docs: &mut [Document],
        parameters: &Parameters,
    ) -> Result<Tokens, CallError> {
        let paths = parameters.first(&ACCESS_PATHS)?;
        let paths = paths.unwrap_or_else(|| self.access_paths.clone());
        let (texts, texts_of) = self.texts(docs, &paths)?;
        let prompt = self.prompt(parameters)?;
        let request = EncodeRequest {
            batch_size: parameters.get(BATCH_SIZE)?,
            normalize: parameters.get(NORMALIZE)?,
            prompt: prompt.as_deref(),
            direction: parameters.get(TRUNCATION_DIRECTION)?.unwrap_or_default(),
        };
        let embedding_type: Option<EmbeddingType> = parameters.get(EmbeddingType::PARAMETER)?;
        let embedding_type = embedding_type.unwrap_or(self.embedding_type);
        let cancellation = Cancellation::current();
        if parameters.get(TRUNCATE)? == Some(false) {
            self.check_lengths(&texts, request, &cancellation)?;
        }

        let is_cancelled = || cancellation.is_cancelled();
        let encoded = self.encoder.encode_unless(&texts, request, &is_cancelled);
        let encoded = encoded.map_err(|error| call_error(&error))?;
        self.metrics.observe(encoded.work, self.encoder.counts());
        let mut rows = encoded.vectors.rows();
        paths.visit(docs, &mut |doc| {
            if doc.has_text()
                && let Some(vector) = rows.next()
            {
                doc.set_embedding(&embedding_type.encode(vector));
            }
        })?;
        Ok(tokens::usage(&texts_of, &encoded))
    }

    /// Sets the embedding of each document to the vectors of its text's tokens, a matrix of `tokens × dimensions`.
    fn encode_tokens(
        &mut self,
        docs: &mut [Document],
        parameters: &Parameters,
    ) -> Result<Tokens, CallError> {
        let paths = parameters.first(&ACCESS_PATHS)?;
        let paths = paths.unwrap_or_else(|| self.access_paths.clone());
        if self.encoder.encoder().gpu().is_some() {
            // Sending it again does not help, and nothing is wrong with this executor.
            return Err(CallError::bad_request(ForwardError::NoStates.to_string()));
        }
        let (texts, texts_of) = self.texts(docs, &paths)?;
        let prompt = self.prompt(parameters)?;
        let request = EncodeRequest {
            prompt: prompt.as_deref(),
            direction: parameters.get(TRUNCATION_DIRECTION)?.unwrap_or_default(),
            ..EncodeRequest::default()
        };
        let cancellation = Cancellation::current();
        if parameters.get(TRUNCATE)? == Some(false) {
            self.check_lengths(&texts, request, &cancellation)?;
        }
        let is_cancelled = || cancellation.is_cancelled();
        let encoder = self.encoder.encoder();
        let width = encoder.token_width();
        let tokens_max = TOKEN_VECTORS_MAX / (width * size_of::<f32>());
        let encoded = encoder.token_vectors(&texts, (request, tokens_max), &is_cancelled);
        let (vectors, times) = encoded.map_err(|error| call_error(&error))?;
        let tokens: Vec<usize> = vectors.iter().map(|vectors| vectors.tokens).collect();
        let work = EncodeWork {
            tokens: tokens.iter().sum(),
            times,
        };
        self.metrics.observe(Some(work), None);
        let mut vectors = vectors.into_iter();
        paths.visit(docs, &mut |doc| {
            if doc.has_text()
                && let Some(vectors) = vectors.next()
            {
                doc.set_embedding(&Tensor::matrix(&vectors.values, width));
            }
        })?;
        Ok(sums(&texts_of, &tokens).collect())
    }

    /// The selected texts, and how many of them each document has.
    fn texts(
        &mut self,
        docs: &mut [Document],
        paths: &AccessPaths,
    ) -> Result<(Vec<String>, Vec<usize>), CallError> {
        let selected = SelectedTexts::read(docs, paths)?;
        self.without_text.log(
            selected.without_text,
            "documents without a text get no vector",
        );
        Ok((selected.texts, selected.texts_of))
    }

    /// The prompt that a request names.
    fn prompt(&self, parameters: &Parameters) -> Result<Option<String>, CallError> {
        let name: Option<String> = parameters.get(PROMPT_NAME)?;
        let Some(name) = name else { return Ok(None) };
        let prompts = self.encoder.encoder().prompts();
        match prompts.get(&name) {
            Some(prompt) => Ok(Some(prompt.clone())),
            None => {
                let name = excerpt(&name);
                let known: Vec<String> = prompts.keys().map(|it| format!("`{it}`")).collect();
                let known = match known.is_empty() {
                    true => "it has none".to_owned(),
                    false => format!("it has {}", known.join(", ")),
                };
                Err(CallError::bad_request(format!(
                    "the model has no prompt `{name}`; {known}"
                )))
            }
        }
    }

    /// Refuses texts that the model would not read as a whole.
    fn check_lengths(
        &self,
        texts: &[String],
        request: EncodeRequest<'_>,
        cancellation: &Cancellation,
    ) -> Result<(), CallError> {
        for text in texts {
            if cancellation.is_cancelled() {
                return Err(CallError::cancelled());
            }
            let EncodeRequest {
                prompt, direction, ..
            } = request;
            if self.encoder.encoder().truncates(text, prompt, direction)? {
                return Err(too_long(text, self.encoder.encoder().max_length()));
            }
        }
        Ok(())
    }

    /// Sets the tags `tokens` of each document to the tokens of its text.
    fn tokenize(
        &mut self,
        docs: &mut [Document],
        parameters: &Parameters,
    ) -> Result<(), CallError> {
        let add_special: Option<bool> = parameters.get(tokens::ADD_SPECIAL)?;
        let prompt = self.prompt(parameters)?.unwrap_or_default();
        let tokenizer = self.encoder.encoder().tokenizer();
        tokens::write_all(docs, (tokenizer, &prompt), add_special.unwrap_or(true))
    }

    /// Sets the text of each document to that of the token ids in its tags.
    fn decode(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let skip_special: Option<bool> = parameters.get(tokens::SKIP_SPECIAL)?;
        let tokenizer = self.encoder.encoder().tokenizer();
        tokens::decode_all(docs, tokenizer, skip_special.unwrap_or(true))
    }
}

/// The error of a call.
fn call_error(error: &EncodeError) -> CallError {
    match error {
        EncodeError::TooManyTokens { .. } => {
            let message = format!("{error}; send them in several requests");
            CallError::bad_request(message)
        }
        error => model_error(error),
    }
}

fn facts(config: &SentenceEncoderConfig, encoder: &TextEncoder) -> Facts {
    let info = encoder.info();
    let facts = [
        ("device", device_name(encoder.gpu())),
        ("model", config.model.clone()),
        ("engine", info.engine.to_owned()),
        ("back_end", info.back_end),
        ("precision", info.precision),
        ("threads", encoder.threads().to_string()),
        ("dimensions", encoder.width().to_string()),
    ];
    facts
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// What the executor reports of its model.
fn model_info(config: &SentenceEncoderConfig, encoder: &TextEncoder) -> ModelInfo {
    let head = encoder.head();
    let pooling: Vec<String> = head.modes.iter().map(ToString::to_string).collect();
    ModelInfo {
        name: config.model.clone(),
        revision: config.revision.clone(),
        kind: ModelKind::Embedding,
        dimensions: encoder.width(),
        max_length: encoder.max_length(),
        pooling: pooling.join("+"),
        normalized: head.normalize,
        precision: encoder.info().precision,
        device: device_name(encoder.gpu()),
        shorter: match encoder.matryoshka() {
            Matryoshka::No => ShorterVectors::No,
            Matryoshka::Any => ShorterVectors::Any,
            Matryoshka::Only(lengths) => ShorterVectors::Only(lengths.clone()),
        },
        embedding_type: Some(config.embedding_type),
        reads_nested: config.access_paths != AccessPaths::default(),
        prompts: encoder.prompts().keys().cloned().collect(),
        labels: Vec::new(),
        batch_texts: encoder.max_batch_texts().get(),
        batch_tokens: encoder.max_batch_tokens().get(),
    }
}
