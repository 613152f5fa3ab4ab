//! `flow hub push`: makes an executor's image, or takes one that is there, says on it what it is, and sends it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flow_docker::{BuildImageOptionsBuilder, Engine};
use flow_spec::HubName;

use super::archive::{self, Content, DOCKERFILE, Placed};
use super::labels::{Labels, TITLE, VERSION};
use super::place::{self, Place, Where};
use super::progress::{Layers, Printed};
use super::python;
use crate::exit::{BadUsage, Exit};
use crate::folder::{self, Found, package};
use crate::login;
use crate::output;
use crate::shell::Shell;

/// The tag of which nobody has said another.
const TAG_DEFAULT: &str = "latest";

const EXAMPLES: &str = "\
EXAMPLES:
  flow hub push ./my-executor -t v1 -t latest
  flow hub push ./my-python-executor --build-arg BASE=python:3.12-slim
  flow hub push --image sentence-encoder --name TransformerTorchEncoder -t gpu";

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
    #[arg(long)]
    name: Option<String>,
    /// Tag of the image; can be given several times [default: latest]
    #[arg(long = "tag", short, value_name = "TAG")]
    tags: Vec<String>,
    /// One-line description [default: the one in config.yml]
    #[arg(long, value_name = "TEXT")]
    description: Option<String>,
    /// Keywords to find the executor by, separated by commas [default: those in config.yml]
    #[arg(long, value_name = "WORD,...", value_delimiter = ',')]
    keywords: Vec<String>,
    /// Devices that the executor computes on, separated by commas [default: those in its Dockerfile]
    #[arg(long, value_name = "cpu,cuda", value_delimiter = ',')]
    devices: Vec<String>,
    /// Build argument for the Dockerfile, such as BASE=IMAGE; can be given several times
    #[arg(long = "build-arg", value_name = "NAME=VALUE", value_parser = pair)]
    build_args: Vec<(String, String)>,
    #[command(flatten)]
    place: Where,
}

/// What is to be built.
struct Draft {
    /// The executor, as people write its name.
    title: String,
    labels: Labels,
    tar: Vec<u8>,
}

pub(super) async fn run(push: Push, shell: &Shell) -> anyhow::Result<Exit> {
    let place = push.place.place(shell)?;
    let mut draft = match (&push.path, &push.image) {
        (Some(path), _) => of_folder(path, &push, shell)?,
        (None, Some(image)) => of_image(image, &push)?,
        (None, None) => anyhow::bail!("neither a folder nor an image was named"),
    };
    let names = names(&draft.title, &push.tags)?;
    describe(&mut draft, &push, &names[0]);
    let engine = place::engine(shell).await?;
    let images: Vec<String> = names.iter().map(|name| name.image(&place.hub)).collect();
    build(&engine, draft, &push.build_args, &images[0]).await?;
    for image in &images[1..] {
        engine.tag(&images[0], image).await?;
    }
    for image in &images {
        send(&engine, &place, image, shell).await?;
    }
    tell(&names)
}

/// A build from an executor's folder.
fn of_folder(path: &Path, push: &Push, shell: &Shell) -> anyhow::Result<Draft> {
    let shown = path.display();
    let has_dockerfile = path.join(DOCKERFILE).is_file();
    let found = folder::look(path, &[Path::new("")], shell, &|_| {});
    if !has_dockerfile && !matches!(found, Ok(Found::Python(_))) {
        return Err(BadUsage(format!(
            "`{shown}` holds no `{DOCKERFILE}`: `flow new executor --dockerfile cpu` writes one"
        ))
        .into());
    }
    let found = found.with_context(|| BadUsage(format!("`{shown}` is no executor's folder")))?;
    let (config, placed) = match found {
        Found::Package { manifest, config } => {
            let placed = program(&manifest, &folder::name(&config), shell)?;
            (config, Some(placed))
        }
        Found::Named(config) => (config, None),
        Found::Python(file) => {
            let missing = (!has_dockerfile).then(|| Placed::dockerfile(python::dockerfile(&file)));
            (folder::load(&file, shell)?, missing)
        }
        Found::Program(_) => return Err(BadUsage(format!("`{shown}` is no folder")).into()),
    };
    let mut labels = Labels::of_metas(&config.metas);
    if !config.is_python {
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
        .with_context(|| BadUsage(format!("what is `{shown}` called? say it with `--name`")))?;
    Ok(Draft {
        title: title.to_owned(),
        tar: archive::of(path, placed.as_ref())?,
        labels,
    })
}

/// The program of a package, built, and where its Dockerfile looks for it.
fn program(manifest: &Path, name: &str, shell: &Shell) -> anyhow::Result<Placed> {
    let from = package::build(manifest, name, shell)?;
    let program = from.file_name().unwrap_or_default().to_string_lossy();
    Ok(Placed {
        to: format!("target/release/{program}"),
        content: Content::Of(from),
    })
}

/// An image that is there, under another name and with more to say.
fn of_image(image: &str, push: &Push) -> anyhow::Result<Draft> {
    let tar = archive::of_dockerfile(&format!("FROM {image}\n"));
    Ok(Draft {
        title: push.name.clone().unwrap_or_else(|| image.to_owned()),
        labels: Labels::default(),
        tar: tar.with_context(|| format!("cannot pack `{image}`"))?,
    })
}

/// One name for each tag; there is one at least.
fn names(title: &str, tags: &[String]) -> anyhow::Result<Vec<HubName>> {
    let given = tags.iter().map(String::as_str);
    let or_default = tags.is_empty().then_some(TAG_DEFAULT);
    given
        .chain(or_default)
        .map(|tag| HubName::new(title, Some(tag)))
        .collect::<Result<_, _>>()
        .map_err(|error| BadUsage(error.to_string()).into())
}

/// What was typed counts before what the folder says.
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
    let labels: HashMap<String, String> = draft.labels.0.into_iter().collect();
    let arguments: HashMap<String, String> = arguments.iter().cloned().collect();
    let options = BuildImageOptionsBuilder::default()
        .t(image)
        .labels(&labels)
        .buildargs(&arguments)
        .rm(true)
        .forcerm(true);
    let mut printed = Printed::default();
    let shown = |step| printed.show(&step);
    engine
        .build(options.build(), draft.tar.into(), shown)
        .await?;
    Ok(())
}

async fn send(engine: &Engine, place: &Place, image: &str, shell: &Shell) -> anyhow::Result<()> {
    let credentials = login::credentials(&place.host, shell)?;
    let mut layers = Layers::new(&format!("sending {image}"));
    engine
        .push(image, credentials, |step| layers.show(step))
        .await?;
    drop(layers);
    output::line(&format!("{image} is in the hub"))?;
    Ok(())
}

/// The next step, to be copied.
fn tell(names: &[HubName]) -> anyhow::Result<Exit> {
    let name = &names[0];
    let (repository, tag) = (name.repository(), name.tag());
    output::line(&format!(
        "use it in a flow: `uses: hub://{repository}:{tag}`"
    ))?;
    Ok(Exit::Fine)
}

fn pair(text: &str) -> Result<(String, String), String> {
    let pair = text.split_once('=').filter(|(name, _)| !name.is_empty());
    let (name, value) = pair.ok_or("write NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}
