//! Starts the flow of a candidate, sends it texts for some time, and measures.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use flow::{Document, Flow, Node};
use flow_client::{Client, ExchangeOptions, RequestTemplate};
use flow_core::cosine;
use futures_util::{StreamExt, stream};

use super::candidate::Candidate;
use super::choice::Measurement;

/// Texts whose vectors are compared.
const COMPARED: usize = 64;

/// How long a flow is loaded before its times count.
const WARM_UP: Duration = Duration::from_secs(1);

const ENDPOINT: &str = "/encode";

/// What a flow is loaded with.
#[derive(Debug)]
pub(super) struct Load {
    pub(super) texts: Vec<String>,
    /// Requests in progress.
    pub(super) concurrency: NonZeroUsize,
    /// Texts in each request.
    pub(super) request_size: NonZeroUsize,
    /// For how long times count.
    pub(super) time: Duration,
}

impl Load {
    /// The documents of one request.
    fn documents(&self, request: usize) -> Vec<Document> {
        let first = request * self.request_size.get();
        let texts = (first..).take(self.request_size.get());
        texts
            .map(|at| Document::from_text(&self.texts[at % self.texts.len()]))
            .collect()
    }
}

/// Measures a candidate. Returns the vectors of the texts that are compared, too; `exact` has those of f32, or is empty if
/// this is f32.
pub(super) async fn run(
    candidate: &Candidate,
    model: &str,
    cores: NonZeroUsize,
    load: &Arc<Load>,
    exact: &[Vec<f32>],
) -> anyhow::Result<(Measurement, Vec<Vec<f32>>)> {
    let program = std::env::current_exe().context("cannot find this program")?;
    let replicas = u16::try_from(candidate.replicas).unwrap_or(u16::MAX);
    let encoder = Node::new("encoder")
        .uses("sentence-encoder")
        .uses_with(candidate.uses_with(model, cores.get()).into())
        .replicas(replicas)
        .colocate(candidate.colocate);
    let running = Flow::new().add(encoder).program(program).start().await?;
    let client = running.client().await?;
    let measured = measure(&client, load, exact).await;
    running.stop().await.context("cannot stop the flow")?;
    measured
}

async fn measure(
    client: &Client,
    load: &Arc<Load>,
    exact: &[Vec<f32>],
) -> anyhow::Result<(Measurement, Vec<Vec<f32>>)> {
    let vectors = vectors(client, load).await?;
    let cosine = lowest_cosine(&vectors, exact)?;
    let (took, texts) = times(client, load).await?;
    let percentile = |percent: usize| took[(took.len() * percent / 100).min(took.len() - 1)];
    let measured = Measurement {
        rate: texts as f64 / load.time.as_secs_f64(),
        p50: percentile(50),
        p99: percentile(99),
        cosine,
    };
    Ok((measured, vectors))
}

/// The vectors of some texts, spread over all.
async fn vectors(client: &Client, load: &Load) -> anyhow::Result<Vec<Vec<f32>>> {
    let step = load.texts.len().div_ceil(COMPARED);
    let texts = load.texts.iter().step_by(step);
    let documents: Vec<Document> = texts.map(|text| Document::from_text(text)).collect();
    let replies = client.post(ENDPOINT, stream::iter(documents)).in_order();
    let documents: Vec<_> = replies.documents().collect().await;
    let vector = |document: Result<Document, _>| {
        let embedding = document?.embedding();
        let vector = embedding.and_then(|it| it.to_f32());
        vector.context("the encoder returned a document without a vector")
    };
    documents.into_iter().map(vector).collect()
}

fn lowest_cosine(vectors: &[Vec<f32>], exact: &[Vec<f32>]) -> anyhow::Result<f64> {
    let exact = if exact.is_empty() { vectors } else { exact };
    ensure!(vectors.len() == exact.len(), "some vectors are missing");
    let cosines = vectors.iter().zip(exact).map(|(a, b)| cosine(a, b));
    let lowest = cosines.map(|it| it.unwrap_or(-1.0)).reduce(f64::min);
    lowest.context("there are no vectors")
}

/// Keeps the flow loaded. Returns the sorted times of the requests that ended after the warm-up, and the number of their texts.
async fn times(client: &Client, load: &Arc<Load>) -> anyhow::Result<(Vec<Duration>, usize)> {
    let template = RequestTemplate {
        endpoint: ENDPOINT.to_owned(),
        ..RequestTemplate::default()
    };
    let (begun, end) = (Instant::now(), WARM_UP + load.time);
    let sent = Arc::clone(load);
    let numbers = (0..).take_while(move |_| begun.elapsed() < end);
    let requests = numbers.map(move |number| (template.request(sent.documents(number)), ()));
    let options = ExchangeOptions {
        prefetch: Some(load.concurrency),
        one_by_one: true,
        ..ExchangeOptions::default()
    };
    let mut exchange = client.exchange(&options, Box::pin(stream::iter(requests)));
    let mut took = Vec::new();
    while let Some(outcome) = exchange.next().await {
        outcome.result?;
        if (WARM_UP..end).contains(&begun.elapsed()) {
            took.push(outcome.took);
        }
    }
    if let Some(Err(failure)) = exchange.end() {
        return Err(failure.clone().into());
    }
    ensure!(
        !took.is_empty(),
        "no request ended in time; give it more `--seconds`"
    );
    took.sort_unstable();
    let texts = took.len() * load.request_size.get();
    Ok((took, texts))
}
