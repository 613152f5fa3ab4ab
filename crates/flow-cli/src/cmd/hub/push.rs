//! `flow hub push`: builds the image of an executor, or takes an existing one, labels it and pushes it.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flow_docker::{BuildOptions, Engine};
use flow_spec::HubName;

use super::archive::{self, Content, DOCKERFILE, ExtraFile};
use super::labels::{Labels, TITLE, VERSION};
use super::location::{self, HubLocation, LocationOptions};
use super::progress::{Layers, Printed};
use super::python;
use crate::docker_config;
use crate::exit::{BadUsage, Exit};
use crate::folder::{self, ExecutorFolder, package};
use crate::output;
use crate::shell::Shell;

/// The default tag.
const TAG_DEFAULT: &str = "latest";

const EXAMPLES: &str = "\
EXAMPLES:
  flow hub push ./my-executor -t v1 -t latest
  flow hub push ./my-python-executor --build-arg BASE=python:3.12-slim
  flow hub push --image sentence-encoder --name TransformerTorchEncoder -t gpu

Exit codes: 0 success, 1 failure, 2 bad usage.";

/// Heading of the options for the name and the labels.
const LABELS: &str = "Name and labels";

/// Options of `flow hub push`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Push {
    /// Folder of the executor, with its Dockerfile; a Python executor needs no Dockerfile
    #[arg(value_name = "PATH", required_unless_present = "image")]
    path: Option<PathBuf>,
    /// Push this existing image instead of building one
    #[arg(long, value_name = "IMAGE", conflicts_with = "path", requires = "name")]
    image: Option<String>,
    /// Name in the registry [default: the name in config.yml]
    #[arg(long, help_heading = LABELS)]
    name: Option<String>,
    /// Tag of the image; can be given several times [default: latest]
    #[arg(long = "tag", short, value_name = "TAG", help_heading = LABELS)]
    tags: Vec<String>,
    /// One-line description [default: the one in config.yml]
    #[arg(long, value_name = "TEXT", help_heading = LABELS)]
    description: Option<String>,
    /// Keywords to find the executor by, separated by commas [default: those in config.yml]
    #[arg(long, value_name = "WORD,...", value_delimiter = ',', help_heading = LABELS)]
    keywords: Vec<String>,
    /// Devices that the executor computes on, separated by commas [default: those in its Dockerfile]
    #[arg(long, value_name = "cpu,cuda", value_delimiter = ',', help_heading = LABELS)]
    devices: Vec<String>,
    /// Build argument for the Dockerfile, such as BASE=IMAGE; can be given several times
    #[arg(long = "build-arg", value_name = "NAME=VALUE", value_parser = pair)]
    build_args: Vec<(String, String)>,
    #[command(flatten)]
    location: LocationOptions,
}

/// An image to be built.
struct Draft {
    /// Name of the executor, as it is written.
    title: String,
    labels: Labels,
    tar: Vec<u8>,
}

pub(super) async fn run(push: Push, shell: &Shell) -> anyhow::Result<Exit> {
    let location = push.location.resolve(shell)?;
    let mut draft = match (&push.path, &push.image) {
        (Some(path), _) => of_folder(path, &push, shell)?,
        (None, Some(image)) => of_image(image, &push)?,
        (None, None) => anyhow::bail!("a folder or `--image` is needed"),
    };
    let names = names(&draft.title, &push.tags)?;
    describe(&mut draft, &push, &names[0]);
    let engine = location::engine(shell).await?;
    let images: Vec<String> = names.iter().map(|name| name.image(&location.hub)).collect();
    build(&engine, draft, &push.build_args, &images[0]).await?;
    for image in &images[1..] {
        engine.tag(&images[0], image).await?;
    }
    for image in &images {
        send(&engine, &location, image, shell).await?;
    }
    print_uses(&names)
}

