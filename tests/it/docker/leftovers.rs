//! What tests make in the Docker engine, found by a label, and removed.
//!
//! The label's value names the process of the tests and the test. Containers have the labels of their image, and images
//! those of the image they are made from, so the label of a test's base is on all that is made of it, layers of a build
//! included.

use std::fs;
use std::process::{Command, Output};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// On all that tests make.
pub(super) const LABEL: &str = "dev.flow.test";

/// Most rounds of removals: an image goes only after those that are made of it.
const ROUNDS_MAX: usize = 20;

/// A process that runs tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Owner {
    boot: String,
    /// Of process numbers.
    namespace: String,
    pid: u32,
    /// Since the boot, in the kernel's ticks: numbers of processes are used again.
    began: u64,
}

impl Owner {
    fn this() -> Self {
        let pid = std::process::id();
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap();
        Self {
            boot: boot.trim().to_owned(),
            namespace: namespace.display().to_string(),
            pid,
            began: began(pid).unwrap(),
        }
    }

    fn label(&self) -> String {
        let Self {
            boot,
            namespace,
            pid,
            began,
        } = self;
        format!("{boot}/{namespace}/{pid}/{began}")
    }

    /// Reads a label's value, with or without the number of a test.
    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let mut next = || parts.next();
        Some(Self {
            boot: next()?.to_owned(),
            namespace: next()?.to_owned(),
            pid: next()?.parse().ok()?,
            began: next()?.parse().ok()?,
        })
    }

    /// Whether it is certain that the process has ended. One in another namespace cannot be seen.
    fn has_ended(&self) -> bool {
        let this = Self::this();
        match self.boot == this.boot {
            true => self.namespace == this.namespace && began(self.pid) != Some(self.began),
            false => true,
        }
    }
}

/// When a process began; `None` if there is no such process.
fn began(pid: u32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The second field is the program's name in brackets, and may hold anything.
    let (_, after) = stat.rsplit_once(')')?;
    // Fields are counted from 1, and the third is the first of these.
    after.split_whitespace().nth(22 - 3)?.parse().ok()
}

/// A value that no other test has.
pub(super) fn unique() -> String {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    format!("{}/{number}", Owner::this().label())
}

fn docker(arguments: &[&str]) -> Output {
    Command::new("docker").args(arguments).output().unwrap()
}

/// Words of what the engine answers. One that does not answer has nothing.
fn words(arguments: &[&str]) -> Vec<String> {
    let said = docker(arguments).stdout;
    let said = String::from_utf8_lossy(&said).into_owned();
    said.split_whitespace().map(str::to_owned).collect()
}

/// Things of an engine: how those with a label are listed, and how they are removed.
struct Kind {
    list: &'static [&'static str],
    inspect: &'static [&'static str],
    remove: &'static [&'static str],
}

/// In the order in which they can be removed.
const KINDS: [Kind; 4] = [
    Kind {
        list: &["ps", "-aq"],
        inspect: &[
            "container",
            "inspect",
            "-f",
            "{{index .Config.Labels \"dev.flow.test\"}}",
        ],
        remove: &["rm", "-f", "-v"],
    },
    Kind {
        list: &["network", "ls", "-q"],
        inspect: &[
            "network",
            "inspect",
            "-f",
            "{{index .Labels \"dev.flow.test\"}}",
        ],
        remove: &["network", "rm"],
    },
    Kind {
        list: &["volume", "ls", "-q"],
        inspect: &[
            "volume",
            "inspect",
            "-f",
            "{{index .Labels \"dev.flow.test\"}}",
        ],
        remove: &["volume", "rm", "-f"],
    },
    Kind {
        list: &["images", "-aq"],
        inspect: &[
            "image",
            "inspect",
            "-f",
            "{{index .Config.Labels \"dev.flow.test\"}}",
        ],
        remove: &["rmi", "-f"],
    },
];

impl Kind {
    fn with(&self, filter: &str) -> Vec<String> {
        let filter = format!("label={filter}");
        let mut found = words(&[self.list, &["--filter", &filter]].concat());
        // An image is listed once for each of its names.
        found.sort();
        found.dedup();
        found
    }

