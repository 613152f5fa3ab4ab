//! The endpoints: takes the texts out of documents, and puts vectors into them.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Instant;

use flow_core::{AccessPaths, Chain, Document, Tensor};
use flow_executor::{
    BadParameter, CallError, Endpoint, Endpoints, Executor, Facts, LoadContext, LoadError,
    Parameters,
};
use flow_models::source::{self, LogProgress, SourceEnvironment};
use flow_models::{EncodeError, OpenDevices, TextEncoder};

use crate::config::SentenceEncoderConfig;

/// Limits the CPU instruction set if `back_end` does not. For tests, and to find out how another machine would perform.
const BACK_END_VARIABLE: &str = "FLOW_CPU_BACKEND";

/// The parameters that select the documents to encode. If a request has both, the first one applies.
const ACCESS_PATHS: [&str; 2] = ["access_paths", "traversal_paths"];

/// The parameter that limits the texts of a batch.
const BATCH_SIZE: &str = "batch_size";

/// The parameters that the endpoints accept.
const PARAMETERS: [&str; 3] = [ACCESS_PATHS[0], ACCESS_PATHS[1], BATCH_SIZE];

/// Sets the embedding of each document that has a text.
#[derive(Debug)]
pub struct SentenceEncoder {
    encoder: TextEncoder,
    access_paths: AccessPaths,
    facts: Facts,
    /// Number of documents without a text so far.
    without_text: u64,
}

impl Executor for SentenceEncoder {
    type With = SentenceEncoderConfig;

    fn check(config: &SentenceEncoderConfig) -> Result<(), LoadError> {
        Ok(config.check()?)
    }

    fn load(mut config: SentenceEncoderConfig, context: &LoadContext) -> Result<Self, LoadError> {
        if let Some(name) = context.environment.get(BACK_END_VARIABLE)
            && config.back_end.is_none()
        {
            config.back_end = Some(name.parse()?);
        }
        let environment =
            SourceEnvironment::from_variables(|name| context.environment.get(name).cloned());
        let devices = config.device.open(cores())?;
        log_devices(&devices);
        let revision = config.revision.as_deref();
        let folder = source::pull(
            &config.model,
            revision,
            &environment,
            &mut LogProgress::default(),
        )?;
        let started = Instant::now();
        let encoder = TextEncoder::load(&folder, &config.encoder_options(), devices)?;
        tracing::info!(
            model = config.model,
            folder = %folder.display(),
            width = encoder.width(),
            max_length = encoder.max_length(),
            seconds = started.elapsed().as_secs_f32(),
            "model loaded"
        );
        log_gpu_memory(&encoder);
        let facts = facts(&config, &encoder);
        Ok(Self {
            encoder,
            access_paths: config.access_paths,
            facts,
            without_text: 0,
        })
    }

    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on_batch("/encode", Self::encode)
            .default_batch(Self::encode)
            .accepts("/encode", PARAMETERS)
            .accepts(Endpoint::DEFAULT, PARAMETERS)
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }
}

impl SentenceEncoder {
    fn encode(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let paths = access_paths(parameters)?.unwrap_or_else(|| self.access_paths.clone());
        let batch_size: Option<NonZeroUsize> = parameters.get(BATCH_SIZE).map_err(bad_request)?;

        let (mut texts, mut without_text) = (Vec::new(), 0);
        paths.visit(docs, &mut |doc| match doc.has_text() {
            true => texts.push(doc.text()),
            false => without_text += 1,
        })?;
        self.count_without_text(without_text);

        let vectors = self.encoder.encode(&texts, batch_size);
        let vectors = vectors.map_err(|error| call_error(&error))?;
        let mut rows = vectors.rows();
        paths.visit(docs, &mut |doc| {
            if doc.has_text()
                && let Some(vector) = rows.next()
            {
                doc.set_embedding(&Tensor::vector(vector));
            }
        })?;
        Ok(())
    }

    /// Counts documents without a text. They are returned unchanged, as by stock encoders, but a user may expect vectors.
    fn count_without_text(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        if self.without_text == 0 {
            tracing::warn!(
                count,
                "documents without a text get no vector; further ones are logged at debug level only"
            );
        }
        self.without_text += count;
        tracing::debug!(count, total = self.without_text, "documents without a text");
    }
}

/// The error of a call. If a GPU is lost to this process, the process must end.
fn call_error(error: &EncodeError) -> CallError {
    let call_error = CallError::new(Chain(error).to_string());
    if error.is_sticky() {
        call_error.and_end()
    } else {
        call_error
    }
}

fn access_paths(parameters: &Parameters) -> Result<Option<AccessPaths>, CallError> {
    for name in ACCESS_PATHS {
        if let Some(paths) = parameters.get(name).map_err(bad_request)? {
            return Ok(Some(paths));
        }
    }
    Ok(None)
}

#[allow(
    clippy::needless_pass_by_value,
    reason = "the signature that `map_err` needs"
)]
fn bad_request(error: BadParameter) -> CallError {
    CallError::bad_request(Chain(&error).to_string())
}

/// Logs the chosen device and its memory.
fn log_devices(devices: &OpenDevices) {
    if let Some(reason) = &devices.fallback_reason {
        tracing::info!(device = "cpu", reason, "device chosen");
    }
    for gpu in &devices.gpus {
        let mebibytes = |bytes: usize| bytes >> 20;
        let memory = gpu.memory().ok();
        tracing::info!(
            device = gpu.name(),
            capability = %gpu.capability(),
            free_mib = memory.map(|it| mebibytes(it.free)),
            total_mib = memory.map(|it| mebibytes(it.total)),
            "GPU opened"
        );
    }
}

/// Logs how the memory of a GPU is used.
fn log_gpu_memory(encoder: &TextEncoder) {
    if let Some(gpu) = encoder.gpu() {
        let batch_tokens = encoder.max_batch_tokens();
        tracing::info!(
            weights_mib = gpu.weight_bytes() >> 20,
            batches_mib = gpu.batch_bytes(batch_tokens) >> 20,
            batch_tokens,
            streams = gpu.streams(),
            precision = %gpu.precision(),
            "GPU memory allocated"
        );
    }
}

fn facts(config: &SentenceEncoderConfig, encoder: &TextEncoder) -> Facts {
    let info = encoder.info();
    let devices = encoder.gpu().map(|gpu| gpu.names().join(", "));
    let facts = [
        ("device", devices.unwrap_or_else(|| "cpu".to_owned())),
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

fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}
