//! A flow on four machines under steady load, with one fault after another: `cargo xtask faults` runs it and makes a table.
//!
//! The machines are network namespaces. `cargo xtask faults` starts this program with namespaces of its own for the network,
//! mounts and processes, so that nothing of it is seen outside, and nothing is left when it ends, however it ends.
//!
//! ```text
//! catalogue.rs  which faults there are
//! machines.rs   namespaces, and the processes in them
//! memory.rs     control groups that limit memory
//! script.rs     the cables between machines and the name server: programs that take commands
//! world.rs      the flow on its machines, and what is done to it
//! load.rs       requests on a timetable
//! ```
#![allow(
    clippy::unwrap_used,
    reason = "a run that cannot go on ends, and its helpers with it"
)]

mod catalogue;
mod load;
mod machines;
mod memory;
mod script;
mod world;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::catalogue::{Case, cases};
use crate::load::{Load, Request};
use crate::world::World;

/// Time before each fault in which nothing happens.
const QUIET: Duration = Duration::from_secs(3);

/// A flow has recovered when all requests of this time were good. Longer than a deadline, so that none of them is still open.
const GOOD_FOR: Duration = Duration::from_secs(7);

/// How long a recovery is waited for.
const RECOVERY_MAX: Duration = Duration::from_secs(90);

fn main() -> ExitCode {
    let mut words = std::env::args().skip(1);
    let (Some(out), only) = (words.next(), words.next()) else {
        #[allow(clippy::print_stderr, reason = "it is a command-line program")]
        {
            eprintln!("usage: faults OUT [PART OF A NAME], as `cargo xtask faults` does");
        }
        return ExitCode::from(2);
    };
    let out = PathBuf::from(out);
    let wanted = |case: &Case| only.as_ref().is_none_or(|part| case.name().contains(part));
    run(&out, cases().into_iter().filter(wanted).collect());
    ExitCode::SUCCESS
}

fn run(out: &Path, cases: Vec<Case>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut world = World::build();
    let mut faults = "fault;place;began_s;ended_s;note\n".to_owned();
    let mut requests = "fault;place;due_s;took_ms;failure\n".to_owned();
    for case in cases {
        if let Some(reason) = world.lacks(&case.fault) {
            writeln!(faults, "{};{};;;left out: {reason}", case.what, case.place).unwrap();
            continue;
        }
        #[allow(clippy::print_stderr, reason = "it is a command-line program")]
        {
            eprintln!("{}", case.name());
        }
        world.get_ready(&case.fault);
        let load = Arc::new(runtime.block_on(Load::new(&world.url(), case.kind)));
        let sending = runtime.spawn(load.clone().send());
        let times = make(&case, &mut world, &load);
        let sent = runtime.block_on(sending).unwrap();
        let [began, ended] = times.map(|it| it.as_secs_f64());
        let note = world.heal();
        writeln!(
            faults,
            "{};{};{began:.2};{ended:.2};{note}",
            case.what, case.place
        )
        .unwrap();
        for request in sent {
            writeln!(requests, "{};{};{}", case.what, case.place, line(&request)).unwrap();
        }
        // After each case, so that a run which is stopped has its figures.
        fs::write(out.join("faults.csv"), &faults).unwrap();
        fs::write(out.join("requests.csv"), &requests).unwrap();
    }
    fs::write(out.join("gateway.log"), world.gateway_log()).unwrap();
    memory::remove_group();
}

/// Makes a fault happen and end while the load goes on, and ends the load when the flow has recovered.
fn make(case: &Case, world: &mut World, load: &Load) -> [Duration; 2] {
    thread::sleep(QUIET);
    let began = load.now();
    world.begin(&case.fault);
    load.set_fault(true);
    thread::sleep(case.lasts);
    load.set_fault(false);
    world.end(&case.fault);
    let ended = load.now();
    while load.now() < ended + RECOVERY_MAX && load.now() < ended.max(load.last_bad()) + GOOD_FOR {
        thread::sleep(Duration::from_millis(100));
    }
    load.stop();
    [began, ended]
}

fn line(request: &Request) -> String {
    let (due, took) = (request.due.as_secs_f64(), request.took.as_secs_f64());
    let failure = request.failure.as_deref().unwrap_or_default();
    let failure = failure.replace(['\n', ';'], " ");
    format!("{due:.3};{:.1};{failure}", took * 1000.0)
}
