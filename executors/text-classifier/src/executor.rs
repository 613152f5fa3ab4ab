//! The endpoints: takes the texts out of documents, and puts the scores of labels into them.

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
use flow_models::{EncodeError, EncoderOptions, ScoreRequest, TextClassifier};

use crate::config::TextClassifierConfig;
use crate::label_scores::ScoreOptions;
use crate::texts::{InputTexts, is_input};

/// The parameters that set the number of labels whose scores a document gets. If a request has both, the first one applies.
const LIMIT: [&str; 2] = ["top_k", "limit"];

/// The parameter that limits the texts of a batch.
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

/// The endpoint that classifies.
const CLASSIFY: &str = "/classify";

/// Gives each document that has a text a score for each label.
#[derive(Debug)]
pub struct TextClassifierExecutor {
    classifier: TextClassifier,
    config: TextClassifierConfig,
    metrics: ModelMetrics,
    without_text: WithoutText,
}

impl Executor for TextClassifierExecutor {
    type With = TextClassifierConfig;

    fn check(config: &TextClassifierConfig) -> Result<(), LoadError> {
        Ok(config.check()?)
    }

    fn load(mut config: TextClassifierConfig, context: &LoadContext) -> Result<Self, LoadError> {
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
        let classifier = TextClassifier::load(&files.folder, &options, devices)?;
        tracing::info!(
            model = config.model,
            folder = %files.folder.display(),
            labels = classifier.labels().len(),
            max_length = classifier.model().max_length(),
            seconds = started.elapsed().as_secs_f32(),
            "model loaded"
        );
        let gpu = classifier.model().gpu();
        watch_gpus(gpu, classifier.model().max_batch_tokens(), &context.monitor)?;
        Ok(Self {
            classifier,
            config,
            metrics: ModelMetrics::register(&context.monitor)?,
            without_text: WithoutText::default(),
        })
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on_batch(CLASSIFY, Self::classify)
            .default_batch(Self::classify)
            .accepts(CLASSIFY, PARAMETERS)
            .accepts(Endpoint::DEFAULT, PARAMETERS)
    }

    fn facts(&self) -> Facts {
        let model = self.classifier.model();
        let info = model.info();
        let facts = [
            ("device", device_name(model.gpu())),
            ("model", self.config.model.clone()),
            ("engine", info.engine.to_owned()),
            ("back_end", info.back_end),
            ("precision", info.precision),
            ("threads", model.threads().to_string()),
            ("labels", self.classifier.labels().len().to_string()),
        ];
        facts
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value))
            .collect()
    }

    fn models(&self) -> Models {
        let model = self.classifier.model();
        let info = ModelInfo {
            name: self.config.model.clone(),
            revision: self.config.revision.clone(),
            kind: ModelKind::Classifier,
            max_length: model.max_length(),
            precision: model.info().precision,
            device: device_name(model.gpu()),
            labels: self.classifier.labels().to_vec(),
            batch_texts: model.max_batch_texts().get(),
            batch_tokens: model.max_batch_tokens().get(),
            ..ModelInfo::default()
        };
        Models::from([(CLASSIFY.to_owned(), info)])
    }
}

impl TextClassifierExecutor {
    fn classify(
        &mut self,
        docs: &mut [Document],
        parameters: &Parameters,
    ) -> Result<Tokens, CallError> {
        let paths = parameters.first(&ACCESS_PATHS)?;
        let paths = paths.unwrap_or_else(|| self.config.access_paths.clone());
        let raw_scores = parameters.get(RAW_SCORES)?;
        let raw_scores = raw_scores.unwrap_or(self.config.raw_scores);
        let request = ScoreRequest {
            batch_size: parameters.get(BATCH_SIZE)?,
            truncate: parameters.get(TRUNCATE)? != Some(false),
            direction: parameters.get(TRUNCATION_DIRECTION)?.unwrap_or_default(),
        };
        let top_k = parameters.first(&LIMIT)?;
        let texts = InputTexts::read(docs, &paths)?;
        self.without_text
            .log(texts.without_text, "documents without a text get no scores");
        let cancellation = Cancellation::current();
        let is_cancelled = || cancellation.is_cancelled();
        let classified = self
            .classifier
            .classify(&texts.inputs, request, &is_cancelled);
        let classified = classified.map_err(|error| call_error(&error, &texts))?;
        self.metrics
            .observe(classified.tokens.iter().sum(), classified.times);
        let options = ScoreOptions {
            labels: self.classifier.labels(),
            top_k: top_k.or(self.config.top_k),
            label_tag: self.config.label_tag.as_deref(),
        };
        let mut rows = classified.values.chunks_exact(options.labels.len());
        paths.visit(docs, &mut |doc| {
            if is_input(doc)
                && let Some(row) = rows.next()
            {
                match raw_scores {
                    true => options.write(doc, row),
                    false => options.write(doc, &self.classifier.scores(row)),
                }
            }
        })?;
        Ok(sums(&texts.texts_of, &classified.tokens).collect())
    }
}

/// The error of a call.
fn call_error(error: &EncodeError, texts: &InputTexts) -> CallError {
    match error {
        // Its place among the texts of a call says nothing to a client whose call was sent in pieces.
        EncodeError::TooLong { text, max } => {
            let input = texts.inputs.get(*text);
            let parts = input.map(|input| [input.pair.as_deref(), Some(input.text.as_str())]);
            let parts = parts.into_iter().flatten().flatten();
            let text = parts.max_by_key(|part| part.len()).unwrap_or("");
            CallError::bad_request(format!(
                "a text, or a pair of texts, has more than {max} tokens, the most that the model reads: `{}…`; \
                 shorten it, or let it be truncated",
                excerpt(text)
            ))
        }
        error => model_error(error),
    }
}
