//! The machine: versions, limits of the system, processor, GPUs and clock.

use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use flow_kernels::InstructionSet;
use rustix::process::{Resource, getrlimit};

use super::finding::Finding;
use super::flow_file::Needs;
use crate::cmd::devices::gpus::{self, Gpus};

/// Each connection is an open file, and so is each file of an index. Fewer than this may be used up by a busy gateway.
const OPEN_FILES_WANTED: u64 = 4096;

/// Below this, even a flow with few executors may fail to start.
const OPEN_FILES_MIN: u64 = 256;

/// Memory for a gateway and an encoder with the default model, and for requests.
const MEMORY_WANTED: u64 = 1 << 30;

/// When this was written. A clock that is earlier is wrong.
const WRITTEN: Duration = Duration::from_secs(1_760_000_000);

/// Clocks of the kernel that take a microsecond or so to read.
const SLOW_CLOCKS: [&str; 4] = ["acpi_pm", "hpet", "jiffies", "pit"];

pub(super) fn examine(needs: &Needs) -> Vec<Finding> {
    let read = |path: &str| fs::read_to_string(path).ok();
    let open_files = getrlimit(Resource::Nofile).maximum;
    let mut findings = vec![
        version(read("/proc/sys/kernel/osrelease")),
        of_open_files(open_files),
        of_memory(flow_net::memory_max(), available(read("/proc/meminfo"))),
        of_processor(&read("/sys/fs/cgroup/cpu.max").unwrap_or_default()),
    ];
    findings.extend(of_gpus(gpus::look(), needs));
    let source = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    findings.push(of_clock_source(read(source)));
    findings.push(of_time(SystemTime::now(), is_synchronized()));
    findings
}

fn version(kernel: Option<String>) -> Finding {
    let kernel = kernel.map(|it| format!(", Linux {}", it.trim()));
    let arch = std::env::consts::ARCH;
    let flow = env!("CARGO_PKG_VERSION");
    Finding::ok(
        "version",
        format!("flow {flow}, {arch}{}", kernel.unwrap_or_default()),
    )
}

/// `max`: how far a process may raise its limit, as flow does; `None` for no limit.
fn of_open_files(max: Option<u64>) -> Finding {
    const SUBJECT: &str = "open files";
    const REMEDY: &str = "raise it with `ulimit -Hn 65536` or `LimitNOFILE=65536` (systemd)";
    let text = |max: u64| format!("at most {max} for each process (`nofile`)");
    match max {
        None => Finding::ok(SUBJECT, "no limit"),
        Some(max) if max < OPEN_FILES_MIN => Finding::problem(SUBJECT, text(max), REMEDY),
        Some(max) if max < OPEN_FILES_WANTED => Finding::warning(SUBJECT, text(max), REMEDY),
        Some(max) => Finding::ok(SUBJECT, text(max)),
    }
}

/// `max`: of the machine or the control group; `available`: on the machine now.
fn of_memory(max: Option<u64>, available: Option<u64>) -> Finding {
    const SUBJECT: &str = "memory";
    let mib = |bytes: u64| format!("{} MiB", bytes >> 20);
    let Some(max) = max else {
        return Finding::ok(SUBJECT, "unknown");
    };
    let now = available.map(|it| it.min(max));
    let text = match now {
        Some(now) => format!("{} of {} available", mib(now), mib(max)),
        None => mib(max),
    };
    match now.unwrap_or(max) < MEMORY_WANTED {
        true => Finding::warning(
            SUBJECT,
            text,
            "free some, or raise the limit of the container; an encoder takes several hundred MiB",
        ),
        false => Finding::ok(SUBJECT, text),
    }
}

fn available(meminfo: Option<String>) -> Option<u64> {
    let meminfo = meminfo?;
    let line = meminfo
        .lines()
        .find_map(|it| it.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes * 1024)
}

/// `quota`: the file `cpu.max` of the control group; empty without one.
fn of_processor(quota: &str) -> Finding {
    const SUBJECT: &str = "processor";
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let sets: Vec<String> = InstructionSet::available()
        .map(|it| it.to_string())
        .collect();
    let quota = cores_of(quota).map(|it| format!(", a quota of {it:.1} cores"));
    let text = format!(
        "{cores} cores{}; instruction sets {}",
        quota.unwrap_or_default(),
        sets.join(", ")
    );
    match sets.len() {
        0 | 1 => Finding::warning(
            SUBJECT,
            text,
            "encoders compute several times slower without AVX2 or NEON; choose another machine",
        ),
        _ => Finding::ok(SUBJECT, text),
    }
}

/// The cores of a quota, such as `150000 100000`; `None` for `max`.
fn cores_of(quota: &str) -> Option<f64> {
    let (time, period) = quota.trim().split_once(' ')?;
    let (time, period): (f64, f64) = (time.parse().ok()?, period.parse().ok()?);
    Some(time / period)
}

