//! Reads the raw numbers of earlier runs back from `tests/load/runs/`.

use std::fs;

use anyhow::Context;

use crate::repository::root;
use crate::statistics::median;

/// The medians of one subject of one run.
#[derive(Debug, PartialEq)]
pub(super) struct Run {
    /// The folder's name: date and machine.
    pub(super) name: String,
    pub(super) unit: String,
    pub(super) groups: Vec<Group>,
}

/// What was measured, such as one size of requests, with a figure for each system.
#[derive(Debug, PartialEq)]
pub(super) struct Group {
    pub(super) name: String,
    pub(super) systems: Vec<(String, f64)>,
}

/// Reads the figures of a subject of a run.
pub(super) fn read(run: &str, subject: &str) -> anyhow::Result<Run> {
    let path = root().join(format!("tests/load/runs/{run}/{subject}.csv"));
    let csv =
        fs::read_to_string(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
    parse(run, &csv).with_context(|| format!("cannot read `{}`", path.display()))
}

/// Reads `what;system;round;value` lines; the name of the last column is the unit.
fn parse(name: &str, csv: &str) -> anyhow::Result<Run> {
    let mut lines = csv.lines();
    let unit = lines.next().and_then(|head| head.rsplit(';').next());
    let mut values: Vec<(&str, &str, Vec<f64>)> = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split(';').collect();
        let [what, system, _round, value] = cells[..] else {
            anyhow::bail!("expected 4 cells, found {}: `{line}`", cells.len());
        };
        let value = value.parse().with_context(|| format!("in `{line}`"))?;
        match values.iter_mut().find(|it| (it.0, it.1) == (what, system)) {
            Some((_, _, rounds)) => rounds.push(value),
            None => values.push((what, system, vec![value])),
        }
    }
    Ok(Run {
        name: name.to_owned(),
        unit: unit.context("the file is empty")?.to_owned(),
        groups: grouped(&values),
    })
}

fn grouped(values: &[(&str, &str, Vec<f64>)]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for (what, system, rounds) in values {
        let system = ((*system).to_owned(), median(rounds));
        match groups.iter_mut().find(|group| group.name == *what) {
            Some(group) => group.systems.push(system),
            None => groups.push(Group {
                name: (*what).to_owned(),
                systems: vec![system],
            }),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_read_as_medians_in_the_order_of_the_file() {
        let csv = "what;system;round;texts/s\na;flow;0;3\na;flow;1;1\na;flow;2;2\na;peer;0;1\nb;flow;0;9\n";
        let run = parse("2026-01-01-cpu", csv).unwrap();
        let group = |name: &str, systems: &[(&str, f64)]| Group {
            name: name.to_owned(),
            systems: systems.iter().map(|it| (it.0.to_owned(), it.1)).collect(),
        };
        assert_eq!(run.unit, "texts/s");
        let expected = [
            group("a", &[("flow", 2.0), ("peer", 1.0)]),
            group("b", &[("flow", 9.0)]),
        ];
        assert_eq!(run.groups, expected);
    }

    #[test]
    fn a_broken_line_is_quoted() {
        let error = parse("x", "what;system;round;s\na;b;1\n").unwrap_err();
        assert_eq!(error.to_string(), "expected 4 cells, found 3: `a;b;1`");
        assert!(parse("x", "what;system;round;s\na;b;0;fast\n").is_err());
        assert!(parse("x", "").is_err());
    }
}
