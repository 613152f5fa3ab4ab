//! `flow export docker-compose` and `flow export kubernetes`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flow_launch::render::{self, Rendered, RenderedFile, Target};
use flow_spec::{Plan, Run, Uses};
use indexmap::IndexMap;

use super::options::{FromSecret, Scaled, Sized, label, named};
use crate::builtin::BUILTIN;
use crate::cmd::up::{uses, volumes};
use crate::exit::{BadUsage, Exit};
use crate::flow_file;
use crate::output::{self, Colour, Painter};
use crate::shell::Shell;

/// The image that `docker/Dockerfile` makes, of the same version as this program.
const IMAGE: &str = concat!("flow:", env!("CARGO_PKG_VERSION"));

/// How many devices there are, where nobody is told by an option; `flow up` reads it too.
const DEVICES: &str = "CUDA_TOTAL_DEVICES";

pub(super) const COMPOSE_EXAMPLES: &str = "\
EXAMPLES:
  flow export docker-compose flows/encode.yml docker-compose.yml
  flow export docker-compose flows/encode.yml - --image-gateway registry.example.com/flow:1
  flow export docker-compose mine.yml docker-compose.yml --image ranker=registry.example.com/ranker:3";

pub(super) const KUBERNETES_EXAMPLES: &str = "\
EXAMPLES:
  flow export kubernetes flows/encode.yml k8s --namespace search
  flow export kubernetes flows/encode.yml k8s --namespace search \\
      --resources encoder=cpu:4,memory:2Gi --autoscale encoder=2..8
  kubectl apply -R -f k8s";

/// Options of `flow export docker-compose`.
#[derive(Debug, Args)]
pub(crate) struct Compose {
    #[command(flatten)]
    images: Images,
    /// The file to write; `-` is standard output
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// CUDA devices of the machine, for `CUDA_VISIBLE_DEVICES: RR`
    #[arg(long, value_name = "N")]
    devices: Option<u16>,
}

/// Options of `flow export kubernetes`.
#[derive(Debug, Args)]
pub(crate) struct Kubernetes {
    #[command(flatten)]
    images: Images,
    /// The folder to write into
    #[arg(value_name = "OUT_DIR")]
    out: PathBuf,
    /// Namespace of everything
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Scale an executor, or the gateway, by its CPU time, which should be 80 % or @PERCENT of what it
    /// asks for
    #[arg(long, value_name = "NODE=MIN..MAX[@PERCENT]", value_parser = named::<Scaled>)]
    autoscale: Vec<(String, Scaled)>,
    /// What each pod of an executor, or of the gateway, is sure to get; more memory it never gets
    #[arg(long, value_name = "NODE=cpu:N,memory:SIZE", value_parser = named::<Sized>)]
    resources: Vec<(String, Sized)>,
    /// Size of each workspace's volume
    #[arg(long, value_name = "SIZE", default_value = "10Gi")]
    storage: String,
    /// Storage class of these volumes, unless the cluster's own default
    #[arg(long, value_name = "NAME")]
    storage_class: Option<String>,
    /// Secret to pull images with
    #[arg(long, value_name = "SECRET")]
    pull_secret: Vec<String>,
    /// A variable of an executor, or of the gateway, whose value a Secret of the cluster keeps
    #[arg(long, value_name = "NODE=VARIABLE:SECRET:KEY", value_parser = named::<FromSecret>)]
    env_from_secret: Vec<(String, FromSecret)>,
    /// An executor whose image needs root, or a disk that it can write
    #[arg(long, value_name = "NODE")]
    as_root: Vec<String>,
    /// Label by which the cluster's Prometheus chooses what it scrapes, where the flow is monitored
    #[arg(long, value_name = "LABEL=VALUE", value_parser = label)]
    monitor_label: Vec<(String, String)>,
}

/// The flow file, and what runs it.
#[derive(Debug, Args)]
struct Images {
    /// The flow file
    #[arg(value_name = "FLOW.yml")]
    file: PathBuf,
    /// Image of the program flow, for the gateway and built-in executors
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image_gateway: String,
    /// Image of one executor; its entry point takes an executor's arguments
    #[arg(long, value_name = "NODE=IMAGE", value_parser = named::<String>)]
    image: Vec<(String, String)>,
}

