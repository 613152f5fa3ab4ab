//! The whole product, from outside: real processes, real sockets, stock peers.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot go on fails, in its helpers too"
)]

mod bad_input;
mod bad_luck;
mod chaos;
mod cli;
mod collector;
mod colocation;
mod compose;
mod console;
mod container_tutorial;
mod containers;
mod devices;
mod docker;
mod documents;
mod encode;
mod exceptions;
mod export;
mod gallery;
mod hostile;
mod http_apis;
mod http_clients;
mod hub;
mod hub_python;
mod idle_connections;
mod images;
mod joins;
mod large_messages;
mod model_hub;
mod monitoring;
mod observability;
mod parameters;
mod pgvector;
mod processes;
mod python_documents;
mod python_executors;
mod python_flow;
mod python_install;
mod python_schemas;
mod python_telemetry;
mod python_types;
mod python_versions;
mod registry;
mod release;
mod request_logs;
mod sandbox;
mod scaffold;
mod secrets;
mod several_gateways;
mod state;
mod stock_clients;
mod stock_executors;
mod stock_gateways;
mod swarm;
mod telemetry;
mod timing;
#[allow(dead_code, reason = "the encoder's own tests use the rest of it")]
#[path = "../../crates/flow-models/tests/it/tiny_model.rs"]
mod tiny_model;
mod tls;
mod tokens;
mod top;
mod topologies;
mod tracing;
mod tune;
mod unreachable;
mod verify;

/// The executor of `src/bin/marker.rs`: the same in Rust as `peers/marker.py` is in Python.
const MARKER: &str = env!("CARGO_BIN_EXE_marker");

/// The executor of `src/bin/confined.rs`.
const CONFINED: &str = env!("CARGO_BIN_EXE_confined");

/// The executor of `src/bin/faulty.rs`.
const FAULTY: &str = env!("CARGO_BIN_EXE_faulty");

/// The executor that records each request that it runs.
const RECORDER: &str = env!("CARGO_BIN_EXE_recorder");
