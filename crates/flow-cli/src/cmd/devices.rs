//! `flow devices`: lists the devices of this machine, and whether this program can use them.

pub(super) mod gpus;
mod processor;

use clap::Args;
use serde::Serialize;

use self::gpus::{Gpu, Gpus};
use self::processor::Processor;
use crate::exit::Exit;
use crate::output::{self, Painter};
use crate::shell::Shell;
use crate::table::Table;

const EXAMPLES: &str = "\
EXAMPLES:
  flow devices
  flow devices --json

GPUs are numbered as CUDA numbers them, so CUDA_VISIBLE_DEVICES and CUDA_DEVICE_ORDER apply.

Exit codes: 0 success, 1 failure, 2 bad usage.";

/// Options of `flow devices`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Devices {
    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// All devices.
#[derive(Debug, Serialize)]
struct Listing {
    cpu: Processor,
    gpus: Vec<Gpu>,
    /// Why there are no GPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    no_gpus: Option<String>,
}

pub(crate) fn run(devices: &Devices, shell: &Shell) -> anyhow::Result<Exit> {
    let (gpus, no_gpus) = match gpus::look() {
        Gpus::Found(gpus) => (gpus, None),
        Gpus::None(why) => (Vec::new(), Some(why)),
    };
    let listing = Listing {
        cpu: processor::look(),
        gpus,
        no_gpus,
    };
    if devices.json {
        output::line(&serde_json::to_string(&listing)?)?;
    } else {
        let columns = output::columns(std::io::stdout());
        output::line(&table(&listing).text(Painter::stdout(shell), columns))?;
        if let Some(why) = &listing.no_gpus {
            output::line(&format!("No GPU: {why}."))?;
        }
    }
    Ok(Exit::Fine)
}

fn table(listing: &Listing) -> Table {
    let heads = ["Device", "Name", "Size", "Can do", "Usable"];
    let gpus = listing.gpus.iter().map(Gpu::row);
    Table {
        head: Some(heads.map(str::to_owned).to_vec()),
        rows: [listing.cpu.row()].into_iter().chain(gpus).collect(),
    }
}
