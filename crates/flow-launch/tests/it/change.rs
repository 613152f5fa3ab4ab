//! Changes of a running flow through its control socket.

use std::io::{BufRead, BufReader, Write};
use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use flow_launch::protocol::{
    ControlCommand, ControlRequest, ControlResponse, ControlResult, ProcessInfo, ProcessState,
};
use flow_launch::{
    FileStamp, Launch, LogLine, LogSource, PlanReading, PlanSource, StateDirectory, log_file,
};
use flow_spec::{Placement, Plan};

use crate::harness::{Flow, answers, gone, kill, launch, lives, plan, within};

/// A flow with a state directory, and a plan that can be read again.
struct Served {
    flow: Flow,
    folder: tempfile::TempDir,
    next: Arc<Mutex<Result<Plan, String>>>,
}

impl Served {
    async fn up(executors: &[&str]) -> Self {
        Self::of(plan("", executors)).await
    }

    async fn of(plan: Plan) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let next = Arc::new(Mutex::new(Ok(plan.clone())));
        let file = folder.path().join("flow.yml");
        std::fs::write(&file, "first").unwrap();
        let read = {
            let (next, file) = (next.clone(), file.clone());
            move || PlanReading {
                stamps: vec![FileStamp::of(file.clone())],
                plan: next.lock().unwrap().clone(),
            }
        };
        let stamps = vec![FileStamp::of(file)];
        let mut flow = Flow::launch(Launch {
            state_directory: Some(StateDirectory::lock(&folder.path().join("home")).unwrap()),
            source: Some(PlanSource::new(stamps, read.clone(), read)),
            ..launch(plan)
        });
        within(flow.running.started()).await.unwrap();
        Self { flow, folder, next }
    }

    fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    async fn ask(&self, ask: ControlCommand) -> ControlResponse {
        let home = self.home();
        let asked = tokio::task::spawn_blocking(move || last_answer(&home, ask));
        within(asked).await.unwrap()
    }

    async fn ps(&self) -> Vec<ProcessInfo> {
        match self.ask(ControlCommand::Ps).await {
            ControlResponse::Done(ControlResult::Listing(listing)) => listing.processes,
            other => panic!("{other:?}"),
        }
    }

    async fn changed(&self, ask: ControlCommand) {
        assert_eq!(
            self.ask(ask).await,
            ControlResponse::Done(ControlResult::Changed)
        );
    }

    async fn refused(&self, ask: ControlCommand) -> String {
        match self.ask(ask).await {
            ControlResponse::Refused(why) => why,
            other => panic!("{other:?}"),
        }
    }

    /// Names and process ids of the executors.
    async fn executors(&self) -> Vec<(String, u32)> {
        let all = self.ps().await.into_iter();
        all.filter(|process| process.node.is_some())
            .map(|process| (process.name, process.pid.unwrap()))
            .collect()
    }

    /// Names of executors, and their ports in the newest placement of the gateway.
    async fn placed(&mut self) -> (Vec<String>, Vec<u16>) {
        let placement = self.flow.line("gateway", "placement ").await;
        let placement: Placement = serde_json::from_str(&placement).unwrap();
        let all = placement.addresses.iter().flat_map(|it| it.all());
        let ports = all.filter_map(|it| Some(it.tcp()?.port)).collect();
        let nodes = placement.plan.nodes.iter();
        (nodes.map(|node| node.name.to_string()).collect(), ports)
    }
}

fn last_answer(home: &Path, ask: ControlCommand) -> ControlResponse {
    answers(home, ask).pop().unwrap()
}

fn restart(name: &str) -> ControlCommand {
    ControlCommand::Restart {
        name: name.to_owned(),
    }
}

fn scale(name: &str, replicas: u16) -> ControlCommand {
    ControlCommand::Scale {
        name: name.to_owned(),
        replicas: NonZeroU16::new(replicas).unwrap(),
    }
}

#[tokio::test]
async fn the_processes_of_a_flow_are_listed() {
    let served = Served::up(&["name: a, replicas: 2"]).await;
    let found = served.ps().await;
    let names: Vec<&str> = found.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["a/rep-0", "a/rep-1", "gateway"]);
    for process in found {
        assert_eq!(process.state, ProcessState::Ready);
        assert!(lives(process.pid.unwrap()));
        assert!(process.memory_bytes.unwrap() > 0);
    }
}

