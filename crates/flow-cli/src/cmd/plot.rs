//! `flow plot`: draws a flow.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};
use flow_spec::{Plan, plot};

use crate::exit::{BadUsage, Exit};
use crate::flow_file::{self, ReadOptions};
use crate::output;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow plot flows/two-branches.yml -o two-branches.svg
  flow plot flows/two-branches.yml --format mermaid

Exit codes: 0 success, 1 a file cannot be written, 2 bad usage or a bad flow file.";

/// Options of `flow plot`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Plot {
    /// Flow file to draw
    #[arg(value_name = "FLOW.yml")]
    file: PathBuf,
    /// Write the picture to FILE instead of standard output
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Format of the picture: svg or mermaid [default: by the ending of FILE, or svg]
    #[arg(long, hide_possible_values = true)]
    format: Option<Format>,
    #[command(flatten)]
    options: ReadOptions,
}

/// The format of a picture.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Format {
    /// A picture for browsers and documents, in the light or dark colours that the reader uses
    Svg,
    /// Text that GitHub and other tools draw as a picture
    Mermaid,
}

pub(crate) fn run(plot: &Plot, shell: &Shell) -> anyhow::Result<Exit> {
    let format = plot.format()?;
    let checked = flow_file::load(&plot.file, plot.options, shell)?;
    let plan = Plan::from(checked.flow);
    let picture = match format {
        Format::Svg => plot::svg(&plan, &title(&plan, &plot.file)),
        Format::Mermaid => plot::mermaid(&plan),
    };
    match &plot.output {
        Some(path) => std::fs::write(path, picture)
            .with_context(|| format!("cannot write `{}`", path.display()))?,
        None => output::bytes(picture.as_bytes())?,
    }
    Ok(Exit::Fine)
}

impl Plot {
    fn format(&self) -> anyhow::Result<Format> {
        let ending = self.output.as_ref().and_then(|path| path.extension());
        let ending = ending.and_then(|it| it.to_str()).unwrap_or("svg");
        match (self.format, ending) {
            (Some(format), _) => Ok(format),
            (None, "svg") => Ok(Format::Svg),
            (None, "mmd" | "mermaid") => Ok(Format::Mermaid),
            (None, other) => {
                let message = format!(
                    "cannot draw a `.{other}` file: use `.svg` or `.mmd`, or set `--format`; \
                     `rsvg-convert` converts SVG to other formats"
                );
                Err(BadUsage(message).into())
            }
        }
    }
}

/// The name of the flow or, without one, of its file.
fn title(plan: &Plan, file: &Path) -> String {
    let stem = || file.file_stem().unwrap_or_default().to_string_lossy();
    plan.name.clone().unwrap_or_else(|| stem().into_owned())
}
