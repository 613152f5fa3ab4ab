//! `flow export docker-compose`.

use std::path::{Path, PathBuf};

use clap::Args;
use flow_launch::render;

use super::files::{bad_usage, warn, write};
use super::images::Images;
use crate::escape::escape;
use crate::exit::Exit;
use crate::output;
use crate::resolve::resolve_folders;
use crate::shell::Shell;

/// Number of CUDA devices where no option says it; `flow up` reads it too.
const DEVICES: &str = "CUDA_TOTAL_DEVICES";

const EXAMPLES: &str = "\
EXAMPLES:
  flow export docker-compose flows/encode.yml docker-compose.yml
  flow export docker-compose flows/encode.yml - --image-gateway registry.example.com/flow:1
  flow export docker-compose mine.yml docker-compose.yml \\
      --image ranker=registry.example.com/ranker:3

Exit codes: 0 success, 1 a file cannot be written, 2 bad usage or a bad flow file.";

/// Options of `flow export docker-compose`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
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

/// The path of the flow file from here, or as it was given.
fn source(file: &Path) -> String {
    let from_here = || {
        let here = std::env::current_dir().ok()?.canonicalize().ok()?;
        Some(
            file.canonicalize()
                .ok()?
                .strip_prefix(here)
                .ok()?
                .to_owned(),
        )
    };
    let path = from_here().unwrap_or_else(|| file.to_owned());
    escape(&path.to_string_lossy()).into_owned()
}

/// Writes the file for Docker Compose.
pub(super) fn run(compose: &Compose, shell: &Shell) -> anyhow::Result<Exit> {
    let counted = shell.variable(DEVICES).and_then(|it| it.parse().ok());
    let (mut plan, mut target) = compose.images.read(compose.devices.or(counted), shell)?;
    target.source = source(&compose.images.file);
    // Compose resolves relative paths from its own file.
    resolve_folders(&mut plan, &compose.images.file, shell)?;
    let rendered = render::compose(&plan, &target).map_err(|error| bad_usage(&error))?;
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
    compose.images.print_build_commands()?;
    Ok(Exit::Fine)
}