    /// Removes those with a label; gives those that are left.
    fn remove(&self, filter: &str) -> Vec<String> {
        let mut left = self.with(filter);
        for _ in 0..ROUNDS_MAX {
            if left.is_empty() {
                break;
            }
            let ids = left.iter().map(String::as_str);
            // What goes with another is not there any more, which is an error to the engine.
            docker(&self.remove.iter().copied().chain(ids).collect::<Vec<_>>());
            left = self.with(filter);
        }
        left
    }
}

/// Removes all that has this value of the label; gives what is left.
pub(super) fn remove(value: &str) -> Vec<String> {
    let filter = format!("{LABEL}={value}");
    let left = KINDS.iter().flat_map(|kind| kind.remove(&filter));
    left.collect()
}

/// All that has this value of the label.
pub(super) fn found(value: &str) -> Vec<String> {
    let filter = format!("{LABEL}={value}");
    let found = KINDS.iter().flat_map(|kind| kind.with(&filter));
    found.collect()
}

/// Removes what runs of tests left that were killed.
pub(super) fn sweep() {
    for kind in KINDS {
        for id in kind.with(LABEL) {
            let inspect = [kind.inspect, &[&id]].concat();
            // Another launcher may have removed it in the meantime.
            let Some(value) = words(&inspect).pop() else {
                continue;
            };
            if Owner::parse(&value).is_some_and(|owner| owner.has_ended()) {
                kind.remove(&format!("{LABEL}={value}"));
            }
        }
    }
}

/// The same, once in each run.
pub(super) fn sweep_once() {
    static SWEPT: Once = Once::new();
    SWEPT.call_once(sweep);
}

/// The value of a run of tests that has ended.
fn ended() -> String {
    let mut child = Command::new("true").spawn().unwrap();
    let owner = Owner {
        pid: child.id(),
        began: began(child.id()).unwrap(),
        ..Owner::this()
    };
    child.wait().unwrap();
    format!("{}/0", owner.label())
}

#[test]
fn objects_of_a_killed_test_run_are_removed_by_the_next_run() {
    let Some(own) = super::DockerTest::start() else {
        return;
    };
    let killed = ended();
    let label = format!("LABEL {LABEL}={killed}");
    let base = own.base();
    let image = own.name("left");
    let containerfile = format!("FROM {base}\n{label}\n");
    let context = own.folder().join("left");
    fs::create_dir(&context).unwrap();
    fs::write(context.join("Dockerfile"), containerfile).unwrap();
    let built = super::docker(&["build", "-q", "-t", &image, &context.display().to_string()]);
    assert!(built.status.success(), "{}", super::text(&built));
    super::must(&["create", &image, "/nothing"]);
    let labelled = format!("{LABEL}={killed}");
    let volume = own.name("left");
    super::must(&["volume", "create", "--label", &labelled, &volume]);
    super::must(&["network", "create", "--label", &labelled, &volume]);
    // A run that goes on beside this one.
    assert_eq!(found(&killed).len(), 4);

    sweep();
    assert_eq!(found(&killed), [""; 0]);
    let kept = super::docker(&["image", "inspect", base]);
    assert!(kept.status.success(), "what a run has that goes on stays");
}

#[test]
fn a_process_has_ended_if_its_id_is_gone_or_reused() {
    let this = Owner::this();
    assert_eq!(Owner::parse(&unique()), Some(this.clone()));
    assert_eq!(Owner::parse("something else"), None);
    assert!(!this.has_ended());
    assert!(Owner::parse(&ended()).unwrap().has_ended());
    let later = Owner {
        began: this.began + 1,
        ..this.clone()
    };
    assert!(later.has_ended(), "its number is another process's now");
    let unseen = Owner {
        namespace: "pid:[1]".to_owned(),
        pid: 1,
        began: 0,
        ..this.clone()
    };
    assert!(!unseen.has_ended());
    let before = Owner {
        boot: "another".to_owned(),
        ..this
    };
    assert!(before.has_ended(), "the machine was started again since");
}
