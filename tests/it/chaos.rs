//! A flow under load while its processes are killed, replaced and scaled: every request is
//! answered once, and well.
//!
//! Requests leave on a timetable, whatever the outcome of those before them, and their times count from when
//! they were to leave. `FLOW_CHAOS_SECONDS` says for how long, and `FLOW_CHAOS_OUT` where the times go, a line
//! of milliseconds each; `cargo xtask bench chaos` sets both, and looks at them.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flow_net::PostOptions;
use flow_proto::Envelope;
use flow_tests::{Program, TestFlow, client, flow_command, said, texts};
use futures_util::{StreamExt, stream};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::FAULTY;

/// Requests a second.
const RATE: u32 = 200;

/// Without a wish: long enough for two kills and every kind of change.
const SECONDS_DEFAULT: u32 = 6;

/// A process is killed so often, for the first time after half of it.
const KILL_EVERY: Duration = Duration::from_secs(3);

/// What is done meanwhile, and at which part of the time.
const CHANGES: &[(f64, &[&str])] = &[
    (0.15, &["restart", "faulty"]),
    (0.40, &["scale", "faulty=5"]),
    (0.60, &["scale", "faulty=3"]),
    (0.75, &["restart", "faulty"]),
];

/// When each request was to leave, by its id, and how long its replies took after that.
#[derive(Default)]
struct Book {
    sent: HashMap<String, Instant>,
    answered: HashMap<String, Vec<Duration>>,
    failures: Vec<String>,
}

impl Book {
    fn note(&mut self, reply: &Envelope) {
        let id = reply.header.as_ref().unwrap().request_id.clone();
        let said = said(reply);
        self.failures.extend(said.failure);
        if said.texts != ["5", id.as_str()] {
            self.failures
                .push(format!("{id} came back as {:?}", said.texts));
        }
        let took = self.sent[&id].elapsed();
        self.answered.entry(id).or_default().push(took);
    }

    fn check(&self) -> Vec<Duration> {
        assert!(self.failures.is_empty(), "{:#?}", self.failures);
        let lost = self.sent.len() - self.answered.len();
        assert_eq!(lost, 0, "requests without a reply");
        assert!(self.answered.values().all(|replies| replies.len() == 1));
        let mut times: Vec<Duration> = self.answered.values().flatten().copied().collect();
        times.sort();
        times
    }
}

fn length() -> Duration {
    let wished = std::env::var_os("FLOW_CHAOS_SECONDS");
    let seconds = wished.map_or(SECONDS_DEFAULT, |it| it.to_str().unwrap().parse().unwrap());
    Duration::from_secs(seconds.into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_request_is_lost_while_processes_die_and_change() {
    let flow = TestFlow::up(&format!(
        "executors: [{{name: faulty, uses: {FAULTY}, replicas: 3, idempotent: true}}]"
    ));
    flow.expect("process died and is restarted")
        .expect("replica cannot be reached");
    let (begun, length) = (Instant::now(), length());
    let book = Arc::new(Mutex::new(Book::default()));
    let state = flow.folder().join("state");
    let chaos = [
        thread::spawn({
            let state = state.clone();
            move || kill_now_and_then(&state, begun, length)
        }),
        thread::spawn(move || change_now_and_then(&state, begun, length)),
    ];
    let requests = stream::unfold(0, {
        let book = book.clone();
        move |number| next_request(number, begun, length, book.clone())
    });
    let client = client(&flow).await;
    let replies = client
        .post(&PostOptions::default(), requests)
        .await
        .unwrap();
    replies
        .for_each(|reply| {
            book.lock().unwrap().note(&reply.unwrap());
            std::future::ready(())
        })
        .await;
    for actor in chaos {
        actor.join().unwrap();
    }
    let times = book.lock().unwrap().check();
    assert_eq!(
        times.len(),
        (RATE * u32::try_from(length.as_secs()).unwrap()) as usize
    );
    write_out(&times);
}

/// The next request when its time has come; `None` after the last one.
async fn next_request(
    number: u32,
    begun: Instant,
    length: Duration,
    book: Arc<Mutex<Book>>,
) -> Option<(Envelope, u32)> {
    let due = Duration::from_secs(1) * number / RATE;
    if due >= length {
        return None;
    }
    let leaves = begun + due;
    tokio::time::sleep_until(leaves.into()).await;
    let mut request = texts("/slow", &["5"]);
    let id = request.header.as_ref().unwrap().request_id.clone();
    request.data = texts("/slow", &["5", &id]).data;
    book.lock().unwrap().sent.insert(id, leaves);
    Some((request, number + 1))
}

fn flow(state: &Path, arguments: &[&str]) -> String {
    let mut command: Command = flow_command();
    command.env("XDG_STATE_HOME", state).args(arguments);
    let (code, program) = Program::run(command);
    assert_eq!(code, Some(0), "{}", program.said());
    program.stdout()
}

fn wait_until(at: Instant) {
    thread::sleep(at.saturating_duration_since(Instant::now()));
}

fn kill_now_and_then(state: &Path, begun: Instant, length: Duration) {
    let mut at = KILL_EVERY / 2;
    let mut turn = 0;
    while at < length {
        wait_until(begun + at);
        let pids = ready(state);
        let pid = Pid::from_raw(pids[turn % pids.len()]).unwrap();
        // One that was replaced at this moment has ended already.
        let _has_ended = kill_process(pid, Signal::KILL).is_err();
        turn += 1;
        at += KILL_EVERY;
    }
}

/// Processes of the executor that serve.
fn ready(state: &Path) -> Vec<i32> {
    let listing: Value = serde_json::from_str(&flow(state, &["ps", "--json"])).unwrap();
    let processes = listing[0]["processes"].as_array().unwrap().iter();
    let serves = |it: &&Value| it["node"] == "faulty" && it["state"] == "ready";
    let pids = processes
        .filter(serves)
        .map(|it| it["pid"].as_i64().unwrap());
    pids.map(|pid| pid.try_into().unwrap()).collect()
}

fn change_now_and_then(state: &Path, begun: Instant, length: Duration) {
    for (part, arguments) in CHANGES {
        wait_until(begun + length.mul_f64(*part));
        flow(state, arguments);
    }
}

fn write_out(times: &[Duration]) {
    let Some(path) = std::env::var_os("FLOW_CHAOS_OUT") else {
        return;
    };
    let lines = times
        .iter()
        .map(|it| format!("{:.3}\n", it.as_secs_f64() * 1e3));
    std::fs::write(path, lines.collect::<String>()).unwrap();
}
