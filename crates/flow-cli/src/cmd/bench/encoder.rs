//! `flow bench encoder`: measures the sentence encoder without a flow.
//!
//! Loading and a warm-up are not measured. The results are medians, printed as one line of JSON.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Args;
use flow_core::cosine;
use flow_models::EncoderOptions;
use flow_models::source::{self, DEFAULT_MODEL, SourceEnvironment};
use sentence_encoder::SentenceEncoderConfig;
use serde_json::{Value, json};

use super::corpus::Corpus;
use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow bench encoder --corpus mixed
  flow bench encoder --input docs.jsonl --precision bf16 --threads 4

Exit codes: 0 success, 1 the model or the texts cannot be read, 2 bad usage.";

/// Number of texts that are encoded one by one, for the latency.
const ALONE: usize = 200;
/// Number of texts that are encoded before the measurement.
const WARM_UP: usize = 128;

/// Headings of the options.
const TEXTS: &str = "Texts";
const ENCODER: &str = "Encoder";
const MEASUREMENT: &str = "Measurement";

/// Options of `flow bench encoder`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Encoder {
    /// Encode the texts in FILE, one JSON document per line as for `flow post`
    #[arg(long, value_name = "FILE", conflicts_with = "corpus", help_heading = TEXTS)]
    input: Option<PathBuf>,
    /// Generated texts to encode
    #[arg(long, value_enum, default_value = "tutorial", help_heading = TEXTS)]
    corpus: Corpus,
    /// Maximum number of texts
    #[arg(long, value_name = "N", default_value = "2048", help_heading = TEXTS)]
    texts: NonZeroUsize,
    /// Name of a model on the Hugging Face hub, or path of a folder
    #[arg(long, default_value = DEFAULT_MODEL, help_heading = ENCODER)]
    model: String,
    /// Device to compute on: cpu, cuda, cuda:N, cuda:all or auto
    #[arg(long, default_value = "cpu", help_heading = ENCODER)]
    device: String,
    /// Precision of the computation: f32, bf16, int8, auto or fast
    #[arg(long, default_value = "f32", help_heading = ENCODER)]
    precision: String,
    /// Engine that computes: flow or candle
    #[arg(long, default_value = "flow", help_heading = ENCODER)]
    engine: String,
    /// Best instruction set to use, such as avx2 [default: the best that the processor has]
    #[arg(long, value_name = "NAME", help_heading = ENCODER)]
    back_end: Option<String>,
    /// Number of threads that compute [default: one per core]
    #[arg(long, value_name = "N", help_heading = ENCODER)]
    threads: Option<NonZeroUsize>,
    /// Number of times that all texts are encoded
    #[arg(long, value_name = "N", default_value = "5", help_heading = MEASUREMENT)]
    rounds: NonZeroUsize,
    /// Number of texts whose vectors are compared with those of candle in f32
    #[arg(long, value_name = "N", default_value = "64", help_heading = MEASUREMENT)]
    compare: NonZeroUsize,
}

/// Cosines between vectors and those of the reference.
struct Cosines {
    min: f64,
    mean: f64,
}

pub(crate) fn run(bench: &Encoder, shell: &Shell) -> anyhow::Result<Exit> {
    shell.log.start(shell.wants_colour);
    let environment = SourceEnvironment::from_variables(|name| shell.variable(name));
    let folder = source::pull(&bench.model, None, &environment, &mut ())?;
    let texts = bench.read()?;
    let cache = &environment.flow_cache;
    let encoder = load(&folder, &bench.options(), cache)?;
    encoder.encode(&texts[..texts.len().min(WARM_UP)], None)?;

    let lengths = encoder.count_tokens(&texts)?;
    let tokenise_s = median(bench.rounds, || encoder.count_tokens(&texts).map(drop))?;
    let all_s = median(bench.rounds, || encoder.encode(&texts, None).map(drop))?;
    let mut alone_ms = alone(&encoder, &texts)?;
    alone_ms.sort_by(f64::total_cmp);
    let tokens: usize = lengths.iter().sum();
    let flop: f64 = lengths.iter().map(|length| encoder.flop(*length)).sum();
    let cosines = bench.cosines((&folder, cache), &encoder, &texts)?;
    let info = encoder.info();
    let line = json!({
        "corpus": bench.input.is_none().then(|| bench.corpus.name()),
        "texts": texts.len(),
        "texts_per_s": round(texts.len() as f64 / all_s, 1),
        "tokens_per_s": round(tokens as f64 / all_s, 0),
        "gflops": round(flop / all_s / 1e9, 1),
        "p50_ms": round(alone_ms[alone_ms.len() / 2], 3),
        "p99_ms": round(alone_ms[alone_ms.len() * 99 / 100], 3),
        "tokenise_share": round(tokenise_s / all_s, 4),
        "engine": bench.engine,
        "back_end": info.back_end,
        "precision": info.precision,
        "threads": encoder.threads(),
        "cosine_min": round(cosines.min, 8),
        "cosine_mean": round(cosines.mean, 8),
        "weights_mb": encoder.weight_bytes().map(|bytes| round(bytes as f64 / 1e6, 1)),
        "resident_mb": resident_mb(),
    });
    output::line(&line.to_string())?;
    Ok(Exit::Fine)
}

