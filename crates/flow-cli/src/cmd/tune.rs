//! `flow tune`: finds the options of the sentence encoder that suit this machine.
//!
//! ```text
//! candidate.rs  the options to try, and the flow of each    pure
//! trial.rs      starts a flow, loads it, measures
//! choice.rs     measurements → the best candidate           pure
//! report.rs     measurements → a table and a flow file      pure
//! ```
//!
//! Precision decides most, so it is tried first; then how the cores are divided among replicas; then the size of batches; then
//! whether a single process is that of the gateway. Each step keeps the best of the one before it, because all combinations would take too long.

mod candidate;
mod choice;
mod report;
mod trial;

use std::io::Write;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use flow_models::source::DEFAULT_MODEL;

use self::candidate::Candidate;
use self::choice::{Bars, Measurement, choose};
use self::report::TuneRun;
use self::trial::Load;
use super::bench::Corpus;
use super::post::NewFile;
use crate::count::count;
use crate::exit::{BadUsage, Exit};
use crate::output::{self, Painter};
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow tune
  flow tune --corpus long --concurrency 4 --p99 200ms
  flow tune --input queries.txt --request-size 32 --output encode.yml

Each candidate is a flow on this machine that gets the texts for some seconds, so other programs should be
idle meanwhile. The candidate with the highest rate wins whose vectors are close enough to those of f32, and
whose 99th percentile is within --p99. A simpler one is preferred if it is within 3 % of the best.

Exit codes: 0 success, 1 no candidate is fast enough or close enough, 2 bad usage.";

/// Headings of the options.
const TEXTS: &str = "Texts";
const LOAD: &str = "Load";
const AIMS: &str = "Aims";

/// Options of `flow tune`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Tune {
    /// Name of a model on the Hugging Face hub, or path of a folder
    #[arg(long, default_value = DEFAULT_MODEL)]
    model: String,
    /// Send the texts in FILE, one on each line
    #[arg(long, value_name = "FILE", conflicts_with = "corpus", help_heading = TEXTS)]
    input: Option<PathBuf>,
    /// Generated texts to send
    #[arg(long, value_enum, default_value = "mixed", help_heading = TEXTS)]
    corpus: Corpus,
    /// Number of requests in progress
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, default_value = "16", help_heading = LOAD)]
    concurrency: NonZeroUsize,
    /// Number of texts in each request
    #[arg(long, value_name = "N", value_parser = count::<NonZeroUsize>, default_value = "1", help_heading = LOAD)]
    request_size: NonZeroUsize,
    /// Seconds of load on each candidate, after a warm-up
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU64>, default_value = "5", help_heading = LOAD)]
    seconds: NonZeroU64,
    /// Maximum 99th percentile of the time of requests, such as 50ms [default: no limit]
    #[arg(long, value_name = "DURATION", value_parser = humantime::parse_duration, help_heading = AIMS)]
    p99: Option<Duration>,
    /// Lowest cosine that a vector may have with that of f32
    #[arg(long, value_name = "COSINE", value_parser = super::verify::cosine_bar, default_value = "0.999", help_heading = AIMS)]
    min_cosine: f64,
    /// Write the flow file to FILE instead of standard output
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Tune {
    fn texts(&self) -> anyhow::Result<Vec<String>> {
        let Some(path) = &self.input else {
            return Ok(self.corpus.texts());
        };
        let content = std::fs::read_to_string(path)
            .with_context(|| BadUsage(format!("cannot read `{}`", path.display())))?;
        let lines = content
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        let texts: Vec<String> = lines.map(str::to_owned).collect();
        match texts.is_empty() {
            true => Err(BadUsage(format!("`{}` has no text", path.display())).into()),
            false => Ok(texts),
        }
    }

    /// The file for the flow, and its path. Whether it can be written shows when it is created.
    fn new_file(&self) -> anyhow::Result<Option<(NewFile, PathBuf)>> {
        let Some(path) = &self.output else {
            return Ok(None);
        };
        let created = NewFile::create(path);
        let file =
            created.with_context(|| BadUsage(format!("cannot write `{}`", path.display())))?;
        Ok(Some((file, path.clone())))
    }

    fn bars(&self) -> Bars {
        Bars {
            p99: self.p99,
            cosine: self.min_cosine,
        }
    }
}

pub(crate) async fn run(tune: Tune, shell: &Shell) -> anyhow::Result<Exit> {
    shell.log.start(shell.wants_colour);
    let load = Arc::new(Load {
        texts: tune.texts()?,
        concurrency: tune.concurrency,
        request_size: tune.request_size,
        time: Duration::from_secs(tune.seconds.get()),
    });
    // Before all measurements: it takes minutes until there is something to write.
    let file = tune.new_file()?;
    let cores = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let mut trials = Trials {
        load,
        bars: tune.bars(),
        model: tune.model,
        cores,
        exact: Vec::new(),
        measured: Vec::new(),
    };
    trials.step(candidate::precisions(cores)).await?;
    if let Some(best) = trials.best() {
        trials.step(candidate::divisions(best, cores)).await?;
    }
    if let Some(best) = trials.best() {
        trials.step(candidate::batches(best)).await?;
    }
    if let Some(best) = trials.best() {
        trials.step(candidate::colocated(best)).await?;
    }
    let table = report::table(&trials.measured, Painter::stderr(shell));
    output::error_line(&format!("\n{table}"));
    let Some(best) = trials.best() else {
        output::error_line(
            "flow: no candidate is close enough and fast enough; relax `--p99` or `--min-cosine`, or lower `--concurrency`",
        );
        return Ok(Exit::Failed);
    };
    let text = report::flow_file(best, trials.tried());
    match file {
        None => output::bytes(text.as_bytes())?,
        Some((mut file, path)) => {
            let written = file.write_all(text.as_bytes());
            let finished = written.and_then(|()| file.finish());
            finished.with_context(|| format!("cannot write `{}`", path.display()))?;
        }
    }
    Ok(Exit::Fine)
}

/// The candidates that were tried so far.
struct Trials {
    load: Arc<Load>,
    bars: Bars,
    model: String,
    /// Of this machine.
    cores: NonZeroUsize,
    /// Vectors of some texts in f32.
    exact: Vec<Vec<f32>>,
    measured: Vec<(Candidate, Measurement)>,
}

impl Trials {
    /// Tries candidates. One that does not start is reported and left out, but for the first of all.
    async fn step(&mut self, candidates: Vec<Candidate>) -> anyhow::Result<()> {
        for candidate in candidates {
            let tried = trial::run(&candidate, &self.model, self.cores, &self.load, &self.exact);
            match tried.await {
                Ok((measured, vectors)) => {
                    output::error_line(&format!("{candidate}: {measured}"));
                    if self.exact.is_empty() {
                        self.exact = vectors;
                    }
                    self.measured.push((candidate, measured));
                }
                Err(error) if self.measured.is_empty() => return Err(error),
                Err(error) => output::error_line(&format!("{candidate}: left out: {error:#}")),
            }
        }
        Ok(())
    }

    fn tried(&self) -> TuneRun<'_> {
        TuneRun {
            model: &self.model,
            cores: self.cores,
            load: &self.load,
            bars: self.bars,
            measured: &self.measured,
        }
    }

    fn best(&self) -> Option<Candidate> {
        choose(&self.measured, self.bars)
    }
}
