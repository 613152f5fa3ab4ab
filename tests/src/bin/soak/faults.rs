//! Injects the faults of the schedule, one after another.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use flow_tests::send;
use rustix::process::Signal;
use tokio::runtime::Handle;

use crate::flow::{Flow, Replica};
use crate::run::Run;
use crate::schedule::{Fault, Node, Planned};
use crate::strangers;

/// Wait between two looks at whether replicas are back.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// A replica that is not back by then is a failure.
const BACK_WITHIN: Duration = Duration::from_secs(30);

/// A fault that has happened.
#[derive(Debug, Clone)]
pub(crate) struct Done {
    pub(crate) planned: Planned,
    pub(crate) began: Duration,
    pub(crate) ended: Duration,
    /// What it hit, or what an operator's command printed when it failed.
    pub(crate) outcome: Result<String, String>,
}

/// The replicas of `work` in the flow file.
const REPLICAS: u64 = 3;

/// Makes all faults happen, and then gives the flow the replicas of its file.
pub(crate) fn run_all(plan: &[Planned], run: &Arc<Run>, flow: &Flow, handle: &Handle) -> Vec<Done> {
    let last = Planned {
        at: run.phases.faults,
        fault: Fault::Scale(REPLICAS),
    };
    let one = |planned: &Planned| {
        wait_until(run, planned.at);
        let began = run.now();
        let outcome = happen(planned.fault, run, flow, handle);
        Done {
            planned: *planned,
            began,
            ended: run.now(),
            outcome,
        }
    };
    plan.iter().chain([&last]).map(one).collect()
}

fn wait_until(run: &Run, at: Duration) {
    thread::sleep(run.instant(at).saturating_duration_since(Instant::now()));
}

fn happen(fault: Fault, run: &Arc<Run>, flow: &Flow, handle: &Handle) -> Result<String, String> {
    match fault {
        Fault::Kill(node, pick) => kill(flow, node, pick),
        Fault::Freeze(node, pick, ms) => freeze(flow, node, pick, Duration::from_millis(ms)),
        Fault::Restart(node) => silent(flow.command(&["restart", node.name()])),
        Fault::Scale(replicas) => silent(flow.command(&["scale", &format!("work={replicas}")])),
        Fault::Reload => silent(flow.reload()),
        Fault::HangUps(clients) => {
            handle.block_on(strangers::hang_up(run, clients));
            Ok(String::new())
        }
        Fault::Cancels(clients) => {
            handle.block_on(strangers::cancel(run, clients));
            Ok(String::new())
        }
        Fault::SlowReaders(clients, ms) => {
            let pause = Duration::from_millis(ms);
            handle.block_on(strangers::read_slowly(run, clients, pause));
            Ok(String::new())
        }
        Fault::FullLogPipe(ms) => {
            flow.log().pause(true);
            thread::sleep(Duration::from_millis(ms));
            flow.log().pause(false);
            Ok(String::new())
        }
        Fault::CloseConnections => Ok(format!("{} connections", flow.proxy.close_all())),
    }
}

/// What a command printed when all went well is of no interest.
fn silent(outcome: Result<String, String>) -> Result<String, String> {
    outcome.map(|_| String::new())
}

fn pick(flow: &Flow, node: Node, pick: u64) -> Result<(Replica, usize), String> {
    let ready = flow.ready(node.name());
    let number = usize::try_from(pick).unwrap() % ready.len().max(1);
    let replica = ready.get(number).cloned();
    let replica = replica.ok_or_else(|| format!("`{}` has no replica", node.name()))?;
    Ok((replica, ready.len()))
}

/// Kills a replica, and waits until another process is there for it.
fn kill(flow: &Flow, node: Node, number: u64) -> Result<String, String> {
    let (replica, count) = pick(flow, node, number)?;
    send(replica.pid, Signal::KILL);
    let killed = Instant::now();
    let is_back = || {
        let ready = flow.ready(node.name());
        ready.len() == count && ready.iter().all(|it| it.pid != replica.pid)
    };
    while !is_back() {
        if killed.elapsed() > BACK_WITHIN {
            return Err(format!(
                "{} is not back after {BACK_WITHIN:?}",
                replica.name
            ));
        }
        thread::sleep(LOOK_EVERY);
    }
    Ok(replica.name)
}

fn freeze(flow: &Flow, node: Node, number: u64, pause: Duration) -> Result<String, String> {
    let (replica, _) = pick(flow, node, number)?;
    send(replica.pid, Signal::STOP);
    thread::sleep(pause);
    send(replica.pid, Signal::CONT);
    Ok(replica.name)
}
