//! Builds flows, starts them, and sends them documents.
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
//! A [`Flow`] is a flow file that is built by method calls instead of YAML, and is checked by the same code. It runs in
//! processes of the program `flow`, which end when the value that [`Flow::start`] returns is dropped. A [`Client`] connects to
//! any flow.
#![warn(missing_docs)]

mod build;
mod program;
mod running;

pub use build::{Flow, Node};
pub use flow_client::{Client, Discovery, Post, Progress, Reply, UnknownEndpoint};
pub use flow_core::{
    Code, DocArrayVersion, Document, DocumentArray, EmbeddingType, Failure, Tensor,
};
pub use flow_net::tls::{CertificateFiles, TlsOptions};
pub use flow_net::{ApiKey, BadApiKey, Compression, ConnectError, ConnectOptions};
pub use flow_spec::LoadError;
/// Functions for streams of documents: `stream::iter` turns an iterator into a stream.
pub use futures_util::stream;
pub use running::{Running, StartError};

/// Compiles the example of the book's page on TLS and API keys.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/tls-and-keys.md")]
struct TlsAndKeys;

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

/// Compiles the examples of the book's page on clients.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/src/clients.md")]
struct Book;
