//! Resident memory of each process of a flow, idle and after load.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::bench::participants::{Bench, System};
use crate::bench::report::{Report, Table};
use crate::bench::{corpus, ours};
use crate::shell;

/// Documents sent before memory is looked at again.
const DOCS: usize = 3_200;

const IDLE: &str = "idle";
const LOADED: &str = "after load";

pub(super) fn measure(bench: &Bench, report: &mut Report) -> anyhow::Result<()> {
    let mut table = Table::new([IDLE, LOADED], "MB resident");
    if bench.has(System::Flow) {
        let docs = report.scratch("docs.jsonl");
        corpus::write_tutorial(&docs, DOCS)?;
        for version in bench.versions() {
            let name = version.name("flow");
            let flow = version.up("flows/encode.yml")?;
            note(&mut table, &name, IDLE, flow.server.id())?;
            shell::output(&mut ours::post(&flow, &docs, &report.scratch("out.jsonl")))?;
            note(&mut table, &name, LOADED, flow.server.id())?;
        }
    }
    if let Some(python) = bench.jina()? {
        let flow = ours::jina_noop(&python, "grpc")?;
        note(
            &mut table,
            "Jina 3.27, executor that does nothing",
            IDLE,
            flow.server.id(),
        )?;
    }
    report.write(
        "memory",
        &table,
        "The bar: gateway 25 MB idle, encoder 180 MB in fp32.\n",
    )
}

fn note(table: &mut Table, system: &str, when: &'static str, id: u32) -> anyhow::Result<()> {
    let processes = processes()?;
    // Numbered, because two replicas are started by the same words.
    for (number, process) in family(id, &processes).into_iter().enumerate() {
        let row = format!("{system}: {number} {}", process.role);
        table.add(&row, when, process.resident_mb);
    }
    Ok(())
}

#[derive(Debug)]
pub(super) struct Process {
    parent: u32,
    pub(super) role: String,
    pub(super) resident_mb: f64,
}

pub(super) fn processes() -> anyhow::Result<BTreeMap<u32, Process>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/proc")? {
        let entry = entry?;
        let id = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok());
        // One that ended meanwhile is no part of what we measure.
        if let Some((id, process)) = id.and_then(|id| Some((id, read(&entry.path())?))) {
            found.insert(id, process);
        }
    }
    Ok(found)
}

fn read(folder: &Path) -> Option<Process> {
    let status = fs::read_to_string(folder.join("status")).ok()?;
    let words = fs::read_to_string(folder.join("cmdline")).ok()?;
    Some(Process {
        parent: field(&status, "PPid:")?.parse().ok()?,
        role: role(&words),
        resident_mb: field(&status, "VmRSS:")?.parse::<f64>().ok()? / 1024.0,
    })
}

/// The first word of a line of `/proc/<id>/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()
}

/// What a process was started for: its program and the first words after it, up to the options.
fn role(cmdline: &str) -> String {
    let words = cmdline.split('\0').filter(|word| !word.is_empty());
    // The report must not contain paths of this machine.
    let words = words.map(|word| word.rsplit('/').next().unwrap_or(word));
    let words = words.take_while(|word| !word.starts_with("--port")).take(4);
    let words = words.filter(|word| word.parse::<u16>().is_err());
    words.collect::<Vec<_>>().join(" ")
}

/// A process and all that descend from it.
pub(super) fn family(id: u32, processes: &BTreeMap<u32, Process>) -> Vec<&Process> {
    let children = processes.iter().filter(|(_, process)| process.parent == id);
    let below = children.flat_map(|(child, _)| family(*child, processes));
    processes.get(&id).into_iter().chain(below).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(parent: u32, role: &str) -> Process {
        Process {
            parent,
            role: role.to_owned(),
            resident_mb: 1.0,
        }
    }

    #[test]
    fn a_family_is_a_process_with_all_that_descend_from_it() {
        let all = [
            (1, process(0, "init")),
            (5, process(1, "up")),
            (6, process(5, "gateway")),
        ];
        let all: BTreeMap<u32, Process> = all.into_iter().chain([(7, process(6, "x"))]).collect();
        let roles: Vec<&str> = family(5, &all).iter().map(|it| it.role.as_str()).collect();
        assert_eq!(roles, ["up", "gateway", "x"]);
    }

    #[test]
    fn this_process_has_memory_and_a_parent() {
        let own = read(Path::new("/proc/self")).expect("it runs");
        assert!(1.0 < own.resident_mb && own.parent != 0, "{own:?}");
    }

    #[test]
    fn a_role_is_the_program_and_its_first_words() {
        let check = |words: &[&str], expected| assert_eq!(role(&words.join("\0")), expected);
        check(
            &["/a/flow", "executor", "--uses", "echo", "--port", "0"],
            "flow executor --uses echo",
        );
        check(&["/a/flow", "gateway", "--port", "1", ""], "flow gateway");
        check(&["/a/python", "/a/b/noop.py", "5"], "python noop.py");
    }
}
