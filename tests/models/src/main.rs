//! Models of concurrency: code that threads share runs under thousands of schedules, which Shuttle chooses at random. Shuttle
//! finds deadlocks itself, and prints the schedule of a failure, so that it can be repeated.
//!
//! The code is that of the program: its files are compiled here with the primitives of `sync.rs` in place of those of std and
//! tokio. `cargo run --manifest-path tests/models/Cargo.toml` runs all models.

mod budget;
mod permits;
mod pools;
mod queue;
mod sdk;
mod snapshot;
mod snapshots;
mod sync;

#[allow(dead_code, reason = "a model uses a part of it")]
#[path = "../../../crates/flow-net/src/byte_budget.rs"]
mod byte_budget;
#[allow(dead_code, reason = "a model uses a part of it")]
#[path = "../../../crates/flow-net/src/http2_windows.rs"]
mod http2_windows;
#[allow(dead_code, reason = "a model uses a part of it")]
#[path = "../../../crates/flow-gateway/src/limit.rs"]
mod limit;
#[allow(dead_code, reason = "a model uses a part of it")]
#[path = "../../../crates/flow-gateway/src/snapshot_store.rs"]
mod snapshot_store;

// The store names the crate with flow files, of which it needs no more than the model's placement.
extern crate self as flow_spec;
pub(crate) use snapshot::Placement;

/// Schedules of each model. All of them take a few seconds.
const SCHEDULES: usize = 20_000;

fn main() {
    let models: [(&str, fn()); 6] = [
        (
            "room is found after bytes are released",
            budget::room_is_found,
        ),
        (
            "permits are limited and none is lost",
            permits::none_is_lost,
        ),
        (
            "a cancelled caller takes no permit along",
            permits::cancelled,
        ),
        (
            "each call runs once and workers end",
            queue::each_call_runs_once,
        ),
        (
            "a request sees one whole snapshot, which ends with it",
            snapshots::are_whole_and_end,
        ),
        (
            "a placement that is refused changes nothing",
            snapshots::refused,
        ),
    ];
    for (name, model) in models {
        shuttle::check_random(model, SCHEDULES);
        shuttle::check_pct(model, SCHEDULES / 4, 3);
        println!("ok: {name}");
    }
}
