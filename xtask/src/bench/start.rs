//! How long a flow takes from its start to the line that says it is ready.

use crate::bench::ours;
use crate::bench::participants::{Bench, System, comparison};
use crate::bench::report::{Report, Table};

const COLUMN: &str = "to ready";

const FILES: [&str; 2] = ["flows/echo.yml", "flows/encode.yml"];

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let versions = bench.versions();
    let columns: Vec<String> = versions.iter().map(|it| it.name(COLUMN)).collect();
    let mut table = Table::new(columns.iter().map(String::as_str), "seconds");
    let rows = FILES.map(|file| format!("flow up {file}"));
    if bench.has(System::Flow) {
        for (file, row) in FILES.iter().zip(&rows) {
            // Once for the page cache and, where it must be fetched, the model.
            for version in &versions {
                version.up(file)?;
            }
            for _ in 0..bench.rounds {
                for version in &versions {
                    let seconds = version.up(file)?.server.started_in.as_secs_f64();
                    table.add(row, &version.name(COLUMN), seconds);
                }
            }
        }
    }
    if let Some(python) = bench.jina()? {
        for _ in 0..bench.rounds {
            let seconds = ours::jina_noop(&python, "grpc")?
                .server
                .started_in
                .as_secs_f64();
            table.add("Jina 3.27, executor that does nothing", COLUMN, seconds);
        }
    }
    let change = comparison(&table, &rows.each_ref().map(String::as_str), &[COLUMN]);
    let verdict = format!("The bar: 1 s, with the model on disk.\n{change}");
    report.write("start", &table, &verdict)
}
