//! `flow export docker-compose` and `flow export kubernetes`.

use std::fs;
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use flow_launch::render::{self, Needs, Rendered, RenderedFile, Target};
use flow_spec::{Plan, Run, Uses};
use indexmap::IndexMap;

use super::earlier;
use super::options::{CacheKind, FromSecret, Scaled, Sized, label, named};
use crate::builtin::{self, BUILTIN};
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
  flow export docker-compose mine.yml docker-compose.yml \\
      --image ranker=registry.example.com/ranker:3";

pub(super) const KUBERNETES_EXAMPLES: &str = "\
EXAMPLES:
  flow export kubernetes flows/encode.yml k8s --namespace search
  flow export kubernetes flows/encode.yml k8s --namespace search \\
      --gateways 2 --resources encoder=cpu:4,memory:2Gi --autoscale encoder=2..8
  kubectl apply -R -f k8s

A file of an earlier export of the same flow file that this one does not write is removed from OUT_DIR.";

/// Options of `flow export docker-compose`.
#[derive(Debug, Args)]
pub(crate) struct Compose {
    #[command(flatten)]
    images: Images,
    /// File to write; `-` writes to standard output
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Number of CUDA devices of the machine, for `CUDA_VISIBLE_DEVICES: RR` [default: $CUDA_TOTAL_DEVICES]
    #[arg(long, value_name = "N")]
    devices: Option<u16>,
}

/// Options of `flow export kubernetes`.
#[derive(Debug, Args)]
pub(crate) struct Kubernetes {
    #[command(flatten)]
    images: Images,
    /// Folder to write to
    #[arg(value_name = "OUT_DIR")]
    out: PathBuf,
    /// Namespace of all objects; the export creates it, unless it is `default`
    #[arg(long, value_name = "NAME", default_value = "default")]
    namespace: String,
    /// Do not create the namespace
    #[arg(long)]
    existing_namespace: bool,
    /// Number of gateways
    #[arg(long, value_name = "N", default_value = "1")]
    gateways: NonZeroU16,
    /// Scale an executor, or `gateway`, between MIN and MAX replicas so that it uses PERCENT of the CPU time
    /// that it requests [default percent: 80]
    #[arg(long, value_name = "NODE=MIN..MAX[@PERCENT]", value_parser = named::<Scaled>)]
    autoscale: Vec<(String, Scaled)>,
    /// CPU and memory that each pod of an executor, or of `gateway`, requests; the memory is also its limit
    /// [default: 250m of CPU, and the memory that a built-in executor is known to need]
    #[arg(long, value_name = "NODE=cpu:N,memory:SIZE", value_parser = named::<Sized>)]
    resources: Vec<(String, Sized)>,
    /// Size of the volume of each workspace
    #[arg(long, value_name = "SIZE", default_value = "10Gi")]
    storage: String,
    /// Where executors keep the models that they download
    #[arg(long, value_enum, value_name = "KIND", default_value_t)]
    cache: CacheKind,
    /// Size of each volume for downloaded models
    #[arg(long, value_name = "SIZE", default_value = "5Gi")]
    cache_size: String,
    /// Storage class of the volumes [default: the cluster's own]
    #[arg(long, value_name = "NAME")]
    storage_class: Option<String>,
    /// Secret with the credentials to pull images; can be given several times
    #[arg(long, value_name = "SECRET")]
    pull_secret: Vec<String>,
    /// Set an environment variable of an executor, or of `gateway`, from a key of a Secret
    #[arg(long, value_name = "NODE=VARIABLE:SECRET:KEY", value_parser = named::<FromSecret>)]
    env_from_secret: Vec<(String, FromSecret)>,
    /// Let an executor run as root and write to its root filesystem, if its image needs that
    #[arg(long, value_name = "NODE")]
    as_root: Vec<String>,
    /// Label of the ServiceMonitor, by which the cluster's Prometheus selects what it scrapes
    #[arg(long, value_name = "LABEL=VALUE", value_parser = label)]
    monitor_label: Vec<(String, String)>,
}

/// The flow file, and what runs it.
#[derive(Debug, Args)]
struct Images {
    /// Flow file to export
    #[arg(value_name = "FLOW.yml")]
    file: PathBuf,
    /// Image of flow, for the gateway and the built-in executors
    #[arg(long, value_name = "IMAGE", default_value = IMAGE)]
    image_gateway: String,
    /// Image of an executor, whose entrypoint takes the options of `flow executor`
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
    compose.images.explain()?;
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
    for path in earlier::remove(&kubernetes.out, &rendered)? {
        let path = path.display();
        output::line(&format!(
            "{path}: removed, the flow has no such part any more"
        ))?;
    }
    output::line(&format!(
        "{out}: {count} files; apply them with `kubectl apply -R -f {out}`"
    ))?;
    kubernetes.images.explain()?;
    Ok(Exit::Fine)
}

impl Kubernetes {
    fn wanted(&self) -> render::Kubernetes {
        let autoscale = self.autoscale.iter().cloned();
        let resources = self.resources.iter().cloned();
        let secrets = self.env_from_secret.iter().cloned();
        render::Kubernetes {
            namespace: self.namespace.clone(),
            has_namespace: self.existing_namespace,
            gateways: self.gateways,
            autoscale: autoscale.map(|(node, it)| (node, it.0)).collect(),
            resources: resources.map(|(node, it)| (node, it.0)).collect(),
            storage: self.storage.clone(),
            storage_class: self.storage_class.clone(),
            cache: self.cache.into(),
            cache_size: self.cache_size.clone(),
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
        uses::resolve_unbuilt(&mut plan, &self.file, shell)?;
        let part = |part: Option<&std::ffi::OsStr>| {
            part.unwrap_or_default().to_string_lossy().into_owned()
        };
        let target = Target {
            flow: plan
                .name
                .clone()
                .unwrap_or_else(|| part(self.file.file_stem())),
            source: part(self.file.file_name()),
            needs: needs(&plan, shell),
            image: self.image_gateway.clone(),
            images,
            built_in: BUILTIN.iter().map(|it| it.name.to_owned()).collect(),
            devices,
        };
        Ok((plan, target))
    }

    /// Says where flow's own image comes from, unless the user has named one.
    fn explain(&self) -> std::io::Result<()> {
        if self.image_gateway != IMAGE {
            return Ok(());
        }
        let commands = render::build_commands(IMAGE);
        output::line(&format!(
            "the image {IMAGE} is built in a checkout of flow, or named with `--image-gateway`:\n  {commands}"
        ))
    }
}

/// What the processes of built-in executors need, by the names that `--image` knows.
fn needs(plan: &Plan, shell: &Shell) -> IndexMap<String, Needs> {
    let mut needs = IndexMap::new();
    let no_options = serde_json::Map::new();
    for node in &plan.nodes {
        let Run::Local(run) = &node.run else { continue };
        let name = &node.name;
        let before = run.before.as_ref();
        let before = before.map(|uses| (format!("{name}-uses-before"), uses, &no_options));
        let after = run.after.as_ref();
        let after = after.map(|uses| (format!("{name}-uses-after"), uses, &no_options));
        let own = (name.to_string(), &run.uses, &run.with);
        for (key, uses, with) in [Some(own), before, after].into_iter().flatten() {
            if let Uses::Named(uses) = uses
                && let Some(builtin) = builtin::find(uses)
            {
                needs.insert(key, (builtin.needs)(with, shell));
            }
        }
    }
    needs
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
