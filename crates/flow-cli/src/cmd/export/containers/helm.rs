//! `flow export helm`.

use std::path::PathBuf;

use clap::Args;
use flow_launch::render::{self, Rendered, RenderedFile};

use super::earlier;
use super::files::{bad_usage, warn, write};
use super::images::Images;
use super::objects::Objects;
use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow export helm flows/encode.yml chart --image-gateway registry.example.com/flow:1
  flow export helm flows/encode.yml chart --gateways 2 \\
      --resources encoder=cpu:4,memory:2Gi --autoscale encoder=2..8
  helm install encode chart --namespace search --create-namespace --set pods.gateway.replicas=3

The chart is what `flow export kubernetes` writes with the same options. Its values.yaml has what can be set: images, replicas,
resources, bounds of autoscalers, sizes of volumes, names of Secrets, hosts.

Exit codes: 0 success, 1 a file cannot be written, 2 bad usage or a bad flow file.";

/// The folder of a chart's templates.
const TEMPLATES: &str = "templates";

/// Options of `flow export helm`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Helm {
    #[command(flatten)]
    images: Images,
    /// Folder to write to
    #[arg(value_name = "OUT_DIR")]
    out: PathBuf,
    #[command(flatten)]
    objects: Objects,
}

/// Writes the chart.
pub(super) fn run(helm: &Helm, shell: &Shell) -> anyhow::Result<Exit> {
    let (plan, target) = helm.objects.read(&helm.images, shell)?;
    let rendered = render::helm(&plan, &target, &helm.objects.settings());
    let rendered = rendered.map_err(|error| bad_usage(&error))?;
    warn(&rendered, shell);
    let templates = helm.out.join(TEMPLATES);
    let replaced = earlier::marker(&templates, "helm");
    for RenderedFile { path, text } in &rendered.files {
        write(&helm.out.join(path), text)?;
    }
    for path in earlier::remove(&templates, &below_templates(&rendered), replaced.as_deref())? {
        let path = path.display();
        output::line(&format!(
            "{path}: removed, the flow no longer has this part"
        ))?;
    }
    let out = helm.out.display();
    output::line(&format!(
        "{out}: a chart; install it with `helm install NAME {out}`"
    ))?;
    helm.images.print_build_commands()?;
    Ok(Exit::Fine)
}

/// The templates, with their paths below their folder.
fn below_templates(rendered: &Rendered) -> Rendered {
    let template = |file: &RenderedFile| {
        let path = file.path.strip_prefix(TEMPLATES).ok()?.to_owned();
        Some(RenderedFile {
            path,
            text: file.text.clone(),
        })
    };
    Rendered {
        files: rendered.files.iter().filter_map(template).collect(),
        remarks: Vec::new(),
    }
}