fn of_gpus(gpus: Gpus, needs: &Needs) -> Vec<Finding> {
    const SUBJECT: &str = "GPU";
    const REMEDY: &str = "install the driver of NVIDIA, or write `device: cpu`";
    match gpus {
        Gpus::None(why) if needs.gpu => vec![Finding::problem(
            SUBJECT,
            format!("none, and the flow needs one: {why}"),
            REMEDY,
        )],
        Gpus::None(why) => vec![Finding::ok(SUBJECT, format!("none: {why}"))],
        Gpus::Found(gpus) => {
            let usable = gpus.iter().filter(|it| it.why_not().is_none()).count();
            let finding = |gpu: &gpus::Gpu| {
                let text = gpu.row()[1..4].join(", ");
                match gpu.why_not() {
                    None => Finding::ok(SUBJECT, text),
                    Some(why) if needs.gpu && usable == 0 => {
                        Finding::problem(SUBJECT, format!("{text}: {why}"), REMEDY)
                    }
                    Some(why) => {
                        let remedy = "`flow devices` lists what can be used";
                        Finding::warning(SUBJECT, format!("{text}: {why}"), remedy)
                    }
                }
            };
            gpus.iter().map(finding).collect()
        }
    }
}

fn of_clock_source(source: Option<String>) -> Finding {
    const SUBJECT: &str = "clock source";
    let Some(source) = source.map(|it| it.trim().to_owned()) else {
        return Finding::ok(SUBJECT, "unknown");
    };
    match SLOW_CLOCKS.contains(&source.as_str()) {
        true => Finding::warning(
            SUBJECT,
            format!("`{source}`, which is slow to read"),
            "each request reads it dozens of times; choose `tsc` or the clock of the hypervisor",
        ),
        false => Finding::ok(SUBJECT, source),
    }
}

fn of_time(now: SystemTime, is_synchronized: Option<bool>) -> Finding {
    const SUBJECT: &str = "time";
    let since = now.duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = humantime::format_rfc3339_seconds(now).to_string();
    if since < WRITTEN {
        let text = format!("{text}, which is in the past");
        return Finding::problem(
            SUBJECT,
            text,
            "set the clock; certificates and keys seem not to be valid yet",
        );
    }
    match is_synchronized {
        Some(true) => Finding::ok(SUBJECT, format!("{text}, synchronized")),
        Some(false) => Finding::warning(
            SUBJECT,
            format!("{text}, not synchronized by systemd"),
            "enable NTP with `timedatectl set-ntp true`, unless another program does it",
        ),
        None => Finding::ok(
            SUBJECT,
            format!("{text}; it does not say whether it is synchronized"),
        ),
    }
}

/// Whether systemd has synchronized the clock; `None` where systemd does not run.
fn is_synchronized() -> Option<bool> {
    let folder = Path::new("/run/systemd/timesync");
    folder
        .is_dir()
        .then(|| folder.join("synchronized").exists())
}

#[cfg(test)]
mod tests {
    use super::super::finding::Level;
    use super::*;

    #[track_caller]
    fn check(finding: &Finding, level: Level, part: &str) {
        assert_eq!(finding.level, level, "{finding:?}");
        assert!(finding.text.contains(part), "{finding:?}");
        assert_eq!(finding.remedy.is_some(), level != Level::Ok, "{finding:?}");
    }

    #[test]
    fn few_open_files_are_a_warning_or_a_problem() {
        check(&of_open_files(None), Level::Ok, "no limit");
        check(&of_open_files(Some(65_536)), Level::Ok, "65536");
        check(&of_open_files(Some(4_095)), Level::Warning, "4095");
        check(&of_open_files(Some(255)), Level::Problem, "255");
    }

    #[test]
    fn little_memory_is_a_warning() {
        let gib = |it: u64| Some(it << 30);
        check(
            &of_memory(gib(8), gib(3)),
            Level::Ok,
            "3072 MiB of 8192 MiB",
        );
        check(
            &of_memory(gib(8), Some(5 << 20)),
            Level::Warning,
            "5 MiB of",
        );
        // The container has less than the machine.
        check(
            &of_memory(Some(9 << 20), gib(3)),
            Level::Warning,
            "9 MiB of 9 MiB",
        );
        check(&of_memory(None, None), Level::Ok, "unknown");
        let meminfo = "MemTotal: 9 kB\nMemAvailable:    7 kB\n".to_owned();
        assert_eq!(available(Some(meminfo)), Some(7 * 1024));
    }

    #[test]
    fn a_quota_is_a_number_of_cores() {
        assert_eq!(cores_of("150000 100000\n"), Some(1.5));
        assert_eq!(cores_of("max 100000\n"), None);
        assert_eq!(cores_of(""), None);
    }

    #[test]
    fn a_gpu_is_needed_only_if_the_flow_says_so() {
        let none = || Gpus::None("no driver".to_owned());
        let needs = |gpu| Needs {
            gpu,
            ..Needs::default()
        };
        check(&of_gpus(none(), &needs(false))[0], Level::Ok, "no driver");
        check(
            &of_gpus(none(), &needs(true))[0],
            Level::Problem,
            "no driver",
        );
    }

    #[test]
    fn clocks_may_be_slow_or_wrong() {
        let source = |it: &str| of_clock_source(Some(it.to_owned()));
        check(&source("tsc\n"), Level::Ok, "tsc");
        check(&source("hpet\n"), Level::Warning, "`hpet`");
        check(
            &of_time(UNIX_EPOCH, Some(true)),
            Level::Problem,
            "1970-01-01",
        );
        let now = UNIX_EPOCH + WRITTEN;
        check(&of_time(now, Some(true)), Level::Ok, "synchronized");
        check(
            &of_time(now, Some(false)),
            Level::Warning,
            "not synchronized",
        );
        check(&of_time(now, None), Level::Ok, "does not say");
    }
}
