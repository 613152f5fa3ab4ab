//! `cargo xtask swarm`: what clients see while engines of a Swarm fail, or while its stack changes.
//!
//! The engines, the load, the faults and the changes are those of `tests/it/swarm.rs`, which fails if a request is lost, fails or
//! is answered wrong. Here they run for longer, and the times of the requests become a table and a picture.

mod comparison;
mod plot;
mod records;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::capacity;
use crate::repository::programs;
use crate::setup;
use crate::shell;
use crate::statistics::quantile;
use crate::swarm::records::{Request, events, requests};

/// The files that a run writes.
const RESULTS: [&str; 5] = [
    "requests.csv",
    "events.csv",
    "figures.csv",
    "swarm.md",
    "timeline.svg",
];

/// What happens to the Swarm under load.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
enum Scenario {
    /// One engine is killed and restarted; another is disconnected from the network and reconnected.
    Faults,
    /// The number of tasks, the image and the flow file change.
    Changes,
    /// The same faults, while a release build of the program encodes texts. Before them, the speed of the Swarm is compared
    /// with that of flows on this machine alone.
    Tutorial,
}

impl Scenario {
    fn test(self) -> &'static str {
        match self {
            Self::Faults => {
                "swarm::every_request_is_answered_once_though_an_engine_dies_and_one_is_cut_off"
            }
            Self::Changes => {
                "swarm::nothing_is_lost_while_image_flow_file_and_number_of_tasks_change"
            }
            Self::Tutorial => {
                "swarm::tutorial::the_tutorial_loses_nothing_though_an_engine_dies_and_one_is_cut_off"
            }
        }
    }

    /// Builds the program if the test does not use that of all tests; its path.
    fn build(self) -> anyhow::Result<PathBuf> {
        if !matches!(self, Self::Tutorial) {
            return Ok(programs("debug").join("flow"));
        }
        setup::model()?;
        capacity::build()?;
        Ok(programs("release").join("flow"))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[arg(value_enum, default_value = "faults")]
    scenario: Scenario,

    /// Seconds of load. One engine is dead for a quarter of this time, and another is disconnected for a fifth. Changes
    /// take as long as Swarm needs, and the pause between them is a tenth of this time.
    #[arg(long, default_value = "150")]
    seconds: u32,

    /// Folder for the results, such as one in tests/load/runs/.
    #[arg(long)]
    out: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    fs::create_dir_all(&args.out).context("cannot create the folder for the figures")?;
    let out = args.out.canonicalize()?;
    for name in RESULTS {
        // Of an earlier run, which is not to be taken for this one.
        if out.join(name).exists() {
            fs::remove_file(out.join(name))?;
        }
    }
    let program = args.scenario.build()?;
    let mut command = shell::cargo();
    command
        .args(["test", "--workspace", "--exclude", "xtask-codegen"])
        .args(["--exclude", "bare-tonic", "--test", "it", "--"])
        .args(["--exact", args.scenario.test(), "--nocapture"])
        .env("FLOW_BIN", program)
        .env("FLOW_SWARM_SECONDS", args.seconds.to_string())
        .env("FLOW_SWARM_OUT", &out);
    shell::run(&mut command)?;
    let mut text = String::new();
    if matches!(args.scenario, Scenario::Tutorial) {
        text = comparison::table(&read(&out, "figures.csv")?)? + "\n";
    }
    let requests = requests(&read(&out, "requests.csv")?);
    let events = read(&out, "events.csv")?;
    let events = records::events(&events);
    text += &table(&requests, &events);
    fs::write(out.join("swarm.md"), &text)?;
    fs::write(out.join("timeline.svg"), plot::draw(&requests, &events))?;
    println!("{text}");
    Ok(())
}

/// The picture of a run that is in this folder.
pub(crate) fn draw(folder: &Path) -> anyhow::Result<String> {
    let requests = requests(&read(folder, "requests.csv")?);
    let text = read(folder, "events.csv")?;
    Ok(plot::draw(&requests, &events(&text)))
}

fn read(folder: &Path, name: &str) -> anyhow::Result<String> {
    let path = folder.join(name);
    fs::read_to_string(&path)
        .with_context(|| format!("no `{}`: was the test skipped?", path.display()))
}

/// A row for the time from each event to the next.
fn table(requests: &[Request], events: &[(f64, &str)]) -> String {
    let mut text = "| from | s | requests | p50 ms | p99 ms | slowest ms | sent again |\n\
                    |---|---|---|---|---|---|---|\n"
        .to_owned();
    for (index, (from, event)) in events.iter().enumerate() {
        let to = events.get(index + 1).map_or(f64::INFINITY, |next| next.0);
        let own = requests.iter().filter(|it| (*from..to).contains(&it.due_s));
        let own: Vec<&Request> = own.collect();
        let mut times: Vec<f64> = own.iter().map(|it| it.took_ms).collect();
        times.sort_by(f64::total_cmp);
        let again = own.iter().filter(|it| it.attempts > 1).count();
        let [p50, p99, slowest] = [0.5, 0.99, 1.0].map(|part| quantile(&times, part));
        let count = own.len();
        writeln!(
            text,
            "| {event} | {from:.1} | {count} | {p50:.1} | {p99:.1} | {slowest:.1} | {again} |"
        )
        .expect("writing to a String cannot fail");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_belong_to_the_event_before_them() {
        let read = requests("due_s,took_ms,attempts,failure\n0.1,2.0,1,\n1.5,900.0,2,\n");
        let text = "second,event\n0.00,quiet\n1.00,killed\n";
        let table = table(&read, &events(text));
        let rows: Vec<&str> = table.lines().skip(2).collect();
        assert_eq!(rows[0], "| quiet | 0.0 | 1 | 2.0 | 2.0 | 2.0 | 0 |");
        assert_eq!(rows[1], "| killed | 1.0 | 1 | 900.0 | 900.0 | 900.0 | 1 |");
    }
}
