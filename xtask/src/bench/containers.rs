//! Benchmark: the cost of a container: the tutorial's 10,000 documents through an executor that does nothing, as a
//! process, in a container whose port is published, and in one with the machine's own network.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::Context;

use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};
use crate::bench::{corpus, ours};
use crate::shell;
use crate::statistics::median;

const DOCS: usize = 10_000;

/// A container may take so much of a process's time.
const BAR: f64 = 1.1;

const ROW: &str = "10,000 documents, request_size 32, echo";
const PROCESS: &str = "process";
const PUBLISHED: &str = "container";
const HOST: &str = "container, host network";

const IMAGE: &str = "flow-bench-echo";

/// What a dynamically linked program of ours needs; there is no registry to take a base from.
const LIBRARIES: &[&str] = &[
    "/lib64/ld-linux-x86-64.so.2",
    "/lib/x86_64-linux-gnu/libc.so.6",
    "/lib/x86_64-linux-gnu/libm.so.6",
    "/lib/x86_64-linux-gnu/libgcc_s.so.1",
];

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    if !bench.has(System::Flow) {
        return Ok(());
    }
    if shell::output(Command::new("docker").arg("info")).is_err() {
        eprintln!("containers: there is no Docker engine, so nothing is measured");
        return Ok(());
    }
    make_image(&report.scratch("image"))?;
    let docs = report.scratch("docs.jsonl");
    corpus::write_tutorial(&docs, DOCS)?;
    let image = format!("uses: 'docker://{IMAGE}'");
    let kinds = [
        (PROCESS, "uses: echo".to_owned()),
        (PUBLISHED, image.clone()),
        (HOST, format!("{image}, force_network_mode: HOST")),
    ];
    let mut flows = Vec::new();
    for (number, (column, uses)) in kinds.iter().enumerate() {
        let file = report.scratch(&format!("containers-{number}.yml"));
        let text = format!("jtype: Flow\nexecutors: [{{name: echo, {uses}}}]\n");
        fs::write(&file, text)?;
        let file = file.to_str().context("a path that is not valid Unicode")?;
        flows.push((*column, ours::up(file)?));
    }
    let mut table = Table::new([PROCESS, PUBLISHED, HOST], "seconds");
    // The first round warms up.
    for round in 0..=bench.rounds {
        for (column, flow) in &flows {
            let seconds = post(flow, &docs, report)?;
            if round > 0 {
                table.add(ROW, column, seconds);
            }
        }
    }
    report.write("containers", &table, &verdict(&table))
}

/// An image of the program, its libraries, and nothing else.
fn make_image(folder: &Path) -> anyhow::Result<()> {
    drop(fs::remove_dir_all(folder));
    let program = ours::program("flow").get_program().to_owned();
    let files = LIBRARIES.iter().map(|it| ((*it).into(), *it));
    for (from, inside) in files.chain([(program, "/bin/flow")]) {
        let copy = folder.join(inside.trim_start_matches('/'));
        fs::create_dir_all(copy.parent().context("every file lies in a folder")?)?;
        let from = fs::canonicalize(Path::new(&from));
        let from = from.with_context(|| format!("there is no `{inside}` here"))?;
        fs::copy(from, copy)?;
    }
    let tar = folder.with_extension("tar");
    let mut pack = Command::new("tar");
    shell::output(pack.arg("-C").arg(folder).arg("-cf").arg(&tar).arg("."))?;
    let entrypoint = r#"ENTRYPOINT ["/bin/flow", "executor", "--uses", "echo"]"#;
    let mut import = Command::new("docker");
    import.args(["import", "--change", entrypoint]);
    import.args(["--change", "LABEL dev.flow.wire=1"]);
    shell::output(import.arg(&tar).arg(IMAGE))?;
    Ok(())
}

/// Seconds from the start of `flow post` to its end.
fn post(flow: &ours::Flow, docs: &Path, report: &Report) -> anyhow::Result<f64> {
    let mut command = ours::post(flow, docs, &report.scratch("out.jsonl"));
    let started = Instant::now();
    shell::output(&mut command)?;
    Ok(started.elapsed().as_secs_f64())
}

fn verdict(table: &Table) -> String {
    let time = |system| table.values(ROW, system).map(median);
    let Some((process, container)) = time(PROCESS).zip(time(PUBLISHED)) else {
        return String::new();
    };
    let times = container / process;
    format!("The bar: at most {BAR} times a process; a container takes {times:.2} times.\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_compares_medians() {
        let mut table = Table::new([PROCESS, PUBLISHED], "seconds");
        for (process, container) in [(1.0, 1.05), (1.0, 9.0), (1.0, 1.0)] {
            table.add(ROW, PROCESS, process);
            table.add(ROW, PUBLISHED, container);
        }
        let verdict = verdict(&table);
        assert!(
            verdict.contains("a container takes 1.05 times"),
            "{verdict}"
        );
    }
}