/// Writes the file for Docker Compose.
pub(super) fn compose(compose: &Compose, shell: &Shell) -> anyhow::Result<Exit> {
    let counted = shell.variable(DEVICES).and_then(|it| it.parse().ok());
    let (mut plan, target) = compose.images.read(compose.devices.or(counted), shell)?;
    // Compose would begin relative paths at its own file.
    volumes::resolve(&mut plan, &compose.images.file, shell)?;
    let rendered = render::compose(&plan, &target).map_err(|bad| wrong(&bad))?;
    warn(&rendered, shell);
    let texts = rendered.files.iter().map(|file| file.text.as_str());
    let text: String = texts.collect();
    if compose.out == Path::new("-") {
        output::bytes(text.as_bytes())?;
        return Ok(Exit::Fine);
    }
    write(&compose.out, &text)?;
    let out = compose.out.display();
    output::line(&format!("{out}: run it with `docker compose -f {out} up`"))?;
    Ok(Exit::Fine)
}

/// Writes the files for Kubernetes.
pub(super) fn kubernetes(kubernetes: &Kubernetes, shell: &Shell) -> anyhow::Result<Exit> {
    let (plan, target) = kubernetes.images.read(None, shell)?;
    let rendered =
        render::kubernetes(&plan, &target, &kubernetes.wanted()).map_err(|bad| wrong(&bad))?;
    warn(&rendered, shell);
    for RenderedFile { path, text } in &rendered.files {
        write(&kubernetes.out.join(path), text)?;
    }
    let (count, out) = (rendered.files.len(), kubernetes.out.display());
    output::line(&format!(
        "{out}: {count} files; apply them with `kubectl apply -R -f {out}`"
    ))?;
    Ok(Exit::Fine)
}

impl Kubernetes {
    fn wanted(&self) -> render::Kubernetes {
        let autoscale = self.autoscale.iter().cloned();
        let resources = self.resources.iter().cloned();
        let secrets = self.env_from_secret.iter().cloned();
        render::Kubernetes {
            namespace: self.namespace.clone(),
            autoscale: autoscale.map(|(node, it)| (node, it.0)).collect(),
            resources: resources.map(|(node, it)| (node, it.0)).collect(),
            storage: self.storage.clone(),
            storage_class: self.storage_class.clone(),
            pull_secrets: self.pull_secret.clone(),
            secrets: secrets.map(|(node, it)| (node, it.0)).collect(),
            as_root: self.as_root.iter().cloned().collect(),
            monitor_labels: self.monitor_label.iter().cloned().collect(),
        }
    }
}

impl Images {
    fn read(&self, devices: Option<u16>, shell: &Shell) -> anyhow::Result<(Plan, Target)> {
        let checked = flow_file::load_to_export(&self.file, shell)?;
        flow_file::warn(&self.file, &checked, shell);
        let mut plan = Plan::from(checked.flow);
        let images: IndexMap<_, _> = self.image.iter().cloned().collect();
        in_images(&mut plan, &images);
        let in_image = |node: &str| images.contains_key(node);
        uses::resolve_once(&mut plan, &self.file, shell, &in_image)?;
        let part = |part: Option<&std::ffi::OsStr>| {
            part.unwrap_or_default().to_string_lossy().into_owned()
        };
        let target = Target {
            flow: plan
                .name
                .clone()
                .unwrap_or_else(|| part(self.file.file_stem())),
            source: part(self.file.file_name()),
            image: self.image_gateway.clone(),
            images,
            built_in: BUILTIN.iter().map(|it| it.name.to_owned()).collect(),
            devices,
        };
        Ok((plan, target))
    }
}

/// What is in an image of its own need not be on this machine.
fn in_images(plan: &mut Plan, images: &IndexMap<String, String>) {
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run
            && let Uses::Path(path) = &run.uses
            && images.contains_key(node.name.as_str())
        {
            run.uses = Uses::Named(path.display().to_string());
        }
    }
}

fn wrong(bad: &render::BadExport) -> anyhow::Error {
    BadUsage(bad.to_string()).into()
}

fn warn(rendered: &Rendered, shell: &Shell) {
    let warning = Painter::stderr(shell).paint(Colour::Yellow, "warning");
    for remark in &rendered.remarks {
        output::error_line(&format!("{warning}: {remark}"));
    }
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let made = folder.map_or(Ok(()), fs::create_dir_all);
    made.and_then(|()| fs::write(path, text))
        .with_context(|| format!("cannot write `{}`", path.display()))
}
