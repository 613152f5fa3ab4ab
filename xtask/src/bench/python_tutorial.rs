//! Benchmark: the cost of serving an executor in Python that really computes: the tutorial with sentence-transformers.
//!
//! The same script, with the same executor, runs on our runtime (`flow python`) and on stock Jina. Beside them the model
//! encodes the same sentences without a flow.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

use crate::bench::ours;
use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};
use crate::bench::tutorial::seconds;
use crate::statistics::median;
use crate::{setup, shell};

const ROW: &str = "10,000 documents, request_size 32";
const ALONE: &str = "sentence-transformers alone";
const FLOW: &str = "flow";
const JINA: &str = "Jina 3.27";

/// Serving may cost this share of the model's own time.
const BAR: f64 = 0.03;

/// The script with the executor, and the one without a flow.
const SCRIPT: &str = "tests/load/jina_tutorial.py";
const SCRIPT_ALONE: &str = "tests/load/encode_alone.py";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let Some(torch) = setup::interpreter("torch") else {
        eprintln!("python-tutorial is left out: run `cargo xtask setup --only torch` for it");
        return Ok(());
    };
    let systems = commands(bench, torch, report)?;
    let mut table = Table::new(systems.iter().map(|(name, _)| *name), "seconds");
    for round in 0..bench.rounds {
        for (name, command) in &systems {
            let time = seconds(&shell::output(&mut command())?)?;
            eprintln!("python-tutorial · {name} · round {round}: {time:.2} s");
            table.add(ROW, name, time);
        }
    }
    report.write("python-tutorial", &table, &verdict(&table))
}

type MakeCommand = Box<dyn Fn() -> Command>;

/// The systems, and how each is run.
fn commands(
    bench: &Bench,
    torch: PathBuf,
    report: &Report,
) -> anyhow::Result<Vec<(&'static str, MakeCommand)>> {
    let model = setup::folder().join("model");
    let mut systems = Vec::new();
    if bench.has(System::Bare) {
        systems.push((ALONE, script(torch.clone(), SCRIPT_ALONE, model.clone())));
    }
    if bench.has(System::Flow) {
        systems.push((FLOW, on_flow(torch, model.clone(), report)?));
    }
    if let Some(python) = bench.jina_with_encoder()? {
        systems.push((JINA, script(python, SCRIPT, model)));
    }
    Ok(systems)
}

fn script(python: PathBuf, script: &'static str, model: PathBuf) -> MakeCommand {
    Box::new(move || {
        let mut command = Command::new(&python);
        command.arg(ours::root(script)).arg(&model);
        command
    })
}

/// `flow python` with the interpreter that has sentence-transformers, which finds our package in a folder of its own.
fn on_flow(torch: PathBuf, model: PathBuf, report: &Report) -> anyhow::Result<MakeCommand> {
    let packages = setup::site_packages(&setup::install_release_package()?)?;
    let folder = report.scratch("flow_serve_alone");
    fs::create_dir_all(&folder)?;
    let link = folder.join("flow_serve");
    if !link.exists() {
        symlink(packages.join("flow_serve"), link)?;
    }
    Ok(Box::new(move || {
        let mut command = ours::program("flow");
        command
            .arg("python")
            .arg(ours::root(SCRIPT))
            .arg(&model)
            .env("FLOW_PYTHON", &torch)
            .env("FLOW_PYTHON_RUNTIME", "flow")
            .env("PYTHONPATH", &folder);
        command
    }))
}

fn verdict(table: &Table) -> String {
    let time = |system| table.values(ROW, system).map(median);
    let more = |system| Some((time(system)? / time(ALONE)? - 1.0) * 100.0);
    let Some(flow) = more(FLOW) else {
        return String::new();
    };
    let jina = more(JINA).map_or_else(String::new, |jina| format!(", Jina {jina:+.1} %"));
    let bar = BAR * 100.0;
    format!("The bar: at most {bar:.0} % over the model alone; flow takes {flow:+.1} %{jina}.\n")
}
