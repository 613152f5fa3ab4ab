//! A flow under load for as long as is asked, with faults at random: `cargo xtask soak` runs it and judges what it writes.
//!
//! ```text
//! schedule.rs   which faults happen when             pure
//! flow.rs       the flow, its external executor behind proxy.rs, and the pipe of its log
//! load.rs       requests on a timetable: grpc.rs, http.rs, bulk.rs
//! faults.rs     makes the faults happen; strangers.rs are clients that behave badly
//! samples.rs    memory, file descriptors, threads and sockets of each process
//! account.rs    what became of each request          pure
//! outcome.rs    what is written at the end
//! ```
#![allow(
    clippy::unwrap_used,
    reason = "a soak that cannot go on ends, and its helpers with it"
)]

mod account;
mod bulk;
mod faults;
mod flow;
mod grpc;
mod http;
mod load;
mod log_pipe;
mod outcome;
mod proxy;
mod run;
mod samples;
mod schedule;
mod strangers;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::flow::Flow;
use crate::outcome::Outcome;
use crate::run::{Phases, Run};

/// What the command line says: seconds, a seed, and the folder for results.
struct Args {
    length: Duration,
    seed: u64,
    out: PathBuf,
}

fn main() -> ExitCode {
    let Some(args) = args() else {
        #[allow(clippy::print_stderr, reason = "it is a command-line program")]
        {
            eprintln!("usage: soak SECONDS SEED OUT, as `cargo xtask soak` does");
        }
        return ExitCode::from(2);
    };
    soak(&args);
    ExitCode::SUCCESS
}

fn args() -> Option<Args> {
    let mut words = std::env::args().skip(1);
    Some(Args {
        length: Duration::from_secs(words.next()?.parse().ok()?),
        seed: words.next()?.parse().ok()?,
        out: words.next()?.into(),
    })
}

fn soak(args: &Args) {
    let phases = Phases::of(args.length);
    let plan = schedule::schedule(args.seed, phases.quiet, phases.faults);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let flow = Arc::new(Flow::up());
    let run = Arc::new(Run::new(flow.port(), phases));
    let sampler = thread::spawn({
        let (run, supervisor) = (run.clone(), flow.supervisor());
        move || samples::gather(&run, supervisor)
    });
    let actor = thread::spawn({
        let (run, flow, handle) = (run.clone(), flow.clone(), runtime.handle().clone());
        move || faults::run_all(&plan, &run, &flow, &handle)
    });
    runtime.block_on(load::send_all(&run));
    let outcome = Outcome {
        seed: args.seed,
        faults: actor.join().unwrap(),
        samples: sampler.join().unwrap(),
        recorded: flow.recorded(),
        loud: flow.loud(),
    };
    outcome.write(&run, &args.out);
}
