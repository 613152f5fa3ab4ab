//! Benchmark: the cost of each further executor of a flow: lines of several, and branches that are joined.
//!
//! Executors do nothing, so all that is measured is the way: gateway, sockets, executor runtime. Everything
//! runs on the same cores, so the time of a request is what all of them together spend on it.

use std::fmt::Write as _;

use crate::bench::participants::Bench;
use crate::bench::report::{Report, Table};
use crate::bench::request::SIZES;
use crate::bench::{h2load, ours};
use crate::statistics::median;

/// The request of 3 KB.
const SIZE: usize = 1;

/// Executors in a line.
const LINES: [usize; 4] = [1, 2, 4, 8];

/// Branches between the client's documents and a join.
const BRANCHES: usize = 10;

/// Each further executor over the first.
const FURTHER_MAX: f64 = 1.2;

/// Requests a second through all branches and the join.
const JOINED_MIN: f64 = 1500.0;

const JOINED: &str = "10 branches and a join";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    h2load::look_for()?;
    let request = report.scratch("request.bin");
    std::fs::write(&request, SIZES[SIZE].frame())?;
    let mut flows = Vec::new();
    for count in LINES {
        flows.push((name(count), up(report, &line(count))?));
    }
    flows.push((JOINED.to_owned(), up(report, &branches())?));
    let mut table = Table::new(["flow"], "requests/s");
    for round in 0..bench.rounds {
        for (name, flow) in &flows {
            let count = if name == JOINED { 4_000 } else { 20_000 };
            let url = format!("http://127.0.0.1:{}", flow.port);
            let rate = h2load::run(&url, &request, count)?;
            eprintln!("{name} · round {round}: {rate:.0} requests/s");
            table.add(name, "flow", rate);
        }
    }
    report.write("nodes", &table, &verdict(&table))
}

fn name(count: usize) -> String {
    match count {
        1 => "1 executor".to_owned(),
        _ => format!("{count} executors in a line"),
    }
}

fn line(count: usize) -> String {
    (0..count)
        .map(|number| format!("- {{name: n{number}, uses: echo}}\n"))
        .collect()
}

fn branches() -> String {
    let mut yaml = String::new();
    for number in 0..BRANCHES {
        // Writing to a text cannot fail.
        writeln!(yaml, "- {{name: n{number}, uses: echo, needs: gateway}}")
            .expect("a text takes all");
    }
    yaml + "- {name: joined, uses: echo, method: needs_all}\n"
}

fn up(report: &Report, executors: &str) -> anyhow::Result<ours::Flow> {
    let file = report.scratch("flow.yml");
    std::fs::write(&file, format!("jtype: Flow\nexecutors:\n{executors}"))?;
    ours::up(&file.to_string_lossy())
}

fn verdict(table: &Table) -> String {
    let rate = |name: &str| table.values(name, "flow").map_or(f64::NAN, median);
    let micros = |count: usize| 1e6 / rate(&name(count));
    let first = micros(1);
    let mut text = format!(
        "The first executor costs {first:.0} µs a request, gateway and client included. The bar for each further \
         one is {FURTHER_MAX} times that.\n\n"
    );
    for count in &LINES[1..] {
        #[allow(clippy::cast_precision_loss, reason = "a handful")]
        let further = (micros(*count) - first) / (count - 1) as f64;
        let ratio = further / first;
        text += &format!(
            "- in a line of {count}, each further one costs {further:.0} µs: {ratio:.2} times the first\n"
        );
    }
    text + &format!(
        "- {JOINED}: {:.0} requests/s; the bar is {JOINED_MIN:.0}\n",
        rate(JOINED)
    )
}