#[tokio::test]
async fn a_restart_replaces_one_process_after_another() {
    let mut served = Served::up(&["name: a, replicas: 2", "name: b"]).await;
    let before = served.executors().await;
    let (_, first) = served.placed().await;
    served.changed(restart("a")).await;

    let after = served.executors().await;
    assert!(before[..2].iter().all(|(_, pid)| !lives(*pid)));
    assert_eq!(after[2], before[2], "`b` was not meant");
    // One is new in the second placement, and both in the third.
    let (_, second) = served.placed().await;
    let (_, third) = served.placed().await;
    assert_eq!(second[1..], first[1..]);
    assert_eq!(third[0], second[0]);
    assert_ne!(third[1], second[1]);
}

#[tokio::test]
async fn one_process_is_restarted_by_its_name() {
    let served = Served::up(&["name: a, replicas: 2"]).await;
    let before = served.executors().await;
    served.changed(restart("a/rep-1")).await;
    let after = served.executors().await;
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
}

#[tokio::test]
async fn a_process_on_a_port_of_the_file_is_stopped_before_its_successor_starts() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    drop(taken);
    let executor = format!("name: a, replicas: 2, port: [{port}]");
    let mut served = Served::up(&[&executor]).await;
    let before = served.executors().await;
    let (_, first) = served.placed().await;
    served.changed(restart("a/rep-0")).await;

    let after = served.executors().await;
    assert_ne!(before[0], after[0]);
    assert_eq!(before[1], after[1]);
    // Without it, and then with its successor.
    assert_eq!(served.placed().await.1, first[1..]);
    assert_eq!(served.placed().await.1, first);
}

#[tokio::test]
async fn a_node_is_scaled_up_and_down() {
    let mut served = Served::up(&["name: a"]).await;
    let before = served.executors().await;
    assert_eq!(served.placed().await.1.len(), 1);
    served.changed(scale("a", 3)).await;
    let more = served.executors().await;
    let names: Vec<&str> = more.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(names, ["a", "a/rep-1", "a/rep-2"]);
    assert_eq!(more[0], before[0]);
    assert_eq!(served.placed().await.1.len(), 3);
    served.changed(scale("a", 1)).await;
    assert_eq!(served.executors().await, before);
    assert!(!lives(more[1].1) && !lives(more[2].1));
    assert_eq!(served.placed().await.1.len(), 1);
}

#[tokio::test]
async fn a_reload_restarts_only_processes_that_differ() {
    let mut served = Served::up(&["name: a", "name: b", "name: c"]).await;
    let before = served.executors().await;
    served.placed().await;
    let new = plan("", &["name: a", "name: b, env: {NEW: yes}", "name: d"]);
    *served.next.lock().unwrap() = Ok(new);
    served.changed(ControlCommand::Reload).await;

    let after = served.executors().await;
    let names: Vec<&str> = after.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(names, ["a", "b", "d"]);
    assert_eq!(before[0], after[0]);
    assert_ne!(before[1], after[1]);
    assert!(!lives(before[1].1) && !lives(before[2].1));
    assert_eq!(served.placed().await.0, ["a", "b", "d"]);
}

#[tokio::test]
async fn a_flow_with_reload_follows_its_file() {
    let top = "with: {reload: true}";
    let mut served = Served::of(plan(top, &["name: a"])).await;
    served.placed().await;
    *served.next.lock().unwrap() = Ok(plan(top, &["name: a", "name: b"]));
    std::fs::write(served.folder.path().join("flow.yml"), "a longer text").unwrap();
    assert_eq!(served.placed().await.0, ["a", "b"]);
}

#[tokio::test]
async fn a_refused_change_leaves_everything_as_it_was() {
    let served = Served::up(&["name: a"]).await;
    let before = served.executors().await;
    let why = served.refused(restart("b")).await;
    assert_eq!(why, "the flow has no `b`; it has `a`");
    let why = served.refused(restart("gateway")).await;
    assert!(
        why.starts_with("the gateway holds the streams of clients"),
        "{why}"
    );
    *served.next.lock().unwrap() = Err("it is wrong".to_owned());
    let why = served.refused(ControlCommand::Reload).await;
    assert!(why.ends_with("the flow is unchanged: it is wrong"), "{why}");
    *served.next.lock().unwrap() = Ok(plan("", &["name: a", "name: b, env: {PLAY: dies}"]));
    let why = served.refused(ControlCommand::Reload).await;
    assert!(why.contains("`b` ended with exit code 3"), "{why}");
    assert_eq!(served.executors().await, before);
}

