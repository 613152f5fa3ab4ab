//! The resources of each process of the flow: memory, file descriptors, threads and sockets.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::run::Run;

/// Samples of a run: as many as a plot can show.
const COUNT: u32 = 360;

/// The shortest time between two samples.
const EVERY_MIN: Duration = Duration::from_secs(1);

/// One look at one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Sample {
    pub(crate) at: Duration,
    /// `supervisor`, `gateway`, or the name of a node.
    pub(crate) role: String,
    pub(crate) pid: u32,
    pub(crate) resident_kb: u64,
    pub(crate) fds: usize,
    pub(crate) threads: usize,
    pub(crate) sockets: usize,
}

/// The time between two samples.
pub(crate) fn every(length: Duration) -> Duration {
    (length / COUNT).max(EVERY_MIN)
}

/// Looks at all processes until the run is over.
pub(crate) fn gather(run: &Run, supervisor: u32) -> Vec<Sample> {
    let mut samples = Vec::new();
    let every = every(run.phases.end);
    let mut at = every;
    while at < run.phases.end {
        thread::sleep(run.instant(at).saturating_duration_since(Instant::now()));
        // One that ends meanwhile is left out.
        samples.extend(look(run.now(), supervisor, "supervisor".to_owned()));
        for pid in children(supervisor) {
            let role = role(pid);
            samples.extend(role.and_then(|role| look(run.now(), pid, role)));
        }
        at += every;
    }
    samples
}

fn proc(pid: u32) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// The processes that all threads of a process started.
fn children(pid: u32) -> Vec<u32> {
    let threads = fs::read_dir(proc(pid).join("task")).into_iter().flatten();
    let lists = threads.filter_map(|it| fs::read_to_string(it.ok()?.path().join("children")).ok());
    let lists: Vec<String> = lists.collect();
    let words = lists.iter().flat_map(|it| it.split_whitespace());
    words.filter_map(|it| it.parse().ok()).collect()
}

/// The node that a process belongs to.
fn role(pid: u32) -> Option<String> {
    let words = fs::read_to_string(proc(pid).join("cmdline")).ok()?;
    let words: Vec<&str> = words.split('\0').collect();
    if words.contains(&"gateway") {
        return Some("gateway".to_owned());
    }
    let place = words.iter().position(|it| *it == "--name")?;
    let name = words.get(place + 1)?;
    Some(name.split('/').next()?.to_owned())
}

fn look(at: Duration, pid: u32, role: String) -> Option<Sample> {
    let status = fs::read_to_string(proc(pid).join("status")).ok()?;
    let links = fs::read_dir(proc(pid).join("fd")).ok()?;
    let links = links.filter_map(|it| fs::read_link(it.ok()?.path()).ok());
    let links: Vec<PathBuf> = links.collect();
    let is_socket = |it: &&PathBuf| it.to_string_lossy().starts_with("socket:");
    Some(Sample {
        at,
        role,
        pid,
        resident_kb: field(&status, "VmRSS:")?.parse().ok()?,
        fds: links.len(),
        threads: field(&status, "Threads:")?.parse().ok()?,
        sockets: links.iter().filter(is_socket).count(),
    })
}

/// The first word of a line of `/proc/PID/status`.
fn field<'a>(status: &'a str, name: &str) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_this_process_is_not_empty() {
        let sample = look(Duration::ZERO, std::process::id(), "own".to_owned()).unwrap();
        assert!(sample.resident_kb > 100 && sample.fds > 0 && sample.threads > 0);
    }

    #[test]
    fn a_long_run_has_no_more_samples_than_a_plot_can_show() {
        assert_eq!(every(Duration::from_secs(180)), Duration::from_secs(1));
        assert_eq!(every(Duration::from_secs(3600)), Duration::from_secs(10));
    }
}
