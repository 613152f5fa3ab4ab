//! A flow whose executors are being built is supervised and can be stopped: before its start, and during a reload.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use flow_launch::protocol::{ControlCommand, ControlResponse, ControlResult, ProcessState};
use flow_launch::{Launch, LaunchError, PlanReading, PlanSource, Preparation, StateDirectory};
use flow_spec::Plan;

use crate::harness::{Flow, answers, kill, launch, plan, within};

/// A flow with a state directory, whose preparation lasts until the test ends it.
struct Preparing {
    flow: Flow,
    folder: tempfile::TempDir,
    go: Sender<Result<Plan, &'static str>>,
    plan: Plan,
}

impl Preparing {
    fn begin() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let plan = plan("", &["name: a, replicas: 2", "name: b"]);
        let (go, gone) = channel();
        let stopped = go.clone();
        let run = move || Ok(gone.recv().unwrap()?);
        let stop = move || stopped.send(Err("stopped")).unwrap();
        let flow = Flow::launch(Launch {
            state_directory: Some(StateDirectory::lock(&folder.path().join("home")).unwrap()),
            preparation: Some(Preparation::new(run, stop)),
            ..launch(plan.clone())
        });
        Self {
            flow,
            folder,
            go,
            plan,
        }
    }

    async fn ask(&self, ask: ControlCommand) -> Option<ControlResponse> {
        let home = self.folder.path().join("home");
        let asked = tokio::task::spawn_blocking(move || answers(&home, ask).pop());
        within(asked).await.unwrap()
    }
}

#[tokio::test]
async fn a_flow_in_preparation_is_listed_as_starting() {
    let mut preparing = Preparing::begin();
    let Some(ControlResponse::Done(ControlResult::Listing(listing))) =
        preparing.ask(ControlCommand::Ps).await
    else {
        panic!("no listing");
    };
    let all = listing.processes.iter();
    let found: Vec<_> = all
        .map(|it| (it.name.as_str(), it.node.as_deref(), it.state))
        .collect();
    assert_eq!(
        found,
        [
            ("a/rep-0", Some("a"), ProcessState::Starting),
            ("a/rep-1", Some("a"), ProcessState::Starting),
            ("b", Some("b"), ProcessState::Starting),
            ("gateway", None, ProcessState::Starting),
        ]
    );
    preparing.go.send(Ok(preparing.plan.clone())).unwrap();
    let started = within(preparing.flow.running.started()).await.unwrap();
    assert_eq!(started.executors.len(), 3);
}

#[tokio::test]
async fn a_flow_in_preparation_can_be_stopped() {
    let mut preparing = Preparing::begin();
    assert_eq!(
        preparing.ask(ControlCommand::Down).await,
        None,
        "the end is the answer"
    );
    let failed = within(preparing.flow.running.started()).await.unwrap_err();
    assert!(matches!(failed, LaunchError::Stopped), "{failed}");
}

#[tokio::test]
async fn a_failed_preparation_fails_the_start_with_its_error() {
    let mut preparing = Preparing::begin();
    preparing.go.send(Err("it does not build")).unwrap();
    let failed = within(preparing.flow.running.started()).await.unwrap_err();
    assert_eq!(failed.to_string(), "it does not build");
}

#[tokio::test]
async fn a_flow_is_listed_during_a_reload() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let plan = plan("", &["name: a"]);
    let (begun, has_begun) = channel();
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let read = move || {
        begun.send(()).unwrap();
        PlanReading {
            plan: gone.lock().unwrap().recv().unwrap(),
            stamps: Vec::new(),
        }
    };
    let mut flow = Flow::launch(Launch {
        state_directory: Some(StateDirectory::lock(&home).unwrap()),
        source: Some(PlanSource::new(Vec::new(), read, || {
            unreachable!("the flow file is not checked here")
        })),
        ..launch(plan.clone())
    });
    within(flow.running.started()).await.unwrap();
    let ask = |ask: ControlCommand| {
        let home = home.clone();
        tokio::task::spawn_blocking(move || answers(&home, ask).pop())
    };
    let reload = ask(ControlCommand::Reload);
    let begun = tokio::task::spawn_blocking(move || has_begun.recv());
    within(begun).await.unwrap().unwrap();

    let Some(ControlResponse::Done(ControlResult::Listing(listing))) =
        within(ask(ControlCommand::Ps)).await.unwrap()
    else {
        panic!("no listing");
    };
    assert_eq!(listing.processes.len(), 2);
    go.send(Ok(plan)).unwrap();
    let answer = within(reload).await.unwrap();
    assert_eq!(answer, Some(ControlResponse::Done(ControlResult::Changed)));
}

/// The folder of a flow of `a`, whose next reading of its file never returns.
async fn with_a_build_that_hangs() -> (Flow, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let directory = folder.path().join("home");
    let (begun, has_begun) = channel();
    // The closure owns both ends, so the wait never ends.
    let ends = Mutex::new(channel::<PlanReading>());
    let read = move || {
        begun.send(()).unwrap();
        ends.lock().unwrap().1.recv().unwrap()
    };
    let mut flow = Flow::launch(Launch {
        state_directory: Some(StateDirectory::lock(&directory).unwrap()),
        source: Some(PlanSource::new(Vec::new(), read, || {
            unreachable!("the flow file is not checked here")
        })),
        ..launch(plan("", &["name: a"]))
    });
    within(flow.running.started()).await.unwrap();
    // The caller of the reload gets no answer until the flow ends.
    std::thread::spawn(move || answers(&directory, ControlCommand::Reload));
    let begun = tokio::task::spawn_blocking(move || has_begun.recv());
    within(begun).await.unwrap().unwrap();
    (flow, folder)
}

#[tokio::test]
async fn a_flow_is_supervised_and_changed_while_a_build_hangs() {
    let (mut flow, folder) = with_a_build_that_hangs().await;
    let ask = |command: ControlCommand| {
        let directory = folder.path().join("home");
        tokio::task::spawn_blocking(move || answers(&directory, command).pop())
    };
    let first = flow.ready("a").await;
    kill(first.pid);
    let second = flow.ready("a").await;
    assert_ne!(first.pid, second.pid);

    let changed = Some(ControlResponse::Done(ControlResult::Changed));
    let scale = ControlCommand::Scale {
        name: "a".to_owned(),
        replicas: 2.try_into().unwrap(),
    };
    assert_eq!(within(ask(scale)).await.unwrap(), changed);
    let restart = ControlCommand::Restart {
        name: "a".to_owned(),
    };
    assert_eq!(within(ask(restart)).await.unwrap(), changed);
    let listed = within(ask(ControlCommand::Ps)).await.unwrap();
    let Some(ControlResponse::Done(ControlResult::Listing(listing))) = listed else {
        panic!("no listing");
    };
    assert_eq!(listing.processes.len(), 3);

    // `flow down`.
    let down = ask(ControlCommand::Down);
    within(flow.running.ended()).await.unwrap();
    assert_eq!(within(down).await.unwrap(), None);
}

#[tokio::test]
async fn a_flow_can_be_stopped_while_a_build_hangs() {
    let (flow, _folder) = with_a_build_that_hangs().await;
    flow.stop().await.unwrap();
}
