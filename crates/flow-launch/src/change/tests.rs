use std::time::Duration;

use flow_process::KeepsState;
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
        tasks.spawn(lifecycle.run(sender, std::future::pending()));
        started.await.unwrap().unwrap();
        Self {
            backend,
            supervisor,
            shutdown,
            tasks,
        }
    }

    async fn change(&self) -> FlowChange<'_> {
        FlowChange::begin(&self.supervisor, "a change", ChangeProgress::to_log()).await
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
        let change = FlowChange::begin(&supervisor, "a change", ChangeProgress::to_log()).await;
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

fn keeps(state: Option<KeepsState>) -> Behavior {
    Behavior {
        keeps_state: state,
        ..Behavior::SERVES
    }
}

const IN_WORKSPACE: &str =
    "[{name: a, uses: echo, workspace: data, replicas: 2}, {name: b, uses: echo}]";

/// What happens to the executors during a change, and its outcome.
async fn steps(flow: &Flow, change: impl Future<Output = Result<(), ChangeError>>) -> Vec<String> {
    let before = flow.backend.order().len();
    change.await.unwrap();
    flow.backend.order().split_off(before)
}

#[tokio::test(start_paused = true)]
async fn a_process_with_state_in_a_workspace_ends_before_its_successor_starts() {
    // An executor in Python does not say, and may write into its workspace.
    for state in [Some(KeepsState::InWorkspace), None] {
        let keeps = keeps(state);
        let flow = Flow::with(IN_WORKSPACE, &[("a/rep-0", keeps), ("a/rep-1", keeps)]).await;
        let restart = async { flow.change().await.restart("a").await };
        let of = |name| ["terminate", "exit", "start"].map(|step| format!("{step} {name}"));
        let expected = [of("a/rep-0"), of("a/rep-1")].concat();
        assert_eq!(steps(&flow, restart).await, expected, "{state:?}");

        let changed = IN_WORKSPACE.replace("data", "data, env: {NEW: 'yes'}");
        assert_eq!(
            steps(&flow, flow.reload(&changed)).await,
            expected,
            "{state:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_process_without_state_starts_before_its_predecessor_ends() {
    let flow = Flow::serving(IN_WORKSPACE).await;
    let restart = async { flow.change().await.restart("a/rep-0").await };
    let expected = ["start a/rep-0", "terminate a/rep-0", "exit a/rep-0"];
    assert_eq!(steps(&flow, restart).await, expected);
}

#[tokio::test(start_paused = true)]
async fn a_successor_in_place_listens_where_its_predecessor_did() {
    let keeps = keeps(Some(KeepsState::InWorkspace));
    let flow = Flow::with(IN_WORKSPACE, &[("a/rep-0", keeps)]).await;
    let address = || flow.supervisor.executors()[0].address();
    let before = address();
    flow.change().await.restart("a/rep-0").await.unwrap();
    assert_eq!(address(), before);
    assert!(before.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_cannot_be_replaced_in_place_comes_back() {
    let serves = keeps(Some(KeepsState::InWorkspace));
    let fails = Behavior {
        ready_after: None,
        exits_after: Some(secs(1)),
        ..serves
    };
    let flow = Flow::with(IN_WORKSPACE, &[("a/rep-0", serves)]).await;
    flow.backend.set("a/rep-0", [fails, serves]);
    let error = flow.change().await.restart("a/rep-0").await.unwrap_err();
    assert!(matches!(error, ChangeError::NotReady(_)), "{error}");
    assert_eq!(flow.names(), ["a/rep-0", "a/rep-1", "b"]);
    assert!(flow.supervisor.executors()[0].is_supervised());
}

#[tokio::test(start_paused = true)]
async fn the_number_of_processes_of_an_executor_with_state_does_not_change() {
    for state in [KeepsState::InWorkspace, KeepsState::InMemory] {
        let flow = Flow::with(ONE, &[("a", keeps(Some(state)))]).await;
        let error = flow.scale("a", 2).await.unwrap_err();
        assert!(matches!(error, ChangeError::State { .. }), "{error}");
        assert!(error.to_string().contains("`shards`"), "{error}");
        flow.scale("a", 1).await.unwrap();
        for more in ["replicas: 2", "shards: 2"] {
            let more = format!("[{{name: a, uses: echo, {more}}}]");
            let error = flow.reload(&more).await.unwrap_err();
            assert!(matches!(error, ChangeError::State { .. }), "{error}");
        }
        assert_eq!(flow.names(), ["a"]);
        // It is another executor.
        flow.reload("[{name: a, uses: other, replicas: 2}]")
            .await
            .unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_loses_what_is_in_memory_says_so() {
    let flow = Flow::with(ONE, &[("a", keeps(Some(KeepsState::InMemory)))]).await;
    let (progress, mut said) = ChangeProgress::channel();
    let change = FlowChange::begin(&flow.supervisor, "a change", progress).await;
    change.restart("a").await.unwrap();
    let said = said.recv().await.unwrap();
    assert_eq!(
        said,
        "`a` has no `workspace`: what it keeps ends with its process"
    );
}

#[tokio::test(start_paused = true)]
async fn a_change_that_waits_for_another_one_says_for_which() {
    let flow = Flow::serving(ONE).await;
    flow.backend.set("b", [ready_after(30)]);
    let reload = async {
        let progress = ChangeProgress::to_log();
        let change = FlowChange::begin(&flow.supervisor, "`flow reload`", progress).await;
        change.reload(plan(TWO)).await.unwrap();
    };
    let scale = async {
        tokio::time::sleep(secs(1)).await;
        let (progress, mut said) = ChangeProgress::channel();
        let change = FlowChange::begin(&flow.supervisor, "`flow scale a=2`", progress).await;
        change.scale("a", NonZeroU16::MIN).await.unwrap();
        said.recv().await.unwrap()
    };
    let ((), said) = tokio::join!(reload, scale);
    assert_eq!(said, "waits for `flow reload` to finish");
}

const COLOCATED: &str = "[{name: a, uses: echo, colocate: true}, {name: b, uses: echo}]";

#[tokio::test(start_paused = true)]
async fn a_colocated_executor_has_no_process_and_is_placed_in_the_gateway() {
    let flow = Flow::serving(COLOCATED).await;
    assert_eq!(flow.names(), ["b"]);
    let (_, placement) = flow.supervisor.place();
    let all = |at: usize| placement.addresses[at].all().map(ToString::to_string);
    assert_eq!(all(0).collect::<Vec<_>>(), ["colocated:a"]);
    assert_eq!(all(1).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_colocated_executor_stays_as_it_is_and_others_change() {
    let flow = Flow::serving(COLOCATED).await;
    let refused = |outcome: Result<(), ChangeError>| {
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, ChangeError::Colocated(name) if name == "a"),
            "{error}"
        );
    };
    refused(flow.scale("a", 2).await);
    refused(flow.change().await.restart("a").await);
    for other in [
        "uses_with: {x: 1}, colocate: true",
        "workers: 2, colocate: true",
        "colocate: false",
    ] {
        let file = format!("[{{name: a, uses: echo, {other}}}, {{name: b, uses: echo}}]");
        refused(flow.reload(&file).await);
    }
    refused(flow.reload("[{name: b, uses: echo}]").await);
    flow.scale("b", 2).await.unwrap();
    assert_eq!(flow.names(), ["b", "b/rep-1"]);
}
