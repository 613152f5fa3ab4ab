//! Writes the results: raw numbers, a summary, and a description of the machine.
//!
//! `tests/load/runs/<date>-<machine>/` holds `machine.txt`, one `<subject>.csv` of raw numbers a
//! subject, and `summary.md` with one section each. A subject measured again replaces its own.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::shell;
use crate::statistics::median;

pub(crate) struct Report {
    folder: PathBuf,
    scratch: PathBuf,
}

impl Report {
    pub(crate) fn open() -> anyhow::Result<Self> {
        let date = shell::output(Command::new("date").args(["-u", "+%F"]))?;
        let cpu = cpu()?;
        let name = format!("{}-{}", date.trim(), slug(&cpu));
        let folder = crate::repository::root().join("tests/load/runs").join(name);
        let scratch = crate::repository::root().join("target/bench");
        fs::create_dir_all(&folder).context("cannot make the folder for results")?;
        fs::create_dir_all(&scratch)?;
        fs::write(folder.join("machine.txt"), machine(&cpu)?)?;
        Ok(Self { folder, scratch })
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A file that a measurement needs, and that is not kept.
    pub(super) fn scratch(&self, name: &str) -> PathBuf {
        self.scratch.join(name)
    }

    pub(super) fn write(&self, subject: &str, table: &Table, verdict: &str) -> anyhow::Result<()> {
        fs::write(self.folder.join(format!("{subject}.csv")), table.csv())?;
        let section = format!("{}\n{verdict}", table.markdown());
        eprintln!("\n{subject}\n{section}");
        self.write_section(subject, &section)
    }

    /// Replaces a section of the summary, or adds it.
    pub(crate) fn write_section(&self, subject: &str, section: &str) -> anyhow::Result<()> {
        let path = self.folder.join("summary.md");
        let old = fs::read_to_string(&path).unwrap_or_default();
        let section = with_section(&old, subject, section.trim_end());
        Ok(fs::write(path, section)?)
    }
}

/// Raw values by row and column; both keep the order in which they came.
#[derive(Debug)]
pub(super) struct Table {
    columns: Vec<String>,
    rows: Vec<String>,
    unit: &'static str,
    values: BTreeMap<(String, String), Vec<f64>>,
}

impl Table {
    pub(super) fn new<'a>(columns: impl IntoIterator<Item = &'a str>, unit: &'static str) -> Self {
        let columns = columns.into_iter().map(str::to_owned).collect();
        Self {
            columns,
            rows: Vec::new(),
            unit,
            values: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, row: &str, column: &str, value: f64) {
        if !self.rows.iter().any(|known| known == row) {
            self.rows.push(row.to_owned());
        }
        self.values
            .entry((row.to_owned(), column.to_owned()))
            .or_default()
            .push(value);
    }

    pub(super) fn values(&self, row: &str, column: &str) -> Option<&[f64]> {
        self.values
            .get(&(row.to_owned(), column.to_owned()))
            .map(Vec::as_slice)
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = &str> {
        self.rows.iter().map(String::as_str)
    }

    fn csv(&self) -> String {
        let mut text = format!("what;system;round;{}\n", self.unit);
        for row in &self.rows {
            for column in &self.columns {
                let values = self.values(row, column).unwrap_or_default();
                for (round, value) in values.iter().enumerate() {
                    // Writing to a String cannot fail.
                    let _infallible = writeln!(text, "{row};{column};{round};{value}");
                }
            }
        }
        text
    }

    fn markdown(&self) -> String {
        let cell = |row, column| match self.values(row, column) {
            Some(values) => figure(median(values)),
            None => "–".to_owned(),
        };
        let line = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let head = std::iter::once(format!("median, {}", self.unit));
        let mut text = line(head.chain(self.columns.iter().cloned()).collect());
        text += &line(vec!["---".to_owned(); self.columns.len() + 1]);
        for row in &self.rows {
            let cells = self.columns.iter().map(|column| cell(row, column));
            text += &line(std::iter::once(row.clone()).chain(cells).collect());
        }
        text
    }
}

/// Three digits that matter.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        large if 100.0 <= large => format!("{value:.0}"),
        middle if 10.0 <= middle => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The summary with one section replaced, or added at the end.
fn with_section(summary: &str, subject: &str, section: &str) -> String {
    let (_, sections) = summary.split_once("## ").unwrap_or_default();
    let sections = sections.split("\n## ").filter(|old| !old.trim().is_empty());
    let mut sections: Vec<(String, String)> = sections
        .filter_map(|old| old.split_once('\n'))
        .map(|(name, body)| (name.to_owned(), body.trim().to_owned()))
        .collect();
    match sections.iter_mut().find(|(name, _)| name == subject) {
        Some((_, body)) => section.clone_into(body),
        None => sections.push((subject.to_owned(), section.to_owned())),
    }
    let sections = sections
        .iter()
        .map(|(name, body)| format!("\n## {name}\n\n{body}\n"));
    format!(
        "# Medians of each subject's last run; raw numbers are in this folder\n{}",
        sections.collect::<String>()
    )
}

fn cpu() -> anyhow::Result<String> {
    let text = fs::read_to_string("/proc/cpuinfo").context("cannot read about the CPU")?;
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line.split_once(':')
            .map(|(_, value)| value.trim().to_owned())
    };
    let model = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_owned());
    let count = std::thread::available_parallelism()?;
    let widest = widest(&field("flags").unwrap_or_default());
    Ok(format!("{model} {count} cores {widest}"))
}