#[tokio::test]
async fn restarts_are_counted() {
    let mut served = Served::up(&["name: a"]).await;
    served.flow.ready("a").await;
    kill(served.executors().await[0].1);
    served.flow.ready("a").await;
    assert_eq!(served.ps().await[0].restarts, 1);
}

#[tokio::test]
async fn a_restarted_gateway_gets_the_newest_placement() {
    let mut served = Served::up(&["name: a"]).await;
    served.placed().await;
    served.flow.ready("gateway").await;
    served.changed(scale("a", 2)).await;
    let (_, scaled) = served.placed().await;
    kill(served.ps().await[2].pid.unwrap());
    assert_eq!(served.placed().await.1, scaled);
    // And what is old goes as soon as a new one is placed: numbers begin again.
    served.changed(restart("a")).await;
}

#[tokio::test]
async fn down_stops_the_flow_in_order() {
    let mut served = Served::up(&["name: a"]).await;
    let pids = served.executors().await;
    let home = served.home();
    let down = tokio::task::spawn_blocking(move || {
        let mut socket = flow_launch::connect(&home).unwrap();
        let question = serde_json::to_string(&ControlRequest::new(ControlCommand::Down)).unwrap();
        socket
            .write_all(format!("{question}\n").as_bytes())
            .unwrap();
        BufReader::new(socket).lines().count()
    });
    within(served.flow.running.ended()).await.unwrap();
    assert_eq!(within(down).await.unwrap(), 0, "the end is the answer");
    gone(pids[0].1).await;
}

#[tokio::test]
async fn each_process_has_a_log_file() {
    let served = Served::up(&["name: a, replicas: 2", "name: b, quiet: true"]).await;
    let logs = StateDirectory::logs(&served.home());
    let folder = served.folder;
    served.flow.stop().await.unwrap();
    for name in ["a/rep-0", "a/rep-1", "b", "gateway"] {
        let text = std::fs::read_to_string(log_file(&logs, name)).unwrap();
        let lines: Vec<LogLine> = text.lines().filter_map(LogLine::parse).collect();
        assert_eq!(lines.len(), text.lines().count(), "{name}: {text}");
        let noted = lines.iter().filter(|line| line.source == LogSource::Flow);
        let noted: Vec<&str> = noted.map(|line| &*line.text).collect();
        assert_eq!(noted.len(), 3, "{name}: {text}");
        assert_eq!(noted[0], "starting");
        assert!(noted[1].contains(" ready and listening on "), "{text}");
        assert!(noted[2].ends_with(" ended with exit code 0"), "{text}");
        assert!(text.contains(" stderr drained\n"), "{name}: {text}");
        assert!(lines.is_sorted_by_key(|line| line.time), "{name}: {text}");
    }
    drop(folder);
}

#[tokio::test]
async fn a_log_file_notes_the_start_and_the_exit_of_each_run() {
    let mut served = Served::up(&["name: a, env: {PLAY: dies-later}"]).await;
    let logs = StateDirectory::logs(&served.home());
    let first = served.flow.ready("a").await;
    let second = served.flow.ready("a").await;
    let folder = served.folder;
    served.flow.stop().await.unwrap();
    let text = std::fs::read_to_string(log_file(&logs, "a")).unwrap();
    let noted: Vec<String> = text
        .lines()
        .filter_map(LogLine::parse)
        .filter(|line| line.source == LogSource::Flow)
        .map(|line| line.text.to_string())
        .take(5)
        .collect();
    let expected = [
        "starting".to_owned(),
        first.to_string(),
        format!(
            "process {} ended with exit code 1, starting again in 1ms",
            first.pid
        ),
        "starting again (restart 1)".to_owned(),
        second.to_string(),
    ];
    assert_eq!(noted, expected, "{text}");
    drop(folder);
}
