use std::time::Duration;

use super::*;
use crate::supervisor::fake::{Behavior, FakeBackend, plan, secs, supervisor};
use crate::supervisor::shutdown::request;

/// A flow of fake children that runs in a task.
struct Flow {
    backend: Arc<FakeBackend>,
    shutdown: watch::Sender<Shutdown>,
    started: oneshot::Receiver<Result<StartedFlow, LaunchError>>,
    ended: tokio::task::JoinSet<()>,
}

impl Flow {
    fn start(executors: &str, behaviors: &[(&str, Behavior)]) -> Self {
        let backend = FakeBackend::new();
        for (name, behavior) in behaviors {
            backend.set(name, [*behavior]);
        }
        let (supervisor, _events) = supervisor(plan(executors), &backend);
        let (shutdown, requested) = watch::channel(Shutdown::None);
        let (sender, started) = oneshot::channel();
        let lifecycle = Lifecycle {
            supervisor,
            preparation: None,
            shutdown: requested,
        };
        let mut ended = tokio::task::JoinSet::new();
        ended.spawn(lifecycle.run(sender, std::future::pending()));
        Self {
            backend,
            shutdown,
            started,
            ended,
        }
    }

    async fn started(&mut self) -> Result<StartedFlow, LaunchError> {
        (&mut self.started).await.unwrap()
    }

    async fn ended(&mut self) {
        self.ended.join_next().await.unwrap().unwrap();
    }

    async fn stop(&mut self) {
        request(&self.shutdown, Shutdown::Drain);
        self.ended().await;
    }

    fn time(&self, what: &str) -> Duration {
        self.backend.times(what)[0]
    }
}

fn ready_after(time: u64) -> Behavior {
    Behavior {
        ready_after: Some(secs(time)),
        ..Behavior::SERVES
    }
}

fn drains_for(time: u64) -> Behavior {
    Behavior {
        drains_for: Some(secs(time)),
        ..Behavior::SERVES
    }
}

const TWO: &str = "[{name: a, uses: echo}, {name: b, uses: echo}]";

#[tokio::test(start_paused = true)]
async fn all_processes_start_together_and_the_flow_serves_when_the_last_is_ready() {
    let mut flow = Flow::start(TWO, &[("a", ready_after(3)), ("b", ready_after(7))]);
    let started = flow.started().await.unwrap();
    assert_eq!(started.executors.len(), 2);
    for name in ["start a", "start b", "start gateway"] {
        assert_eq!(flow.time(name), Duration::ZERO, "{name}");
    }
    assert_eq!(started.gateway.took.as_secs(), 7);
}

#[tokio::test(start_paused = true)]
async fn the_gateway_drains_before_any_executor_stops() {
    let mut flow = Flow::start(TWO, &[("gateway", drains_for(4)), ("a", drains_for(2))]);
    flow.started().await.unwrap();
    flow.stop().await;
    assert!(flow.time("exit gateway") >= secs(4));
    assert!(flow.time("terminate a") >= flow.time("exit gateway"));
    assert!(flow.time("terminate b") >= flow.time("exit gateway"));
    // Executors stop together.
    assert_eq!(flow.time("terminate a"), flow.time("terminate b"));
}

#[tokio::test(start_paused = true)]
async fn one_executor_that_fails_to_start_ends_the_others() {
    let fails = Behavior {
        ready_after: None,
        exits_after: Some(secs(1)),
        ..Behavior::SERVES
    };
    let mut flow = Flow::start(TWO, &[("a", ready_after(60)), ("b", fails)]);
    let error = flow.started().await.unwrap_err();
    assert!(matches!(error, LaunchError::Start(_)), "{error}");
    assert!(flow.time("exit a") < secs(60));
    assert!(flow.time("exit gateway") < secs(60));
    flow.ended().await;
}

#[tokio::test(start_paused = true)]
async fn a_flow_can_be_stopped_while_it_starts() {
    let mut flow = Flow::start(TWO, &[("a", ready_after(3_600))]);
    tokio::time::sleep(secs(1)).await;
    flow.stop().await;
    let error = flow.started().await.unwrap_err();
    assert!(matches!(error, LaunchError::Stopped), "{error}");
    assert!(flow.time("exit a") < secs(10));
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_dies_again_and_again_is_always_restarted() {
    let dies = Behavior {
        exits_after: Some(secs(1)),
        ..Behavior::SERVES
    };
    let mut flow = Flow::start(TWO, &[("gateway", dies)]);
    flow.started().await.unwrap();
    tokio::time::sleep(secs(600)).await;
    assert!(flow.backend.times("start gateway").len() > 50);
    assert_eq!(flow.backend.times("exit a").len(), 0);
    flow.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_kill_does_not_wait_for_the_grace_period() {
    let stubborn = Behavior {
        drains_for: None,
        ..Behavior::SERVES
    };
    let mut flow = Flow::start(TWO, &[("a", stubborn)]);
    flow.started().await.unwrap();
    request(&flow.shutdown, Shutdown::Drain);
    tokio::time::sleep(secs(1)).await;
    request(&flow.shutdown, Shutdown::Kill);
    flow.ended().await;
    assert!(flow.time("exit a") < secs(2));
}
