//! How long a flow takes from its start to the line that says it is ready.

use crate::bench::ours;
use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};

const COLUMN: &str = "to ready";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let mut table = Table::new([COLUMN], "seconds");
    if bench.has(System::Flow) {
        for file in ["flows/echo.yml", "flows/encode.yml"] {
            // Once for the page cache and, where it must be fetched, the model.
            ours::up(file)?;
            for _ in 0..bench.rounds {
                let seconds = ours::up(file)?.server.started_in.as_secs_f64();
                table.add(&format!("flow up {file}"), COLUMN, seconds);
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
    report.write("start", &table, "The bar: 1 s, with the model on disk.\n")
}
