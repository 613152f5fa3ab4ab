use super::*;
use crate::spec::process_spec;
use crate::supervisor::Supervisor;
use crate::supervisor::fake::{Behavior, FakeBackend, GRACE, ms, plan, secs, shared, supervisor};
use crate::supervisor::handle::ProcessHandle;

/// The executor `a` with these options, not started yet.
fn spec(options: &str) -> ProcessSpec {
    let plan = plan(&format!("[{{name: a, uses: echo{options}}}]"));
    process_spec::executors(&plan, &shared()).unwrap().remove(0)
}

/// Starts the executor `a`, which behaves like this in its runs.
fn start(
    options: &str,
    runs: impl IntoIterator<Item = Behavior>,
) -> (Arc<FakeBackend>, Arc<Supervisor>, ProcessHandle) {
    let backend = FakeBackend::new();
    backend.set("a", runs);
    let (supervisor, _events) = supervisor(plan("[{name: a, uses: echo}]"), &backend);
    let handle = supervisor.start(spec(options));
    (backend, supervisor, handle)
}

async fn reaches(handle: &ProcessHandle, state: ProcessState) {
    let mut status = handle.status.clone();
    let reached = status.wait_for(|it| it.state == state);
    tokio::time::timeout(secs(3_600), reached)
        .await
        .unwrap()
        .unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_again_and_again_is_always_restarted_after_doubling_waits() {
    let dies = Behavior {
        exits_after: Some(secs(1)),
        ..Behavior::SERVES
    };
    let (backend, _supervisor, handle) = start("", [dies]);
    tokio::time::sleep(secs(120)).await;
    let starts = backend.times("start a");
    let waits: Vec<u128> = starts
        .windows(2)
        .map(|pair| (pair[1] - pair[0] - secs(1)).as_millis() / 100 * 100)
        .collect();
    assert_eq!(
        waits[..10],
        [
            100, 200, 400, 800, 1_600, 3_200, 6_400, 10_000, 10_000, 10_000
        ]
    );
    assert!(handle.is_supervised());
}

#[tokio::test(start_paused = true)]
async fn a_stable_run_resets_the_waits() {
    let dies = Behavior {
        exits_after: Some(secs(1)),
        ..Behavior::SERVES
    };
    let stable = Behavior {
        exits_after: Some(secs(31)),
        ..Behavior::SERVES
    };
    let (backend, _supervisor, _handle) = start("", [dies, dies, stable, Behavior::SERVES]);
    tokio::time::sleep(secs(60)).await;
    let (starts, exits) = (backend.times("start a"), backend.times("exit a"));
    let wait = |run: usize| (starts[run] - exits[run - 1]).as_millis() / 100 * 100;
    assert_eq!((wait(1), wait(2), wait(3)), (100, 200, 100));
}

#[tokio::test(start_paused = true)]
async fn a_process_that_was_never_ready_is_not_restarted() {
    let fails = Behavior {
        ready_after: None,
        exits_after: Some(secs(1)),
        ..Behavior::SERVES
    };
    let (backend, _supervisor, handle) = start("", [fails]);
    let error = handle.ready().await.unwrap_err().unwrap();
    assert_eq!(
        error.to_string(),
        "`a` ended with exit code 1 and wrote nothing"
    );
    assert_eq!(handle.status().state, ProcessState::Failed);
    assert_eq!(backend.order(), ["start a", "exit a"]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_takes_too_long_to_start_is_killed() {
    let silent = Behavior {
        ready_after: None,
        ..Behavior::SERVES
    };
    let (backend, _supervisor, handle) = start(", timeout_ready: 5000", [silent]);
    let error = handle.ready().await.unwrap_err().unwrap();
    assert!(matches!(*error, ProcessStartError::TooLate { limit, .. } if limit == secs(5)));
    assert_eq!(backend.times("kill a"), [secs(5)]);
}

#[tokio::test(start_paused = true)]
async fn a_restart_that_is_not_ready_in_time_counts_as_a_death() {
    let dies = Behavior {
        exits_after: Some(secs(1)),
        ..Behavior::SERVES
    };
    let silent = Behavior {
        ready_after: None,
        ..Behavior::SERVES
    };
    let (backend, _supervisor, handle) =
        start(", timeout_ready: 5000", [dies, silent, Behavior::SERVES]);
    tokio::time::sleep(secs(20)).await;
    assert_eq!(handle.status().state, ProcessState::Ready);
    assert_eq!(handle.status().restarts, 2);
    assert_eq!(backend.times("kill a").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_hangs_is_killed_and_restarted() {
    let hangs = Behavior {
        hangs: true,
        ..Behavior::SERVES
    };
    let (backend, _supervisor, handle) = start("", [hangs, Behavior::SERVES]);
    tokio::time::sleep(secs(40)).await;
    // An answer at once, then three checks of five seconds, each five seconds after the one before.
    let killed = backend.times("kill a");
    assert_eq!(killed.len(), 1);
    assert_eq!(killed[0].as_secs(), 30);
    assert_eq!(handle.status().state, ProcessState::Ready);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_dies_while_it_drains_is_not_restarted() {
    let slow = Behavior {
        exits_after: Some(secs(12)),
        drains_for: Some(secs(9)),
        ..Behavior::SERVES
    };
    let (backend, _supervisor, handle) = start("", [slow]);
    handle.ready().await.unwrap();
    tokio::time::sleep(secs(10)).await;
    handle.stop().await;
    assert_eq!(backend.order(), ["start a", "terminate a", "exit a"]);
    assert_eq!(backend.times("exit a"), [secs(12)]);
}

#[tokio::test(start_paused = true)]
async fn a_process_that_does_not_drain_in_time_is_killed() {
    let stubborn = Behavior {
        drains_for: None,
        ..Behavior::SERVES
    };
    let (backend, _supervisor, handle) = start("", [stubborn]);
    handle.ready().await.unwrap();
    handle.stop().await;
    assert_eq!(
        backend.order(),
        ["start a", "terminate a", "kill a", "exit a"]
    );
    assert_eq!(
        backend.times("kill a")[0].as_secs(),
        (GRACE + GRACE_SLACK).as_secs()
    );
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_the_wait_for_a_restart() {
    let dies = Behavior {
        exits_after: Some(ms(1)),
        ..Behavior::SERVES
    };
    let (backend, _supervisor, handle) = start("", [dies]);
    reaches(&handle, ProcessState::Waiting).await;
    handle.stop().await;
    assert_eq!(backend.order(), ["start a", "exit a"]);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_process_gets_its_port_again() {
    let dies = Behavior {
        exits_after: Some(secs(1)),
        ..Behavior::SERVES
    };
    let (_backend, _supervisor, handle) = start("", [dies, Behavior::SERVES]);
    let before = handle.ready().await.unwrap();
    tokio::time::sleep(secs(10)).await;
    assert_eq!(handle.status().restarts, 1);
    assert_eq!(handle.address(), Some(before.address));
}
