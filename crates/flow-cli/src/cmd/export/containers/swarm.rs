//! `flow export swarm`.

mod options;

use std::num::NonZeroU16;
use std::path::PathBuf;

use clap::Args;
use flow_launch::render::{self, RenderedFile};

use self::options::{FromSecret, Published, TaskSize};
use super::files::{bad_usage, warn, write};
use super::images::Images;
use super::value::{node_value, secret};
use crate::count::count;
use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow export swarm flows/encode.yml stack --image-gateway registry.example.com/flow:1
  flow export swarm flows/encode.yml stack --gateways 2 \\
      --resources encoder=cpu:2,memory:2Gi --place encoder=node.labels.cpu==fast
  docker stack deploy -c stack/stack.yml encode

Secrets exist before the stack: `docker secret create flow-key key.pem` and
  flow export swarm flow.yml stack --secret ssl_certfile=flow-cert --secret ssl_keyfile=flow-key

Exit codes: 0 success, 1 a file cannot be written, 2 bad usage or a bad flow file.";

/// Headings of the options.
const SWARM: &str = "Swarm";
const SECURITY: &str = "Security";

/// Options of `flow export swarm`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Swarm {
    #[command(flatten)]
    images: Images,
    /// Folder to write `stack.yml` and the gateway's placement to
    #[arg(value_name = "OUT_DIR")]
    out: PathBuf,
    /// Number of gateways
    #[arg(long, value_name = "N", value_parser = count::<NonZeroU16>, default_value = "1", help_heading = SWARM)]
    gateways: NonZeroU16,
    /// How clients reach the gateways
    #[arg(long, value_enum, value_name = "HOW", default_value_t, help_heading = SWARM)]
    publish: Published,
    /// Run an executor, or `gateway`, on nodes that meet a constraint, such as `node.labels.gpu==true`
    #[arg(long, value_name = "NODE=CONSTRAINT", value_parser = node_value::<String>, help_heading = SWARM)]
    place: Vec<(String, String)>,
    /// CPUs and memory that each task of an executor, or of `gateway`, reserves; the memory is also its limit, and
    /// `cpu-limit:N` limits the CPUs [default: the memory that a built-in executor is known to need]
    #[arg(long, value_name = "NODE=cpu:N,memory:SIZE", value_parser = node_value::<TaskSize>, help_heading = SWARM)]
    resources: Vec<(String, TaskSize)>,
    /// Name by which nodes announce their GPUs, as `node-generic-resources` in their daemon.json
    #[arg(long, value_name = "NAME", default_value = "NVIDIA-GPU", help_heading = SWARM)]
    gpu_resource: String,
    /// Secret with the file that the gateway needs for `ssl_certfile`, `ssl_keyfile`, `ssl_ca_certs` or `api_keys`
    #[arg(long, value_name = "KEY=SECRET", value_parser = secret, help_heading = SECURITY)]
    secret: Vec<(String, String)>,
    /// Mount a secret, and set a variable of an executor, or of `gateway`, to the path of its file
    #[arg(long, value_name = "NODE=VARIABLE:SECRET", value_parser = node_value::<FromSecret>, help_heading = SECURITY)]
    secret_file: Vec<(String, FromSecret)>,
}

/// Writes the stack.
pub(super) fn run(swarm: &Swarm, shell: &Shell) -> anyhow::Result<Exit> {
    let (plan, target) = swarm.images.read(None, shell)?;
    let rendered = render::swarm(&plan, &target, &swarm.settings());
    let rendered = rendered.map_err(|error| bad_usage(&error))?;
    warn(&rendered, shell);
    for RenderedFile { path, text } in &rendered.files {
        write(&swarm.out.join(path), text)?;
    }
    let (out, name) = (swarm.out.display(), render::stack_name(&target));
    output::line(&format!(
        "{out}: run it with `docker stack deploy -c {out}/stack.yml {name}`"
    ))?;
    swarm.images.print_build_commands()?;
    Ok(Exit::Fine)
}

impl Swarm {
    fn settings(&self) -> render::Swarm {
        let resources = self.resources.iter().cloned();
        let files = self.secret_file.iter().cloned();
        render::Swarm {
            gateways: self.gateways,
            publish: self.publish.into(),
            constraints: self.place.clone(),
            resources: resources.map(|(node, it)| (node, it.0)).collect(),
            secrets: self.secret.iter().cloned().collect(),
            secret_files: files.map(|(node, it)| (node, it.0)).collect(),
            gpu_resource: self.gpu_resource.clone(),
        }
    }
}
