//! A gateway and executors as tasks of one process, over real sockets.

#![allow(
    clippy::unwrap_used,
    reason = "a test that cannot continue fails, in its helpers too"
)]

mod api_keys;
mod balancing;
mod behaviour;
mod case_table;
mod compression;
mod console;
mod console_rights;
mod drain;
mod fake_executor;
mod http;
mod http_client;
mod jwt;
mod model_routes;
mod monitoring;
mod name_server;
mod overload;
mod placements;
mod retries;
mod service_names;
mod shards;
mod test_gateway;
mod token_budget;
mod token_limit;
mod topology;
mod trace_context;
mod unknown_parameters;
mod websocket;
mod websocket_compression;
