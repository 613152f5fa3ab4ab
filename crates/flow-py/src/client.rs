//! The client of flows, as Python's client uses it.
//!
//! A [`Connection`] is made once. Each post is an [`Exchange`], which the caller drives step by step: a step returns a
//! reply, or says that the next request can be sent. So documents are taken from Python only when the flow takes them,
//! on the thread of the caller, and the interpreter's lock is free while the exchange waits.

mod connection;
mod exchange;
mod feed;
mod reply;
mod streamed;
mod tasks;

pub(crate) use connection::Connection;
pub(crate) use exchange::{CallError, Exchange};
pub(crate) use reply::Reply;
pub(crate) use streamed::DocumentStream;
