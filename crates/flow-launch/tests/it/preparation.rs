//! A flow whose processes cannot start yet is seen, and can be ended.

use std::sync::mpsc::{Sender, channel};

use flow_launch::wire::{Answer, Ask, Done, Stage};
use flow_launch::{Failed, Home, Launch, Preparation};
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
    assert_eq!(preparing.ask(Ask::Down).await, None, "the end is the answer");
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