impl Encoder {
    fn options(&self) -> Value {
        json!({
            "device": self.device,
            "precision": self.precision,
            "engine": self.engine,
            "back_end": self.back_end,
            "threads": self.threads,
        })
    }

    fn read(&self) -> anyhow::Result<Vec<String>> {
        let mut texts = match &self.input {
            None => self.corpus.texts(),
            Some(path) => {
                let content = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read `{}`", path.display()))?;
                content.lines().map(text).collect::<Result<_, _>>()?
            }
        };
        texts.truncate(self.texts.get());
        if texts.is_empty() {
            bail!("there is no text to encode");
        }
        Ok(texts)
    }

    /// Compares some vectors with those of candle, or of portable loops if candle does not support the family.
    fn cosines(
        &self,
        (folder, cache): (&Path, &Path),
        encoder: &flow_models::TextEncoder,
        texts: &[String],
    ) -> anyhow::Result<Cosines> {
        let candle = json!({"engine": "candle", "threads": self.threads});
        let portable = json!({"back_end": "portable"});
        let reference = load(folder, &candle, cache).or_else(|_| load(folder, &portable, cache))?;
        let step = texts.len().div_ceil(self.compare.get());
        let some: Vec<&String> = texts.iter().step_by(step).collect();
        let (got, wanted) = (encoder.encode(&some, None)?, reference.encode(&some, None)?);
        let all = got.rows().zip(wanted.rows()).map(|(a, b)| cosine(a, b));
        let all: Option<Vec<f64>> = all.collect();
        let all = all.context("a vector is zero, or not finite")?;
        Ok(Cosines {
            min: all.iter().copied().fold(1.0, f64::min),
            mean: all.iter().sum::<f64>() / all.len() as f64,
        })
    }
}

fn text(line: &str) -> anyhow::Result<String> {
    let document: Value = serde_json::from_str(line).context("a line is not JSON")?;
    let text = document["text"].as_str();
    text.map(str::to_owned).context("a document has no text")
}

fn load(folder: &Path, options: &Value, cache: &Path) -> anyhow::Result<flow_models::TextEncoder> {
    let config: SentenceEncoderConfig = serde_json::from_value(options.clone())?;
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let options = EncoderOptions {
        cache_folder: Some(cache.to_owned()),
        ..config.encoder_options()
    };
    let devices = config.device.open(cores)?;
    Ok(flow_models::TextEncoder::load(folder, &options, devices)?)
}

/// The median seconds of some rounds.
fn median<E>(rounds: NonZeroUsize, work: impl Fn() -> Result<(), E>) -> Result<f64, E> {
    let mut seconds = Vec::new();
    for _ in 0..rounds.get() {
        let started = Instant::now();
        work()?;
        seconds.push(started.elapsed().as_secs_f64());
    }
    seconds.sort_by(f64::total_cmp);
    Ok(seconds[seconds.len() / 2])
}

/// Milliseconds of encoding some texts one by one.
fn alone(encoder: &flow_models::TextEncoder, texts: &[String]) -> anyhow::Result<Vec<f64>> {
    let step = texts.len().div_ceil(ALONE);
    let one = |text: &String| {
        let started = Instant::now();
        encoder.encode(&[text], None)?;
        Ok(started.elapsed().as_secs_f64() * 1e3)
    };
    texts.iter().step_by(step).map(one).collect()
}

fn round(value: f64, digits: i32) -> f64 {
    let unit = 10_f64.powi(digits);
    (value * unit).round() / unit
}

/// Resident megabytes of the process, if the system reports them.
fn resident_mb() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes / 1024)
}
