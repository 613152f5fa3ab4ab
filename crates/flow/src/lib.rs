//! Flows from Rust: build one, start it, send it documents, and get them back.
//!
//! ```no_run
//! use flow::{Document, Flow, Node, stream};
//! use futures_util::TryStreamExt;
//! use serde_json::json;
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let encoder = Node::new("encoder").uses("sentence-encoder").uses_with(json!({"device": "cpu"}));
//! let flow = Flow::new().add(encoder).start().await?;
//! let client = flow.client().await?;
//! let texts = stream::iter(["hello", "world"].map(Document::from_text));
//! let encoded: Vec<Document> = client.post("/encode", texts).in_order().documents().try_collect().await?;
//! flow.stop().await?;
//! # Ok(())
//! # }
//! ```
//!
//! A [`Flow`] is the same file that `flow up` reads, made by calls in place of YAML, and is checked by the
//! same code. It runs in processes of the program `flow`, which end with the value that [`Flow::start`]
//! gives. A [`Client`] talks to any flow, wherever it runs.
#![warn(missing_docs)]

mod build;
mod client;
mod program;
mod running;

pub use build::{Flow, Node};
pub use client::{Client, Post, Progress, Reply};
pub use flow_core::{Code, Document, DocumentArray, Failure, Flavour, Tensor};
pub use flow_net::ConnectError;
pub use flow_spec::LoadError;
/// For streams of documents: `stream::iter` makes one of anything that can be walked through.
pub use futures_util::stream;
pub use running::{Running, StartError};

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the examples of the book's page on clients.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/clients.md")]
struct Book;
