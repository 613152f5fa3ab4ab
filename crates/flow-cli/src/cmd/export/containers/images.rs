//! The flow file of an export, and the images that run it.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use flow_launch::render::{self, ExportOptions};
use flow_spec::{Plan, Run, Uses};
use indexmap::IndexMap;

use super::needs::needs;
use super::value::node_value;
use crate::builtin::BUILTIN;
use crate::flow_file::{self, ReadOptions};
use crate::output;
use crate::resolve::resolve_uses_unbuilt;
use crate::shell::Shell;

/// The image that `docker/Dockerfile` builds, of the same version as this program.
const IMAGE: &str = concat!("flow:", env!("CARGO_PKG_VERSION"));

/// Options of every export.
#[derive(Debug, Args)]
pub(super) struct Images {
    /// Flow file to export
    #[arg(value_name = "FLOW.yml")]
    pub(super) file: PathBuf,
    #[command(flatten)]
    options: ReadOptions,
    /// Image of flow, for the gateway and the built-in executors
    #[arg(long, value_name = "IMAGE", default_value = IMAGE, help_heading = "Images")]
    image_gateway: String,
    /// Image of an executor, whose entrypoint takes the options of `flow executor`; can be given several times
    #[arg(long, value_name = "NODE=IMAGE", value_parser = node_value::<String>, help_heading = "Images")]
    image: Vec<(String, String)>,
    /// Time for requests in progress to finish when a container stops, such as 10s or 1m
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration, default_value = "10s")]
    grace: Duration,
}

impl Images {
    /// Reads the flow file. `devices` is the number of CUDA devices of the machine, if it is known.
    pub(super) fn read(
        &self,
        devices: Option<u16>,
        shell: &Shell,
    ) -> anyhow::Result<(Plan, ExportOptions)> {
        let checked = flow_file::load_to_export(&self.file, self.options, shell)?;
        flow_file::warn(&self.file, &checked, shell);
        let mut plan = Plan::from(checked.flow);
        let images: IndexMap<_, _> = self.image.iter().cloned().collect();
        replace_paths(&mut plan, &images);
        resolve_uses_unbuilt(&mut plan, &self.file, shell)?;
        let text = |part: Option<&std::ffi::OsStr>| {
            part.unwrap_or_default().to_string_lossy().into_owned()
        };
        let stem = || text(self.file.file_stem());
        let target = ExportOptions {
            flow: plan.name.clone().unwrap_or_else(stem),
            source: text(self.file.file_name()),
            needs: needs(&plan, shell),
            image: self.image_gateway.clone(),
            images,
            built_in: BUILTIN.iter().map(|it| it.name.to_owned()).collect(),
            grace: self.grace,
            devices,
        };
        Ok((plan, target))
    }

    /// Prints how flow's own image is built, unless the user has named one.
    pub(super) fn print_build_commands(&self) -> std::io::Result<()> {
        if self.image_gateway != IMAGE {
            return Ok(());
        }
        let commands = render::build_commands(IMAGE);
        output::line(&format!(
            "build the image {IMAGE} in a checkout of flow, or name another with `--image-gateway`:\n  {commands}"
        ))
    }
}

/// Replaces the paths of executors that have an image: they need not be on this machine.
fn replace_paths(plan: &mut Plan, images: &IndexMap<String, String>) {
    for node in &mut plan.nodes {
        if let Run::Local(run) = &mut node.run
            && let Uses::Path(path) = &run.uses
            && images.contains_key(node.name.as_str())
        {
            run.uses = Uses::Named(path.display().to_string());
        }
    }
}
