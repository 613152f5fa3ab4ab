//! The client of flows: sends documents, and returns the replies.
//!
//! ```text
//! documents ──► Request ──► Exchange ──► Reply or Failure
//!               request.rs  exchange.rs, connection.rs, window.rs  reply.rs
//! ```
//!
//! - [`Post`] is the simple interface: a stream of documents in, a stream of replies or documents out.
//! - [`Exchange`] is below it: the caller builds the requests, tags each with a value of its own, and gets the tag back
//!   with the outcome.
//! - [`Client::stream`] sends one document, and returns those that an executor streams in answer.
//! - [`Discovery`] lists the endpoints and executors of a flow, and the version of DocArray that they read.
//!
//! Requests in progress are limited by a window which also keeps their order. A failed request is a
//! [`Failure`](flow_core::Failure) with its code, and does not affect the others. Requests are retried if the caller allows
//! it; `flow_net::retry` decides which.

#![warn(missing_docs)]

mod addressees;
mod client;
mod connection;
mod discovery;
mod exchange;
mod post;
mod reply;
mod request;
mod streamed;
mod window;

pub use addressees::UnknownExecutor;
pub use client::Client;
pub use discovery::{Discovery, UnknownEndpoint};
pub use exchange::{Exchange, ExchangeOptions, Outcome, Unfinished};
pub use post::{Post, Progress};
pub use reply::Reply;
pub use request::{Request, RequestTemplate};
pub use streamed::Documents;
