//! Hostile clients: what they send is refused or bounded, and no other client notices.
//!
//! After each attack an ordinary client is served within [`served_within`], by the same processes, and these have not taken much
//! memory. `cargo xtask attacks` makes a table of what each attack cost.

mod broken_executor;
mod connections;
mod damaged_log;
mod documents;
mod executors;
mod http;
mod http2;
mod lost_work;
mod memory;
mod neighbours;
mod report;
mod sizes;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_tests::{TestFlow, client, said, texts};

use self::report::{Attack, Taken};

/// Time in which an ordinary client is served after an attack.
fn served_within() -> Duration {
    match report::is_alone() {
        true => Duration::from_secs(1),
        // Several tests run at the same time.
        false => Duration::from_secs(5),
    }
}

/// A flow under attack.
struct Target {
    flow: TestFlow,
    /// Its processes and their memory before the attack.
    before: Vec<(&'static str, u32, u64)>,
    /// Bytes that the attack has sent.
    sent: AtomicUsize,
}

impl Target {
    fn up(yaml: &str, processes: &[&'static str]) -> Self {
        let flow = TestFlow::up(yaml);
        let state = |&name: &&'static str| {
            let pid = flow.pid(name);
            (name, pid, high_water(pid))
        };
        let before = processes.iter().map(state).collect();
        Self {
            flow,
            before,
            sent: AtomicUsize::new(0),
        }
    }

    /// Counts bytes of the attack, for the report.
    fn sends(&self, bytes: usize) {
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The port of an executor, as if the attacker had found it.
    fn port_of(&self, name: &str) -> u16 {
        let line = self.flow.program().line(&format!("{name}@"));
        let port = line.rsplit_once("127.0.0.1:").unwrap().1;
        let end = port.find(|it: char| !it.is_ascii_digit());
        port[..end.unwrap_or(port.len())].parse().unwrap()
    }

    /// Fails if an ordinary client is not served, a process has restarted, or one has taken more than `mebibytes`.
    async fn survived(&self, mebibytes: u64) {
        let begun = Instant::now();
        let request = texts("/ordinary", &["well"]);
        let served = async {
            let client = client(&self.flow).await;
            client.single(request, Deadline::NEVER).await
        };
        let reply = tokio::time::timeout(served_within(), served).await;
        let reply = reply.expect("an ordinary client waits").unwrap();
        assert_eq!(said(&reply).failure, None);
        self.report(begun.elapsed());
        self.fits(mebibytes);
    }

    /// Adds the attack to the report, if one is asked for.
    fn report(&self, waited: Duration) {
        let taken = self.before.iter().map(|(name, pid, before)| Taken {
            process: (*name).to_owned(),
            bytes: high_water(*pid).saturating_sub(*before),
        });
        report::add(&Attack {
            sent: self.sent.load(Ordering::Relaxed),
            waited,
            taken: taken.collect(),
        });
    }

    /// Fails if a process has restarted, or one has taken more than `mebibytes`.
    fn fits(&self, mebibytes: u64) {
        for (name, pid, before) in &self.before {
            assert_eq!(self.flow.pid(name), *pid, "`{name}` has restarted");
            let taken = high_water(*pid).saturating_sub(*before) >> 20;
            assert!(taken <= mebibytes, "`{name}` has taken {taken} MiB");
        }
    }
}

/// The most memory that a process has had, in bytes.
fn high_water(pid: u32) -> u64 {
    of_status(pid, "VmHWM:")
}

/// A number of bytes of what the system says of a process.
fn of_status(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let number = status.lines().find_map(|it| it.strip_prefix(name)).unwrap();
    let kilobytes: u64 = number.trim().trim_end_matches(" kB").parse().unwrap();
    kilobytes << 10
}
