//! How long a flow takes from its start to the line that says it is ready.

use crate::bench::ours;
use crate::bench::participants::{Bench, System, comparison};
use crate::bench::report::{Report, Table};
use crate::statistics::median;

const COLUMN: &str = "to ready";

/// The flows, with the seconds that they may take with the model, and the calibration of `int8`, on disk.
const ROWS: [(&str, f64); 3] = [
    ("flow up flows/echo.yml", 1.0),
    ("flow up flows/encode.yml", 1.0),
    ("flow up, encoder in int8", 0.3),
];

const INT8: &str = "jtype: Flow
executors: [{name: encoder, uses: sentence-encoder, uses_with: {device: cpu, precision: int8}}]
";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let versions = bench.versions();
    let columns: Vec<String> = versions.iter().map(|it| it.name(COLUMN)).collect();
    let mut table = Table::new(columns.iter().map(String::as_str), "seconds");
    let int8 = report.scratch("int8.yml");
    std::fs::write(&int8, INT8)?;
    let int8 = int8.to_string_lossy();
    let files = ["flows/echo.yml", "flows/encode.yml", &*int8];
    if bench.has(System::Flow) {
        for (file, (row, _)) in files.into_iter().zip(ROWS) {
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
    let change = comparison(&table, &ROWS.map(|(row, _)| row), &[COLUMN]);
    report.write("start", &table, &format!("{}{change}", verdict(&table)))
}

fn verdict(table: &Table) -> String {
    let line = |(row, bar): (&str, f64)| {
        let seconds = table.values(row, COLUMN).map(median)?;
        let met = if seconds <= bar { "met" } else { "missed" };
        Some(format!("{row}: {seconds:.3} s (the bar: {bar} s, {met})\n"))
    };
    ROWS.into_iter().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_flow_has_a_bar_of_its_own() {
        let mut table = Table::new([COLUMN], "seconds");
        table.add(ROWS[1].0, COLUMN, 0.5);
        table.add(ROWS[2].0, COLUMN, 0.5);
        let expected = "flow up flows/encode.yml: 0.500 s (the bar: 1 s, met)\n\
            flow up, encoder in int8: 0.500 s (the bar: 0.3 s, missed)\n";
        assert_eq!(verdict(&table), expected);
    }
}
