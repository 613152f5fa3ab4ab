//! The faults of a run, in the order of the table.

use std::time::Duration;

use serde_json::{Value, json};

/// A fault, where it is made, and for how long.
#[derive(Debug)]
pub(crate) struct Case {
    /// The fault, as the table names it.
    pub(crate) what: &'static str,
    pub(crate) place: &'static str,
    pub(crate) fault: Fault,
    pub(crate) kind: Kind,
    pub(crate) lasts: Duration,
}

impl Case {
    pub(crate) fn name(&self) -> String {
        format!("{}, {}", self.what, self.place)
    }
}

/// What happens.
#[derive(Debug)]
pub(crate) enum Fault {
    /// A cable is in this state.
    Cable(Cable, Value),
    /// The name server is in this state; then the executor on the first machine is started again.
    Names(Value),
    /// The gateway's clock is ahead by this many seconds.
    Clock(i64),
    /// The index's disk is full.
    FullDisk,
    /// The gateway may open no more files.
    NoFiles,
    /// The executor on the first machine is in a control group with 512 KiB more memory than it has.
    NoMemory,
    /// A process is stopped.
    Frozen(Process),
    /// A process is killed, and started again at the end.
    Killed(Process),
    /// The first machine is gone, and boots at the end.
    MachineDown,
}

/// A cable between machines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cable {
    /// Between client and gateway.
    Client,
    /// Between the gateway and the first of two machines with an executor.
    First,
    /// Between the gateway and each of these machines.
    Both,
}

/// A process that faults happen to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Process {
    Gateway,
    /// The executor on the first machine.
    First,
}

/// What the client sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A text of 4 KB for the two executors, on one connection.
    Text,
    /// The same, on a new connection for each request.
    NewConnection,
    /// The same, and a text of 1 MiB once a second while the fault lasts.
    Larger,
    /// A document to be kept by the index.
    Index,
}

const CLIENT: &str = "client and gateway";
const FIRST: &str = "one of two executors";
const BOTH: &str = "both executors";
const GATEWAY: &str = "gateway";

pub(crate) fn cases() -> Vec<Case> {
    let mut all = cables();
    all.extend(names());
    all.extend(machines());
    all.extend(resources());
    all
}

fn cables() -> Vec<Case> {
    use Cable::{Both, Client, First};
    let cable = |what, cable, state: Value, seconds| {
        let place = match cable {
            Client => CLIENT,
            First => FIRST,
            Both => BOTH,
        };
        case(what, place, Fault::Cable(cable, state), seconds)
    };
    let delay = || json!({"delay_ms": 100, "jitter_ms": 20});
    let overtaking = || json!({"delay_ms": 10, "overtaking": 0.25});
    let slow = || json!({"bits_per_s": 1_000_000});
    let blocked = |way: &str| json!({ "blocked": way });
    vec![
        cable("1 % of packets lost", Client, json!({"loss": 0.01}), 15),
        cable("10 % of packets lost", Client, json!({"loss": 0.1}), 15),
        cable("delay of 100 ± 20 ms each way", Client, delay(), 10),
        cable("a quarter of packets overtakes", Client, overtaking(), 10),
        cable("1 Mbit/s", Client, slow(), 10),
        cable("nothing arrives", Client, blocked("both"), 10),
        cable("only replies are lost", Client, blocked("back"), 10),
        cable("1 % of packets lost", First, json!({"loss": 0.01}), 15),
        cable("10 % of packets lost", First, json!({"loss": 0.1}), 15),
        cable("delay of 100 ± 20 ms each way", First, delay(), 10),
        cable("a quarter of packets overtakes", First, overtaking(), 10),
        cable("1 Mbit/s", First, slow(), 10),
        cable("only requests are lost", First, blocked("forth"), 30),
        cable("only replies are lost", First, blocked("back"), 30),
        cable("nothing arrives", First, blocked("both"), 30),
        cable("nothing arrives", Both, blocked("both"), 10),
        cable("nothing arrives for longer", Both, blocked("both"), 40),
    ]
}

fn names() -> Vec<Case> {
    use crate::world::{DEAD, EXECUTORS};
    let names = |what, state| case(what, "name server", Fault::Names(state), 15);
    let dead = |addresses: &[&str]| json!({ "addresses": addresses });
    vec![
        names(
            "answers after 4 s",
            json!({"addresses": EXECUTORS, "delay_s": 4}),
        ),
        names(
            "does not answer",
            json!({"addresses": EXECUTORS, "silent": true}),
        ),
        names("one of two addresses is dead", dead(&[EXECUTORS[1], DEAD])),
        names("the only address is dead", dead(&[DEAD])),
    ]
}

fn machines() -> Vec<Case> {
    use Process::{First, Gateway};
    vec![
        case("frozen", FIRST, Fault::Frozen(First), 30),
        case("killed, back after 10 s", FIRST, Fault::Killed(First), 10),
        case(
            "its machine is lost, and boots after 30 s",
            FIRST,
            Fault::MachineDown,
            30,
        ),
        case("frozen", GATEWAY, Fault::Frozen(Gateway), 10),
        case("killed, back after 2 s", GATEWAY, Fault::Killed(Gateway), 2),
        case("its clock jumps by +1 h", GATEWAY, Fault::Clock(3600), 10),
        case("its clock jumps by −1 h", GATEWAY, Fault::Clock(-3600), 10),
    ]
}

fn resources() -> Vec<Case> {
    vec![
        Case {
            kind: Kind::Index,
            ..case("disk full", "vector-index", Fault::FullDisk, 10)
        },
        Case {
            kind: Kind::NewConnection,
            ..case("no file descriptors", GATEWAY, Fault::NoFiles, 10)
        },
        Case {
            kind: Kind::Larger,
            ..case("no more memory", FIRST, Fault::NoMemory, 10)
        },
    ]
}

fn case(what: &'static str, place: &'static str, fault: Fault, seconds: u64) -> Case {
    Case {
        what,
        place,
        fault,
        kind: Kind::Text,
        lasts: Duration::from_secs(seconds),
    }
}
