//! A flow whose executors are being built is seen, and can be ended: before its start, and when its file is
//! read again.

use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};

use flow_launch::wire::{Answer, Ask, Done, Stage};
use flow_launch::{Failed, Home, Launch, Preparation, Reading, Source};
use flow_spec::Plan;

use crate::harness::{Flow, answers, launch, plan, within};

/// A flow with a folder, whose preparation lasts until it is let go.
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
            home: Some(Home::take(&folder.path().join("home")).unwrap()),
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

    async fn ask(&self, ask: Ask) -> Option<Answer> {
        let home = self.folder.path().join("home");
        let asked = tokio::task::spawn_blocking(move || answers(&home, ask).pop());
        within(asked).await.unwrap()
    }
}

#[tokio::test]
async fn a_flow_that_is_prepared_is_listed_as_starting() {
    let mut preparing = Preparing::begin();
    let Some(Answer::Done(Done::Listing(listing))) = preparing.ask(Ask::Ps).await else {
        panic!("no listing");
    };
    let all = listing.processes.iter();
    let found: Vec<_> = all
        .map(|it| (it.name.as_str(), it.node.as_deref(), it.state))
        .collect();
    assert_eq!(
        found,
        [
            ("a/rep-0", Some("a"), Stage::Starting),
            ("a/rep-1", Some("a"), Stage::Starting),
            ("b", Some("b"), Stage::Starting),
            ("gateway", None, Stage::Starting),
        ]
    );
    preparing.go.send(Ok(preparing.plan.clone())).unwrap();
    let started = within(preparing.flow.running.started()).await.unwrap();
    assert_eq!(started.executors.len(), 3);
}

#[tokio::test]
async fn a_flow_that_is_prepared_can_be_ended() {
    let mut preparing = Preparing::begin();
    assert_eq!(
        preparing.ask(Ask::Down).await,
        None,
        "the end is the answer"
    );
    let failed = within(preparing.flow.running.started()).await.unwrap_err();
    assert!(matches!(failed, Failed::Stopped), "{failed}");
}

#[tokio::test]
async fn a_preparation_that_fails_fails_the_flow_with_its_error() {
    let mut preparing = Preparing::begin();
    preparing.go.send(Err("it does not build")).unwrap();
    let failed = within(preparing.flow.running.started()).await.unwrap_err();
    assert_eq!(failed.to_string(), "it does not build");
}

#[tokio::test]
async fn a_flow_is_listed_while_its_file_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let plan = plan("", &["name: a"]);
    let (begun, has_begun) = channel();
    let (go, gone) = channel();
    let gone = Mutex::new(gone);
    let read = move || {
        begun.send(()).unwrap();
        Reading {
            plan: gone.lock().unwrap().recv().unwrap(),
            stamps: Vec::new(),
        }
    };
    let mut flow = Flow::launch(Launch {
        home: Some(Home::take(&home).unwrap()),
        source: Some(Source::new(Vec::new(), read)),
        ..launch(plan.clone())
    });
    within(flow.running.started()).await.unwrap();
    let ask = |ask: Ask| {
        let home = home.clone();
        tokio::task::spawn_blocking(move || answers(&home, ask).pop())
    };
    let reload = ask(Ask::Reload);
    let begun = tokio::task::spawn_blocking(move || has_begun.recv());
    within(begun).await.unwrap().unwrap();

    let Some(Answer::Done(Done::Listing(listing))) = within(ask(Ask::Ps)).await.unwrap() else {
        panic!("no listing");
    };
    assert_eq!(listing.processes.len(), 2);
    go.send(Ok(plan)).unwrap();
    let answer = within(reload).await.unwrap();
    assert_eq!(answer, Some(Answer::Done(Done::Changed)));
}
