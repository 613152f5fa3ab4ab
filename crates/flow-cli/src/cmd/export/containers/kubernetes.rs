//! `flow export kubernetes`.

use std::path::PathBuf;

use clap::Args;
use flow_launch::render::{self, RenderedFile};

use super::earlier;
use super::files::{bad_usage, warn, write};
use super::images::Images;
use super::objects::{CLUSTER, DEFAULT_NAMESPACE, Objects};
use crate::exit::Exit;
use crate::output;
use crate::shell::Shell;

const EXAMPLES: &str = "\
EXAMPLES:
  flow export kubernetes flows/encode.yml k8s --namespace search
  flow export kubernetes flows/encode.yml k8s --namespace search \\
      --gateways 2 --resources encoder=cpu:4,memory:2Gi --autoscale encoder=2..8
  kubectl apply -R -f k8s

Secrets with the files of the gateway are in the namespace already, such as those that cert-manager makes:
  flow export kubernetes flow.yml k8s --secret ssl_certfile=gateway-tls --secret api_keys=flow-keys

A file of an earlier export of the same flow file that this one does not write is removed from OUT_DIR.

Exit codes: 0 success, 1 a file cannot be written, 2 bad usage or a bad flow file.";

/// Options of `flow export kubernetes`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Kubernetes {
    #[command(flatten)]
    images: Images,
    /// Folder to write to
    #[arg(value_name = "OUT_DIR")]
    out: PathBuf,
    /// Namespace of all objects; the export creates it, unless it is `default`
    #[arg(long, value_name = "NAME", default_value = DEFAULT_NAMESPACE, help_heading = CLUSTER)]
    namespace: String,
    /// Do not create the namespace
    #[arg(long, help_heading = CLUSTER)]
    existing_namespace: bool,
    #[command(flatten)]
    objects: Objects,
}

/// Writes the files for Kubernetes.
pub(super) fn run(kubernetes: &Kubernetes, shell: &Shell) -> anyhow::Result<Exit> {
    let (plan, target) = kubernetes.objects.read(&kubernetes.images, shell)?;
    let settings = render::Kubernetes {
        namespace: kubernetes.namespace.clone(),
        has_namespace: kubernetes.existing_namespace,
        ..kubernetes.objects.settings()
    };
    let rendered = render::kubernetes(&plan, &target, &settings);
    let rendered = rendered.map_err(|error| bad_usage(&error))?;
    warn(&rendered, shell);
    let replaced = earlier::marker(&kubernetes.out, "kubernetes");
    for RenderedFile { path, text } in &rendered.files {
        write(&kubernetes.out.join(path), text)?;
    }
    let (count, out) = (rendered.files.len(), kubernetes.out.display());
    for path in earlier::remove(&kubernetes.out, &rendered, replaced.as_deref())? {
        let path = path.display();
        output::line(&format!(
            "{path}: removed, the flow no longer has this part"
        ))?;
    }
    output::line(&format!(
        "{out}: {count} files; apply them with `kubectl apply -R -f {out}`"
    ))?;
    kubernetes.images.print_build_commands()?;
    Ok(Exit::Fine)
}
