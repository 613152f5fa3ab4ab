//! CPU time, memory, file descriptors and threads of a process, for this one under the names that Prometheus' own clients use.
//!
//! They are read from `/proc` at each scrape. The crate `procfs` would read the same lines, and is a hundred times as large.
//! Systems other than Linux have no `/proc`, and export none of these metrics.

use std::fs;
use std::path::Path;

use crate::collect::Collected;
use crate::family::{Description, Labels};
use crate::registry::Registry;

/// Hundredths of a second are what Linux counts times in for programs, on every machine that Rust's library supports.
const TICKS_PER_SECOND: f64 = 100.0;

/// The CPU time of all threads of a process since it began, in seconds; `None` if there is no such process, or the kernel
/// does not say.
#[must_use]
pub fn process_cpu_seconds(pid: u32) -> Option<f64> {
    cpu_seconds(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// What the kernel reports about this process.
#[derive(Debug, Default, PartialEq)]
struct ProcessValues {
    cpu_seconds: Option<f64>,
    start_time: Option<f64>,
    resident_bytes: Option<f64>,
    virtual_bytes: Option<f64>,
    threads: Option<f64>,
    open_fds: Option<f64>,
    max_fds: Option<f64>,
}

impl Registry {
    /// Registers what the kernel reports about this process, and which version of the program it runs.
    pub fn collect_process(&self, runtime_name: &str, version: &'static str) {
        let runtime_name = runtime_name.to_owned();
        self.collect(move |values| {
            let runtime = ("runtime_name", runtime_name.as_str());
            ProcessValues::read().add_to(values, &[runtime]);
            let build = Description {
                name: "flow_build_info",
                help: "Always 1; its label is the version of the program.",
            };
            values.gauge(build, &[runtime, ("version", version)], 1.0);
        });
    }
}

impl ProcessValues {
    fn read() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let status = read("/proc/self/status");
        let stat = read("/proc/self/stat");
        Self {
            cpu_seconds: cpu_seconds(&stat),
            start_time: start_time(&stat, &read("/proc/stat")),
            resident_bytes: field(&status, "VmRSS:").map(kibibytes),
            virtual_bytes: field(&status, "VmSize:").map(kibibytes),
            threads: field(&status, "Threads:"),
            open_fds: open_fds(Path::new("/proc/self/fd")),
            max_fds: max_fds(&read("/proc/self/limits")),
        }
    }

    fn add_to(&self, values: &mut Collected, labels: Labels<'_>) {
        if let Some(seconds) = self.cpu_seconds {
            let name = "process_cpu_seconds_total";
            let help = "CPU time of the process, of all its threads.";
            values.counter(Description { name, help }, labels, seconds);
        }
        for (name, help, value) in self.gauges() {
            if let Some(value) = value {
                values.gauge(Description { name, help }, labels, value);
            }
        }
    }

    fn gauges(&self) -> [(&'static str, &'static str, Option<f64>); 6] {
        [
            (
                "process_resident_memory_bytes",
                "Memory of the process that is in RAM.",
                self.resident_bytes,
            ),
            (
                "process_virtual_memory_bytes",
                "Address space of the process.",
                self.virtual_bytes,
            ),
            (
                "process_open_fds",
                "Open files and sockets of the process.",
                self.open_fds,
            ),
            (
                "process_max_fds",
                "Files and sockets that the process may have open.",
                self.max_fds,
            ),
            ("process_threads", "Threads of the process.", self.threads),
            (
                "process_start_time_seconds",
                "When the process began, in seconds since 1970; it changes at each restart.",
                self.start_time,
            ),
        ]
    }
}

/// The fields of `/proc/PID/stat` behind the name of the program, which may contain anything. The first is field 3 of proc(5).
fn fields(stat: &str) -> Option<Vec<&str>> {
    let (_, fields) = stat.rsplit_once(')')?;
    Some(fields.split_whitespace().collect())
}

/// The time of the process in user mode and in the kernel.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let fields = fields(stat)?;
    let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
    Some((ticks(11)? + ticks(12)?) / TICKS_PER_SECOND)
}

