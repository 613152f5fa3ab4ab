//! The processor: its cores and its instruction sets.

use std::fs;
use std::num::NonZeroUsize;
use std::thread;

use flow_kernels::InstructionSet;
use serde::Serialize;

/// The processor of this machine.
#[derive(Debug, Serialize)]
pub(super) struct Processor {
    name: String,
    /// Cores of the machine.
    cores: usize,
    /// Cores that this process may use, by its affinity and its container.
    cores_allowed: usize,
    /// The best one first. The first one that supports the precision is used.
    instruction_sets: Vec<String>,
}

pub(super) fn look() -> Processor {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let allowed = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let (name, cores) = named_in(&cpuinfo);
    Processor {
        name: name.unwrap_or_else(|| std::env::consts::ARCH.to_owned()),
        cores: cores.max(allowed),
        cores_allowed: allowed,
        instruction_sets: InstructionSet::available()
            .map(|it| it.to_string())
            .collect(),
    }
}

/// The name of the first core, and the number of cores.
fn named_in(cpuinfo: &str) -> (Option<String>, usize) {
    let values = |key: &'static str| {
        let lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.filter_map(move |(name, value)| (name.trim() == key).then_some(value.trim()))
    };
    let name = values("model name").next().map(str::to_owned);
    (name, values("processor").count())
}

impl Processor {
    pub(super) fn row(&self) -> Vec<String> {
        let cores = match (self.cores_allowed, self.cores) {
            (1, 1) => "1 core".to_owned(),
            (allowed, cores) if allowed == cores => format!("{cores} cores"),
            (allowed, cores) => format!("{allowed} of {cores} cores"),
        };
        vec![
            "cpu".to_owned(),
            self.name.clone(),
            cores,
            self.instruction_sets.join(", "),
            "yes".to_owned(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_named_by_its_first_core() {
        let cpuinfo = "processor\t: 0\nmodel name\t: A 1\n\nprocessor\t: 1\nmodel name\t: B\n";
        assert_eq!(named_in(cpuinfo), (Some("A 1".to_owned()), 2));
        assert_eq!(named_in(""), (None, 0));
    }

    #[test]
    fn available_cores_are_shown_beside_all_cores() {
        let row = |cores, cores_allowed| {
            let name = "x".to_owned();
            let instruction_sets = vec!["avx2".to_owned(), "portable".to_owned()];
            let it = Processor {
                name,
                cores,
                cores_allowed,
                instruction_sets,
            };
            it.row()[2..4].to_vec()
        };
        assert_eq!(row(8, 2), ["2 of 8 cores", "avx2, portable"]);
        assert_eq!(row(8, 8)[0], "8 cores");
        assert_eq!(row(1, 1)[0], "1 core");
    }
}
