//! Jina's tutorial: 10,000 documents from a generator are encoded, 32 a request.
//!
//! ```text
//! cargo build --release && cargo run --release --example tutorial -p flow-rs
//! ```

#![allow(clippy::print_stdout, reason = "an example shows what it did")]

use std::error::Error;

use flow::{Document, Flow, Node, stream};
use futures_util::TryStreamExt;
use indicatif::ProgressBar;
use serde_json::json;

const WORDS: &[&str] = &[
    "a", "fox", "is", "quick", "and", "brown", "the", "dog", "was", "lazy",
];

/// Sentences of the same words in different orders.
fn sentences(len: usize) -> impl Iterator<Item = Document> {
    let word = |number: usize, at: u32| WORDS[number / 10_usize.pow(at) % WORDS.len()];
    (0..len).map(move |number| {
        let words = [3, 1, 0, 2].map(|at| word(number, at));
        Document::from_text(&words.join(" "))
    })
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let len = std::env::args()
        .nth(1)
        .map_or(Ok(10_000), |it| it.parse())?;
    let encoder = Node::new("encoder")
        .uses("sentence-encoder")
        .uses_with(json!({"device": "cpu"}));
    let flow = Flow::new().add(encoder).start().await?;

    let bar = ProgressBar::new(len as u64);
    let post = flow
        .client()
        .await?
        .post("/encode", stream::iter(sentences(len)));
    let post = post
        .request_size(32)
        .on_progress(move |it| bar.set_position(it.documents as u64));
    let encoded: Vec<Document> = post.documents().try_collect().await?;

    let vectors = encoded.iter().filter_map(Document::embedding).count();
    println!("{vectors} vectors");
    flow.stop().await?;
    Ok(())
}
