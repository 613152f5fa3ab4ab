//! `cargo xtask bench report`: draws a run as the charts that README and the book show.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;

use crate::bench::bar_chart::draw;
use crate::bench::runs;
use crate::repository::root;
use crate::soak::{Records, plot};
use crate::swarm;

/// Where the charts lie, from the top folder.
const FOLDER: &str = "docs/src/charts";

/// One chart.
struct Plot {
    /// The name of the run's CSV and of the chart.
    subject: &'static str,
    /// The run whose figures README and book quote. Change it together with them.
    run: &'static str,
    title: &'static str,
    /// Systems that are left out.
    hidden: &'static [&'static str],
}

impl Plot {
    fn path(&self) -> PathBuf {
        root().join(FOLDER).join(format!("{}.svg", self.subject))
    }

    fn draw(&self) -> anyhow::Result<String> {
        let run = runs::read(self.run, self.subject)?;
        Ok(draw(&run, self.title, |system| {
            !self.hidden.contains(&system)
        }))
    }
}

const PLOTS: &[Plot] = &[
    Plot {
        subject: "gateway",
        run: "2026-11-30-amd-epyc-2-cores-threads-jina",
        title: "Through a gateway to an executor that does nothing",
        hidden: &["bare tonic echo", "flow, before"],
    },
    Plot {
        subject: "encoder",
        run: "2026-11-28-amd-epyc-2-cores-bf16-attention",
        title: "all-MiniLM-L6-v2 on the CPU",
        hidden: &["flow f32, one thread"],
    },
];

/// The run of `cargo xtask soak` that the book shows.
const SOAK: &str = "2026-11-28-amd-epyc-2-cores-soak";

/// The run of `cargo xtask swarm tutorial` that the book shows.
const SWARM: &str = "2026-11-28-amd-epyc-2-cores-swarm-tutorial";

fn swarm_path() -> PathBuf {
    root().join(FOLDER).join("swarm.svg")
}

fn draw_swarm() -> anyhow::Result<String> {
    swarm::draw(&root().join("tests/load/runs").join(SWARM))
}

fn soak_path() -> PathBuf {
    root().join(FOLDER).join("soak.svg")
}

fn draw_soak() -> anyhow::Result<String> {
    let folder = root().join("tests/load/runs").join(SOAK).join("soak");
    Ok(plot::draw(&Records::read(&folder)?))
}

pub(super) fn draw_all() -> anyhow::Result<()> {
    let folder = root().join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make `{}`", folder.display()))?;
    for plot in PLOTS {
        let path = plot.path();
        fs::write(&path, plot.draw()?)
            .with_context(|| format!("cannot write `{}`", path.display()))?;
        eprintln!(
            "drew {FOLDER}/{}.svg from the run {}",
            plot.subject, plot.run
        );
    }
    let path = soak_path();
    fs::write(&path, draw_soak()?).with_context(|| format!("cannot write `{}`", path.display()))?;
    eprintln!("drew {FOLDER}/soak.svg from the run {SOAK}");
    let path = swarm_path();
    fs::write(&path, draw_swarm()?)
        .with_context(|| format!("cannot write `{}`", path.display()))?;
    eprintln!("drew {FOLDER}/swarm.svg from the run {SWARM}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_charts_show_the_run_that_the_documents_quote() {
        for plot in PLOTS {
            let path = plot.path();
            let drawn = fs::read_to_string(&path).unwrap_or_default();
            let is_fresh = drawn == plot.draw().unwrap();
            assert!(
                is_fresh,
                "{} is stale: run `cargo xtask bench report`",
                path.display()
            );
        }
        let drawn = fs::read_to_string(soak_path()).unwrap_or_default();
        assert!(
            drawn == draw_soak().unwrap(),
            "the chart of the soak is stale: run `cargo xtask bench report`"
        );
        let drawn = fs::read_to_string(swarm_path()).unwrap_or_default();
        assert!(
            drawn == draw_swarm().unwrap(),
            "the chart of the Swarm is stale: run `cargo xtask bench report`"
        );
    }
}