/// When the process began: so long after the machine, whose own start `/proc/stat` has.
fn start_time(stat: &str, system: &str) -> Option<f64> {
    let ticks: f64 = fields(stat)?.get(19)?.parse().ok()?;
    Some(field(system, "btime ")? + ticks / TICKS_PER_SECOND)
}

/// The number behind a name at the beginning of a line.
fn field(text: &str, name: &str) -> Option<f64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    value.split_whitespace().next()?.parse().ok()
}

fn kibibytes(count: f64) -> f64 {
    count * 1024.0
}

/// The number of open files. New kernels tell it as the size of the folder, others want it to be read.
#[allow(
    clippy::cast_precision_loss,
    reason = "no process has that many files open"
)]
fn open_fds(folder: &Path) -> Option<f64> {
    match fs::metadata(folder).ok()?.len() {
        // The folder itself is open while it is read.
        0 => Some(fs::read_dir(folder).ok()?.count().saturating_sub(1) as f64),
        open => Some(open as f64),
    }
}

/// The limit on open files that applies now; `None` if there is none.
fn max_fds(limits: &str) -> Option<f64> {
    field(limits, "Max open files")
}

#[cfg(test)]
mod tests {
    use std::time::{SystemTime, UNIX_EPOCH};

    use super::*;

    const STAT: &str = "4242 (a) b (c)) S 1 4242 4242 0 -1 4194304 1000 0 0 0 1234 66 0 0 20 0 17 0 \
                        98765 1000000 2000 18446744073709551615 1 1 0 0 0 0 0 4096 0 0 0 0 17 3 0 0 0 0 0";

    #[test]
    fn lines_of_proc_are_read_whatever_the_program_is_called() {
        assert_eq!(cpu_seconds(STAT), Some(13.0));
        let system = "cpu 1 2 3\nbtime 1700000000\nprocesses 3\n";
        assert_eq!(start_time(STAT, system), Some(1_700_000_987.65));
        let limits = "Limit  Soft Limit  Hard Limit  Units\nMax open files            1024                 524288               files \n";
        assert_eq!(max_fds(limits), Some(1024.0));
        assert_eq!(max_fds("Max open files unlimited unlimited files\n"), None);
        assert_eq!((cpu_seconds(""), start_time("", "")), (None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_values_of_this_process_are_plausible() {
        let values = ProcessValues::read();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let age = now.as_secs_f64() - values.start_time.unwrap();
        // The machine's start is known to the second.
        assert!((-2.0..3_600.0).contains(&age), "{age}");
        assert!(values.cpu_seconds.unwrap() < 3_600.0);
        let seconds = process_cpu_seconds(std::process::id());
        assert!(seconds >= values.cpu_seconds, "{seconds:?}");
        assert_eq!(process_cpu_seconds(u32::MAX), None);
        assert!(values.threads.unwrap() >= 1.0);
        let (resident, size) = (
            values.resident_bytes.unwrap(),
            values.virtual_bytes.unwrap(),
        );
        assert!(resident > 100_000.0 && size >= resident);
        let _open: Vec<_> = (0..10).map(|_| fs::File::open("/proc/self/stat")).collect();
        assert!(values.open_fds.unwrap() >= 3.0);
        assert!(ProcessValues::read().open_fds >= Some(10.0));
    }

    #[test]
    fn each_has_the_label_of_the_process() {
        let registry = Registry::new();
        registry.collect_process("a/rep-0", "1.2.3");
        let text = registry.text();
        let expected = "flow_build_info{runtime_name=\"a/rep-0\",version=\"1.2.3\"} 1\n";
        assert!(text.contains(expected), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        assert!(
            samples
                .clone()
                .all(|it| it.contains("runtime_name=\"a/rep-0\""))
        );
        assert_eq!(
            samples.count(),
            if cfg!(target_os = "linux") { 8 } else { 1 }
        );
    }
}