/// A build from an executor's folder.
fn of_folder(path: &Path, push: &Push, shell: &Shell) -> anyhow::Result<Draft> {
    let shown = path.display();
    let has_dockerfile = path.join(DOCKERFILE).is_file();
    let found = folder::look(path, &[Path::new("")], shell, &|_| {});
    if !has_dockerfile && !matches!(found, Ok(ExecutorFolder::Python(_))) {
        return Err(BadUsage(format!(
            "`{shown}` has no `{DOCKERFILE}`: `flow new executor --dockerfile cpu` writes one"
        ))
        .into());
    }
    let mut speaks_our_wire = false;
    let found =
        found.with_context(|| BadUsage(format!("`{shown}` is not the folder of an executor")))?;
    let (config, extra) = match found {
        ExecutorFolder::Package { manifest, config } => {
            let extra = program(&manifest, &folder::name(&config), shell)?;
            (config, vec![extra])
        }
        ExecutorFolder::Named(config) => (config, Vec::new()),
        ExecutorFolder::Python(file) if has_dockerfile => (folder::load(&file, shell)?, Vec::new()),
        ExecutorFolder::Python(file) => {
            let (config, package) = (folder::load(&file, shell)?, python::package(&file, shell)?);
            speaks_our_wire = package.is_some();
            (config, python::files(&file, package.as_deref())?)
        }
        ExecutorFolder::Program(_) => {
            return Err(BadUsage(format!("`{shown}` is not a folder")).into());
        }
    };
    let mut labels = Labels::of_metas(&config.metas);
    if !config.is_python || speaks_our_wire {
        labels.put_wire();
    }
    if labels.get(VERSION).is_empty() {
        labels.put(VERSION, package::version(path).as_deref());
    }
    let written = [labels.get(TITLE), &config.jtype];
    let named = written.into_iter().find(|it| !it.is_empty());
    let title = push
        .name
        .as_deref()
        .or(named)
        .with_context(|| BadUsage(format!("`{shown}` has no name: set one with `--name`")))?;
    Ok(Draft {
        title: title.to_owned(),
        tar: archive::of(path, &extra)?,
        labels,
    })
}

/// Builds the program of a package, and places it where the Dockerfile expects it.
fn program(manifest: &Path, name: &str, shell: &Shell) -> anyhow::Result<ExtraFile> {
    let from = package::build(manifest, name, shell)?;
    let program = from.file_name().unwrap_or_default().to_string_lossy();
    Ok(ExtraFile {
        to: format!("target/release/{program}"),
        content: Content::Of(from),
    })
}

/// An existing image with another name and more labels.
fn of_image(image: &str, push: &Push) -> anyhow::Result<Draft> {
    let tar = archive::of_dockerfile(&format!("FROM {image}\n"));
    Ok(Draft {
        title: push.name.clone().unwrap_or_else(|| image.to_owned()),
        labels: Labels::default(),
        tar: tar.with_context(|| format!("cannot pack `{image}`"))?,
    })
}

/// A name for each tag, at least one.
fn names(title: &str, tags: &[String]) -> anyhow::Result<Vec<HubName>> {
    let given = tags.iter().map(String::as_str);
    let or_default = tags.is_empty().then_some(TAG_DEFAULT);
    given
        .chain(or_default)
        .map(|tag| HubName::new(title, Some(tag)))
        .collect::<Result<_, _>>()
        .map_err(|error| BadUsage(error.to_string()).into())
}

/// Sets the labels of the options, which override those of the folder.
fn describe(draft: &mut Draft, push: &Push, name: &HubName) {
    let labels = &mut draft.labels;
    labels.put(TITLE, Some(&draft.title));
    labels.put_executor(name.repository());
    labels.put(super::labels::DESCRIPTION, push.description.as_deref());
    labels.put_keywords(&push.keywords);
    labels.put_devices(&push.devices);
}

async fn build(
    engine: &Engine,
    draft: Draft,
    arguments: &[(String, String)],
    image: &str,
) -> anyhow::Result<()> {
    let options = BuildOptions {
        image: image.to_owned(),
        labels: draft.labels.0.into_iter().collect(),
        arguments: arguments.iter().cloned().collect(),
    };
    let mut printed = Printed::default();
    let shown = |step| printed.show(&step);
    engine.build(&options, draft.tar.into(), shown).await?;
    Ok(())
}

async fn send(
    engine: &Engine,
    location: &HubLocation,
    image: &str,
    shell: &Shell,
) -> anyhow::Result<()> {
    let credentials = docker_config::credentials(&location.host, shell)?;
    let mut layers = Layers::new(&format!("pushing {image}"));
    engine
        .push(image, credentials, |step| layers.show(step))
        .await?;
    drop(layers);
    output::line(&format!("{image} is in the hub"))?;
    Ok(())
}

/// Prints the line for flow files.
fn print_uses(names: &[HubName]) -> anyhow::Result<Exit> {
    let name = &names[0];
    let (repository, tag) = (name.repository(), name.tag());
    output::line(&format!(
        "use it in a flow: `uses: hub://{repository}:{tag}`"
    ))?;
    Ok(Exit::Fine)
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("needs the form `NAME=VALUE`")?;
    Ok((name.to_owned(), value.to_owned()))
}
