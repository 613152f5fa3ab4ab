//! Which systems a benchmark runs, and how often.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Context;
use clap::ValueEnum;

use crate::bench::ours;
use crate::bench::report::Table;
use crate::setup;
use crate::statistics::median;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum System {
    /// What lies underneath: tonic without a gateway, the encoder without a flow.
    Bare,
    /// Us.
    Flow,
    /// Stock Jina, from .peers/jina-v1.
    Jina,
    /// HAProxy in front of a bare echo, from Debian's package.
    Haproxy,
    /// nginx in front of a bare echo, from Debian's package.
    Nginx,
}

/// What the subjects share.
pub(super) struct Bench {
    pub(super) rounds: usize,
    /// How long each configuration of `collector` is loaded.
    pub(super) load: Duration,
    pub(super) systems: Vec<System>,
    /// A program `flow` of an earlier version, beside which the new one is measured.
    pub(super) against: Option<PathBuf>,
}

/// A version of the program `flow` that is measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Version {
    /// The one that was built from this tree.
    New,
    /// The one that `--against` names.
    Before(PathBuf),
}

impl Version {
    /// The name of what is measured with this version.
    pub(super) fn name(&self, of_new: &'static str) -> String {
        match self {
            Self::New => of_new.to_owned(),
            Self::Before(_) => format!("{of_new}{BEFORE}"),
        }
    }

    /// The program, without arguments.
    pub(super) fn program(&self) -> Command {
        match self {
            Self::New => ours::program("flow"),
            Self::Before(path) => ours::at_root(path),
        }
    }

    /// A flow of this version, ready.
    pub(super) fn up(&self, file: &str) -> anyhow::Result<ours::Flow> {
        ours::up_by(self.program(), file)
    }
}

/// What the name of a figure of the earlier version ends with.
const BEFORE: &str = ", before";

/// How the new version compares with the one before it: a line for each figure that both have.
pub(super) fn comparison(table: &Table, rows: &[&str], figures: &[&'static str]) -> String {
    let mut lines = String::new();
    for row in rows {
        for figure in figures {
            let before = format!("{figure}{BEFORE}");
            let (Some(new), Some(old)) = (table.values(row, figure), table.values(row, &before))
            else {
                continue;
            };
            let change = 100.0 * (median(new) / median(old) - 1.0);
            lines += &format!("- {row}, {figure}: {change:+.1} % against the version before\n");
        }
    }
    lines
}

impl Bench {
    /// The versions of `flow` that take part. They take turns.
    pub(super) fn versions(&self) -> Vec<Version> {
        let before = self.against.iter().cloned().map(Version::Before);
        std::iter::once(Version::New).chain(before).collect()
    }

    pub(super) fn has(&self, system: System) -> bool {
        self.systems.contains(&system)
    }

    /// Jina's Python, if Jina takes part.
    pub(super) fn jina(&self) -> anyhow::Result<Option<PathBuf>> {
        if !self.has(System::Jina) {
            return Ok(None);
        }
        let python = setup::interpreter("jina-v1");
        python
            .context("stock Jina is not set up: run `cargo xtask setup`")
            .map(Some)
    }

    /// The Python of Jina with its encoder, if Jina takes part.
    pub(super) fn jina_with_encoder(&self) -> anyhow::Result<Option<PathBuf>> {
        if !self.has(System::Jina) {
            return Ok(None);
        }
        let python = setup::interpreter("jina-v1-torch");
        python
            .context("Jina's encoder is not set up: run `cargo xtask setup --only torch`")
            .map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_versions_take_part_if_an_earlier_program_is_given() {
        let bench = |against: Option<&str>| Bench {
            rounds: 1,
            load: Duration::ZERO,
            systems: Vec::new(),
            against: against.map(PathBuf::from),
        };
        let names = |bench: &Bench| -> Vec<String> {
            let versions = bench.versions().into_iter();
            versions.map(|version| version.name("flow")).collect()
        };
        assert_eq!(names(&bench(None)), ["flow"]);
        let both = bench(Some("/old/flow"));
        assert_eq!(names(&both), ["flow", "flow, before"]);
        let programs = both.versions().into_iter();
        let mut programs = programs.map(|it| it.program().get_program().to_owned());
        assert_eq!(programs.next_back().expect("two"), "/old/flow");
    }

    #[test]
    fn the_comparison_states_the_change_of_each_figure_that_both_versions_have() {
        let mut table = Table::new(["flow", "flow, before", "peer"], "requests/s");
        table.add("small", "flow", 102.0);
        table.add("small", "flow, before", 100.0);
        table.add("small", "peer", 50.0);
        table.add("large", "flow", 1.0);
        assert_eq!(
            comparison(&table, &["small", "large"], &["flow", "peer"]),
            "- small, flow: +2.0 % against the version before\n"
        );
    }
}
