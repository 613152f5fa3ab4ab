use std::time::Duration;

use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use super::*;
use crate::supervisor::fake::{Behavior, FakeBackend, GRACE, plan, secs, supervisor};
use crate::supervisor::lifecycle::Lifecycle;
use crate::supervisor::shutdown::{Shutdown, request};

/// A flow of fake children that serves.
struct Flow {
    backend: Arc<FakeBackend>,
    supervisor: Arc<Supervisor>,
    shutdown: watch::Sender<Shutdown>,
    tasks: JoinSet<()>,
}

impl Flow {
    async fn serving(executors: &str) -> Self {
        Self::with(executors, &[]).await
    }

    async fn with(executors: &str, behaviors: &[(&str, Behavior)]) -> Self {
        let backend = FakeBackend::new();
        for (name, behavior) in behaviors {
            backend.set(name, [*behavior]);
        }
        let (supervisor, _events) = supervisor(plan(executors), &backend);
        let (shutdown, requested) = watch::channel(Shutdown::None);
        let (sender, started) = oneshot::channel();
        let lifecycle = Lifecycle {
            supervisor: supervisor.clone(),
            preparation: None,
            shutdown: requested,
        };
        let mut tasks = JoinSet::new();
        tasks.spawn(async {
            lifecycle.run(sender, std::future::pending()).await.unwrap();
        });
        started.await.unwrap().unwrap();
        Self {
            backend,
            supervisor,
            shutdown,
            tasks,
        }
    }

    async fn change(&self) -> Change<'_> {
        Change::begin(&self.supervisor, ChangeProgress::to_log()).await
    }

    async fn scale(&self, name: &str, replicas: u16) -> Result<(), ChangeError> {
        let replicas = NonZeroU16::new(replicas).unwrap();
        self.change().await.scale(name, replicas).await
    }

    async fn reload(&self, executors: &str) -> Result<(), ChangeError> {
        self.change().await.reload(plan(executors)).await
    }

    fn names(&self) -> Vec<String> {
        let executors = self.supervisor.executors().into_iter();
        executors.map(|it| it.spec.name.to_string()).collect()
    }

    fn time(&self, what: &str) -> Duration {
        let times = self.backend.times(what);
        *times.last().unwrap_or_else(|| panic!("no `{what}`"))
    }
}

fn ready_after(time: u64) -> Behavior {
    Behavior {
        ready_after: Some(secs(time)),
        ..Behavior::SERVES
    }
}

const ONE: &str = "[{name: a, uses: echo}]";
const TWO: &str = "[{name: a, uses: echo}, {name: b, uses: echo}]";

#[tokio::test(start_paused = true)]
async fn a_scale_waits_for_the_reload_in_progress_and_keeps_its_processes() {
    let flow = Flow::serving(ONE).await;
    flow.backend.set("b", [ready_after(30)]);
    let reload = flow.reload(TWO);
    let scale = async {
        tokio::time::sleep(secs(1)).await;
        flow.scale("a", 2).await
    };
    let (reloaded, scaled) = tokio::join!(reload, scale);
    reloaded.unwrap();
    scaled.unwrap();
    assert_eq!(flow.names(), ["a", "a/rep-1", "b"]);
    assert!(flow.time("start a/rep-1") >= secs(30));
    assert_eq!(flow.backend.times("start a").len(), 1);
    assert_eq!(flow.backend.times("start b").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_fails_leaves_everything_as_it_was() {
    let flow = Flow::serving(ONE).await;
    let fails = Behavior {
        ready_after: None,
        exits_after: Some(secs(1)),
        ..Behavior::SERVES
    };
    flow.backend.set("b", [fails]);
    flow.backend.set("c", [ready_after(60)]);
    let three = "[{name: a, uses: echo}, {name: b, uses: echo}, {name: c, uses: echo}]";
    let error = flow.reload(three).await.unwrap_err();
    assert!(matches!(error, ChangeError::NotReady(_)), "{error}");
    assert_eq!(flow.names(), ["a"]);
    // The new process that did not fail is stopped too.
    assert!(flow.time("exit c") < secs(60));
    assert!(flow.backend.times("exit a").is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_old_process_stops_only_when_its_successor_is_placed() {
    let flow = Flow::serving(ONE).await;
    flow.backend.set("a", [ready_after(20)]);
    flow.change().await.restart("a").await.unwrap();
    let starts = flow.backend.times("start a");
    assert_eq!(starts.len(), 2);
    assert!(flow.time("terminate a") >= starts[1] + secs(20));
}

#[tokio::test(start_paused = true)]
async fn an_old_process_does_not_wait_longer_than_the_grace_period_for_requests() {
    let never_settles = Behavior {
        never_settles: true,
        ..Behavior::SERVES
    };
    let flow = Flow::with(TWO, &[("gateway", never_settles)]).await;
    flow.reload(ONE).await.unwrap();
    assert_eq!(flow.time("terminate b").as_secs(), GRACE.as_secs());
    assert_eq!(flow.names(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_a_change_whose_new_process_is_never_ready() {
    let mut flow = Flow::serving(ONE).await;
    let silent = Behavior {
        ready_after: None,
        ..Behavior::SERVES
    };
    flow.backend.set("b", [silent]);
    let supervisor = flow.supervisor.clone();
    flow.tasks.spawn(async move {
        let change = Change::begin(&supervisor, ChangeProgress::to_log()).await;
        let error = change.reload(plan(TWO)).await.unwrap_err();
        assert!(matches!(error, ChangeError::Ending), "{error}");
    });
    tokio::time::sleep(secs(5)).await;
    request(&flow.shutdown, Shutdown::Drain);
    while let Some(ended) = flow.tasks.join_next().await {
        ended.unwrap();
    }
    assert!(flow.time("exit b") < secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_during_a_change_is_restarted() {
    let dies_once = Behavior {
        exits_after: Some(secs(5)),
        ..Behavior::SERVES
    };
    let flow = Flow::with(ONE, &[("a", dies_once)]).await;
    flow.backend.set("a", [Behavior::SERVES]);
    flow.backend.set("b", [ready_after(30)]);
    flow.reload(TWO).await.unwrap();
    assert_eq!(flow.names(), ["a", "b"]);
    assert_eq!(flow.backend.times("start a").len(), 2);
    assert!(flow.time("start a") < secs(10));
}
