//! Everything that touches sockets and tonic's transport, for both ends of a connection.
//!
//! Serving: a [`Listener`] is a bound port, a [`LocalListener`] a Unix socket, and a [`Server`] answers on its connections with an
//! [`HttpService`], such as [`GrpcService`], until a [`Drain`] begins, then lets requests in progress finish.
//! [`MetricsServer`] shows a process's metrics. Calling: a [`Pool`] holds the [`Replica`]s of a node and
//! leases the least busy one; [`retry`] decides whether a call is tried again. [`Client`] calls a gateway, and [`HttpClient`]
//! other services.

#![warn(missing_docs)]

mod accept_errors;
mod byte_budget;
mod client;
mod compression;
mod connection;
mod connection_handle;
mod connection_threads;
mod describe;
mod dns;
mod drain;
mod file_watch;
pub mod grpc;
mod health;
mod http2_windows;
mod http_client;
mod joint_writes;
mod limits;
mod listener;
mod local_listener;
mod metrics_server;
mod open_connections;
mod other_tasks;
mod partial_message;
mod pool;
mod process_limits;
mod read_turn;
mod replica;
mod reply_body;
mod request_thread;
pub mod retry;
mod retry_budget;
mod runtime_thread;
mod server;
pub mod status;
mod sync;
pub mod tls;

pub use byte_budget::{ByteBudget, HeldBytes};
pub use client::{
    ApiKey, BadApiKey, Client, ConnectError, ConnectOptions, PostOptions, Replies, StreamedReplies,
};
pub use compression::Compression;
pub use connection::{BoxError, HttpService};
pub use connection_handle::ConnectionHandle;
pub use connection_threads::{ConnectionSpawner, ConnectionThreads};
pub use describe::{info, with_reflection};
pub use drain::{Drain, Draining};
pub use file_watch::FileWatch;
pub use grpc::{
    BadMetadata, GrpcReply, GrpcRoutes, GrpcServer, GrpcService, Metadata, SingleDataServer,
};
pub use health::Health;
pub use http_client::{HttpClient, HttpClientError, HttpResponse, HttpVersion};
pub use limits::{ConnectionLimits, Limits, MESSAGE_LEN_MAX};
pub use listener::{Accept, BindError, Listener};
pub use local_listener::{AnyListener, LocalListener};
pub use metrics_server::{MetricsServer, MetricsServerError};
pub use pool::{
    CallMetrics, DocumentStream, HedgeAfter, HostName, Lease, NameState, NoReplica, Pool,
    ReplicaName, ServiceName,
};
pub use process_limits::{memory_max, raise_open_files};
pub use replica::{BadUri, CallCounts, LocalService, Replica, Reply, Shards, write_usage};
pub use reply_body::OpenRequest;
pub use request_thread::{
    CompressedElsewhere, HereOrThere, MadeElsewhere, RequestSpawner, RequestThread,
};
pub use server::{Server, Stopped};