/// What tells processors of one name apart, and decides how fast an encoder can be.
fn widest(flags: &str) -> &'static str {
    let sets = [
        ("amx_bf16", "AMX"),
        ("avx512_bf16", "AVX-512 bf16"),
        ("avx512f", "AVX-512"),
        ("avx2", "AVX2"),
    ];
    let has = |flag| flags.split_whitespace().any(|word| word == flag);
    sets.iter()
        .find_map(|&(flag, name)| has(flag).then_some(name))
        .unwrap_or_default()
}

fn machine(cpu: &str) -> anyhow::Result<String> {
    let said = |program: &str, args: &[&str]| shell::output(Command::new(program).args(args));
    let commit = said("git", &["rev-parse", "--short", "HEAD"]).unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let memory = memory.lines().next().unwrap_or_default().to_owned();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Ok([
        format!("cpu: {}", cpu.trim()),
        memory,
        format!("load before the run: {}", load.trim()),
        format!("kernel: {}", said("uname", &["-sr"])?.trim()),
        format!("rust: {}", said("rustc", &["--version"])?.trim()),
        format!("commit: {}\n", commit.trim()),
    ]
    .join("\n"))
}

/// A text as a part of a file's name.
fn slug(text: &str) -> String {
    let letters = text.chars().map(|letter| {
        if letter.is_ascii_alphanumeric() {
            letter.to_ascii_lowercase()
        } else {
            ' '
        }
    });
    letters
        .collect::<String>()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_shows_medians_and_keeps_every_value() {
        let mut table = Table::new(["flow", "Jina"], "seconds");
        for seconds in [3.0, 1.0, 2.0] {
            table.add("start", "flow", seconds);
        }
        let expected =
            "| median, seconds | flow | Jina |\n| --- | --- | --- |\n| start | 2.00 | – |\n";
        assert_eq!(table.markdown(), expected);
        assert_eq!(table.csv().lines().count(), 4);
    }

    #[test]
    fn a_subject_measured_again_replaces_its_section_only() {
        let first = with_section("", "gateway", "fast");
        let both = with_section(&first, "start", "soon");
        let again = with_section(&both, "gateway", "faster");
        assert_eq!(again, both.replace("fast", "faster"));
        assert!(again.contains("## start\n\nsoon\n"), "{again}");
    }

    #[test]
    fn a_machine_is_named_after_its_processor() {
        assert_eq!(
            slug("Intel(R) Xeon(R) Gold 6430 2 cores AVX-512 bf16"),
            "intel-r-xeon-r-gold-6430-2-cores-avx-512-bf16"
        );
    }

    #[test]
    fn processors_of_one_name_differ_by_their_instructions() {
        assert_eq!(widest("fpu avx2 avx512f avx512_bf16"), "AVX-512 bf16");
        assert_eq!(widest("fpu avx2 fma"), "AVX2");
        assert_eq!(widest("fpu"), "");
    }
}
