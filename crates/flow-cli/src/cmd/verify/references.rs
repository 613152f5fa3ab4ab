//! Requests with the vectors that are expected in their replies.

use std::io::BufReader;
use std::path::PathBuf;
use std::pin::Pin;
use std::str::FromStr;

use anyhow::Context;
use flow_client::{Client, Exchange, ExchangeOptions, Outcome, Request};
use flow_core::{DocArrayVersion, Document, EmbeddingType, Tensor};
use futures_util::{Stream, stream};
use tokio::sync::mpsc::Receiver;

use super::answers::Answers;
use super::texts::Text;
use crate::cmd::post::{InputSource, RequestOptions, Template};
use crate::exit::BadUsage;

/// Where the right vectors come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reference {
    File(PathBuf),
    /// The URL of a gateway or an executor.
    Flow(String),
}

impl FromStr for Reference {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(match text.contains("://") {
            true => Self::Flow(text.to_owned()),
            false => Self::File(text.into()),
        })
    }
}

impl Reference {
    /// The documents to send: those of the file, or else those that the options name.
    pub(super) fn source(&self, options: &RequestOptions) -> anyhow::Result<InputSource> {
        match self {
            Self::Flow(_) if options.has_documents() => options.source(),
            Self::Flow(_) => Err(BadUsage(
                "to compare two flows, give the documents with `--input` or `--text`".to_owned(),
            )
            .into()),
            Self::File(_) if options.has_documents() => Err(BadUsage(
                "the documents are those of the reference file: leave out `--input` and `--text`"
                    .to_owned(),
            )
            .into()),
            Self::File(path) => {
                let file = std::fs::File::open(path)
                    .with_context(|| BadUsage(format!("cannot read `{}`", path.display())))?;
                let lines = Box::new(BufReader::new(file));
                Ok(InputSource::json_lines(lines, DocArrayVersion::default()))
            }
        }
    }
}

/// A document that was sent, and the vector that is right for it.
#[derive(Debug, Clone)]
pub(super) struct Expected {
    /// The number of its line or text; the first is 1.
    pub(super) entry: u64,
    pub(super) id: String,
    pub(super) text: String,
    /// The vector, or why the reference has none.
    pub(super) vector: Result<Vec<f32>, String>,
}

impl Expected {
    fn new(entry: u64, document: &Document, vector: Result<Vec<f32>, String>) -> Self {
        Self {
            entry,
            id: document.id(),
            text: document.text(),
            vector,
        }
    }
}

/// Requests, each with what its reply should have.
pub(super) type Requests = Pin<Box<dyn Stream<Item = (Request, Vec<Expected>)> + Send>>;

/// The vectors are those that the documents of the input had.
pub(super) fn stored(texts: Receiver<Vec<Text>>, template: &Template) -> Requests {
    let template = template.request.clone();
    Box::pin(stream::unfold(texts, move |mut texts| {
        let template = template.clone();
        async move {
            let (mut documents, mut expected) = (Vec::new(), Vec::new());
            for text in texts.recv().await? {
                let vector = values(text.embedding.as_ref(), "the reference file");
                expected.push(Expected::new(text.entry, &text.document, vector));
                documents.push(text.document);
            }
            Some(((template.request(documents), expected), texts))
        }
    }))
}

/// The vectors are those that another flow returns.
pub(super) fn of_flow(
    other: &Client,
    texts: Receiver<Vec<Text>>,
    template: &Template,
    options: &ExchangeOptions,
) -> Requests {
    let template = template.request.clone();
    let again = template.clone();
    let requests = stream::unfold(texts, move |mut texts| {
        let template = template.clone();
        async move {
            let sent = texts.recv().await?;
            let documents = sent.iter().map(|text| text.document.clone()).collect();
            Some(((template.request(documents), sent), texts))
        }
    });
    let exchange: Exchange<Vec<Text>> = other.exchange(options, Box::pin(requests));
    Box::pin(stream::unfold(exchange, move |mut exchange| {
        let template = again.clone();
        async move {
            let (documents, expected) = answered(exchange.next().await?);
            Some(((template.request(documents), expected), exchange))
        }
    }))
}

/// The documents to send to the flow itself, with the vectors of the other one.
fn answered(outcome: Outcome<Vec<Text>>) -> (Vec<Document>, Vec<Expected>) {
    let answers = outcome.result.as_ref();
    let answers = answers.map(|reply| Answers::new(&reply.documents));
    let expected = |(at, text): (usize, &Text)| {
        let vector = match &answers {
            Ok(answers) => {
                let found = answers.find(at, &text.document.id());
                values(
                    found.and_then(Document::embedding).as_ref(),
                    "the other flow",
                )
            }
            Err(failure) => Err(format!("the other flow failed: {failure}")),
        };
        Expected::new(text.entry, &text.document, vector)
    };
    let expected = outcome.tag.iter().enumerate().map(expected).collect();
    let documents = outcome.tag.into_iter().map(|text| text.document).collect();
    (documents, expected)
}

fn values(tensor: Option<&Tensor>, whose: &str) -> Result<Vec<f32>, String> {
    let Some(tensor) = tensor else {
        return Err(format!("{whose} has no vector for it"));
    };
    let values = EmbeddingType::floats_of(tensor);
    values.ok_or_else(|| {
        let found = tensor.data_type().as_str();
        format!("{whose} has a vector of `{found}` for it, which cannot be compared")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_with_a_scheme_is_a_flow() {
        let check = |text: &str, wanted: Reference| assert_eq!(text.parse(), Ok(wanted));
        check("grpc://a:1", Reference::Flow("grpc://a:1".to_owned()));
        check("a/b.jsonl", Reference::File("a/b.jsonl".into()));
    }
}
