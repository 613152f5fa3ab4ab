//! `flow bench devices`: compares the GPUs of this machine with its processor.
//!
//! The experiments are those of the book's chapter on GPUs. Each does the same work on the processor and on each GPU. Copying
//! matrices to a device is not measured, waiting for results is; the results are medians. `experiments.rs` defines the work,
//! `machine.rs` the two kinds of machines, and `verdict.rs` the conclusions. The last line is JSON.

mod experiments;
mod machine;
mod verdict;

use std::num::NonZeroUsize;

use clap::Args;
use flow_core::Chain;
use flow_cuda::GpuUnavailable;
use serde_json::json;

use self::experiments::{Experiments, Figures};
use self::machine::{Cpu, Cuda};
use crate::exit::Exit;
use crate::output::{self, Painter};
use crate::shell::Shell;
use crate::table::Table;

const EXAMPLES: &str = "\
EXAMPLES:
  flow bench devices
  flow bench devices --json
  flow bench devices --side 8192 --rounds 9

Exit codes: 0 success, 1 a device cannot compute, 2 bad usage.";

/// Options of `flow bench devices`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Devices {
    /// Number of rows and of columns of the large matrices
    #[arg(long, default_value = "2048")]
    side: NonZeroUsize,
    /// Number of small products, of matrices of 100 × 100
    #[arg(long, default_value = "1000")]
    small: NonZeroUsize,
    /// Number of times that each experiment runs
    #[arg(long, default_value = "5")]
    rounds: NonZeroUsize,
    /// Number of threads on the processor [default: one per core]
    #[arg(long)]
    threads: Option<NonZeroUsize>,
    /// Print only the JSON line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(bench: &Devices, shell: &Shell) -> anyhow::Result<Exit> {
    shell.log.start(shell.wants_colour);
    let (gpus, missing) = gpus();
    let experiments = Experiments {
        side: bench.side.get(),
        small: bench.small.get(),
        rounds: bench.rounds.get(),
    };
    let mut figures = vec![experiments.on(&Cpu::new(bench.threads))?];
    for gpu in &gpus {
        figures.push(experiments.on(gpu)?);
    }
    let pair = match &gpus[..] {
        [first, second, ..] => Some(experiments.on_two(first, second)?),
        _ => None,
    };
    let sentences = verdict::sentences(&experiments, &figures, pair.as_ref());
    if !bench.json {
        let columns = output::columns(std::io::stdout());
        let table = table(&experiments, &figures);
        output::line(&table.text(Painter::stdout(shell), columns))?;
        for sentence in sentences.iter().chain(&missing) {
            output::line(sentence)?;
        }
    }
    let line = json!({
        "side": experiments.side,
        "small": experiments.small,
        "rounds": experiments.rounds,
        "devices": figures,
        "two_gpus": pair,
        "missing": missing,
    });
    output::line(&line.to_string())?;
    Ok(Exit::Fine)
}

/// The GPUs that can be used, and why others cannot.
fn gpus() -> (Vec<Cuda>, Vec<String>) {
    let text = |error: &GpuUnavailable| Chain(error).to_string();
    let listed = flow_cuda::CudaDriver::open().and_then(|cuda| Ok((cuda.list()?, cuda)));
    let (found, cuda) = match listed {
        Ok(listed) => listed,
        Err(error) => return (Vec::new(), vec![format!("No GPU: {}.", text(&error))]),
    };
    let (mut gpus, mut missing) = (Vec::new(), Vec::new());
    for found in found {
        match cuda.device(found.number) {
            Ok(device) => gpus.push(Cuda::new(device)),
            Err(error) => missing.push(format!("Not cuda:{}: {}.", found.number, text(&error))),
        }
    }
    (gpus, missing)
}

fn table(experiments: &Experiments, figures: &[Figures]) -> Table {
    let heads = ["Experiment", "Device", "Time", "Rate", "Against cpu"].map(str::to_owned);
    let mut rows = Vec::new();
    for row in experiments::ROWS {
        for (place, of) in figures.iter().enumerate() {
            let seconds = (row.seconds)(of);
            let cpu = (row.seconds)(&figures[0]);
            let title = (row.title)(experiments);
            rows.push(vec![
                if place == 0 { title } else { String::new() },
                of.device.clone(),
                time(seconds),
                format!("{:.0} GFLOP/s", (row.flop)(experiments) / seconds / 1e9),
                format!("{:.2} ×", cpu / seconds),
            ]);
        }
    }
    Table {
        head: Some(heads.to_vec()),
        rows,
    }
}

fn time(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.1} µs", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_unit_that_suits_them() {
        assert_eq!(time(1.234), "1.23 s");
        assert_eq!(time(0.01234), "12.34 ms");
        assert_eq!(time(0.000_123_4), "123.4 µs");
    }

    #[test]
    fn the_processor_does_every_experiment_and_each_has_a_row() {
        let experiments = Experiments {
            side: 48,
            small: 3,
            rounds: 1,
        };
        let cpu = Cpu::new(NonZeroUsize::new(2));
        let figures = vec![experiments.on(&cpu).unwrap()];
        assert_eq!(figures[0].device, "cpu");
        let rows = table(&experiments, &figures).rows;
        assert_eq!(rows.len(), experiments::ROWS.len());
        assert!(rows.iter().all(|row| row[4] == "1.00 ×"), "{rows:?}");
        assert!(experiments.on_two(&cpu, &cpu).unwrap().two_gpus_s > 0.0);
    }
}
