//! Exchanges with a peer that follows a script.

use std::sync::{Arc, Mutex};

use flow_core::Document;
use flow_net::Replies;

use super::*;
use crate::connection::RequestStream;
use crate::request::RequestTemplate;

/// What the other side does with a stream of requests.
type Script = fn(RequestStream) -> Result<Replies, Failure>;

/// Opens streams one after another: each follows the next script, and those after the last script follow that one.
fn scripted(scripts: &[Script]) -> (OpenStream, Arc<Mutex<usize>>) {
    let scripts = scripts.to_vec();
    let opened = Arc::new(Mutex::new(0));
    let count = Arc::clone(&opened);
    let open: OpenStream = Arc::new(move |requests, _| {
        let mut opened = count.lock().unwrap();
        let script = scripts[(*opened).min(scripts.len() - 1)];
        *opened += 1;
        Box::pin(std::future::ready(script(requests)))
    });
    (open, opened)
}

fn echo(requests: RequestStream) -> Result<Replies, Failure> {
    Ok(Box::pin(requests.map(Ok)))
}

/// Answers pairs of requests in reverse.
fn reversed(requests: RequestStream) -> Result<Replies, Failure> {
    let pairs = requests.chunks(2);
    let reversed = pairs.flat_map(|pair| stream::iter(pair.into_iter().rev()));
    Ok(Box::pin(reversed.map(Ok)))
}

fn refuse(_: RequestStream) -> Result<Replies, Failure> {
    Err(Failure::new(Code::Unavailable, "refused"))
}

/// Answers one request, and breaks at the second.
fn break_at_second(requests: RequestStream) -> Result<Replies, Failure> {
    let replies = requests.enumerate().map(|(number, request)| match number {
        0 => Ok(request),
        _ => Err(Failure::new(Code::Unavailable, "on fire")),
    });
    Ok(Box::pin(replies))
}

/// Fails every request.
fn fail(requests: RequestStream) -> Result<Replies, Failure> {
    let replies = requests.map(|mut request| {
        let failure = Failure::new(Code::BadRequest, "no such model").at("encoder");
        let header = request.header.as_mut().unwrap();
        header.status = Some(failure.to_status());
        Ok(request)
    });
    Ok(Box::pin(replies))
}

fn ends_early(requests: RequestStream) -> Result<Replies, Failure> {
    Ok(Box::pin(requests.take(1).map(Ok)))
}

fn requests(count: usize) -> impl Stream<Item = (Request, usize)> + Send + 'static {
    let template = RequestTemplate {
        endpoint: "/encode".to_owned(),
        ..RequestTemplate::default()
    };
    stream::iter(0..count).map(move |number| {
        let document = Document::from_text(&number.to_string());
        (template.request(vec![document]), number)
    })
}

/// The tags of all outcomes with the codes of failures, and how the exchange ended.
async fn run(exchange: &mut Exchange<usize>) -> (Vec<(usize, Option<Code>)>, Result<(), Code>) {
    let mut outcomes = Vec::new();
    while let Some(Outcome { tag, result, .. }) = exchange.next().await {
        if let Ok(reply) = &result {
            assert_eq!(reply.documents[0].text(), tag.to_string());
        }
        outcomes.push((tag, result.err().map(|failure| failure.code())));
    }
    let end = exchange.end().unwrap().map_err(Failure::code);
    (outcomes, end)
}

async fn outcomes(
    scripts: &[Script],
    options: ExchangeOptions,
    count: usize,
) -> (Vec<(usize, Option<Code>)>, Result<(), Code>) {
    let (open, _) = scripted(scripts);
    run(&mut Exchange::new(open, &options, requests(count))).await
}

fn fine(tags: &[usize]) -> Vec<(usize, Option<Code>)> {
    tags.iter().map(|tag| (*tag, None)).collect()
}

#[tokio::test]
async fn outcomes_arrive_in_the_order_that_the_options_ask_for() {
    let in_order = ExchangeOptions {
        in_order: true,
        ..ExchangeOptions::default()
    };
    let found = outcomes(&[reversed], in_order, 4).await;
    assert_eq!(found, (fine(&[0, 1, 2, 3]), Ok(())));
    let found = outcomes(&[reversed], ExchangeOptions::default(), 4).await;
    assert_eq!(found, (fine(&[1, 0, 3, 2]), Ok(())));
}

#[tokio::test]
async fn no_requests_are_a_complete_exchange() {
    let found = outcomes(&[echo], ExchangeOptions::default(), 0).await;
    assert_eq!(found, (Vec::new(), Ok(())));
}

#[tokio::test]
async fn the_window_limits_the_requests_that_are_taken() {
    let taken = Arc::new(Mutex::new(0));
    let count = Arc::clone(&taken);
    let requests = requests(9).inspect(move |_| *count.lock().unwrap() += 1);
    let options = ExchangeOptions {
        prefetch: NonZeroUsize::new(2),
        ..ExchangeOptions::default()
    };
    let never: Script = |requests| {
        let nothing = requests.filter(|_| std::future::ready(false)).map(Ok);
        Ok(Box::pin(nothing.chain(stream::pending())))
    };
    let (open, _) = scripted(&[never]);
    let mut exchange = Exchange::new(open, &options, requests);
    let ended = tokio::time::timeout(Duration::from_millis(50), exchange.next()).await;
    assert!(ended.is_err());
    assert_eq!(*taken.lock().unwrap(), 2);
    let unfinished = exchange.into_unfinished();
    assert_eq!(
        (unfinished.unanswered, unfinished.is_all_sent),
        (vec![0, 1], false)
    );
}

#[tokio::test]
async fn a_failed_request_keeps_its_code_and_ends_nothing() {
    let (found, end) = outcomes(&[fail], ExchangeOptions::default(), 2).await;
    assert_eq!(found, [0, 1].map(|tag| (tag, Some(Code::BadRequest))));
    assert_eq!(end, Ok(()));
}

#[tokio::test]
async fn a_stream_that_breaks_ends_the_exchange_with_its_code() {
    let one = ExchangeOptions {
        prefetch: NonZeroUsize::new(1),
        ..ExchangeOptions::default()
    };
    let found = outcomes(&[break_at_second], one.clone(), 3).await;
    assert_eq!(found, (fine(&[0]), Err(Code::Unavailable)));
    let found = outcomes(&[ends_early], one, 3).await;
    assert_eq!(found, (fine(&[0]), Err(Code::Lost)));
    let found = outcomes(&[refuse], ExchangeOptions::default(), 3).await;
    assert_eq!(found, (Vec::new(), Err(Code::Unavailable)));
}

#[tokio::test]
async fn a_refused_stream_is_opened_again_if_retries_are_allowed() {
    let options = ExchangeOptions {
        in_order: true,
        retries: 2,
        ..ExchangeOptions::default()
    };
    let (open, opened) = scripted(&[refuse, refuse, echo]);
    let mut exchange = Exchange::new(open, &options, requests(3));
    assert_eq!(run(&mut exchange).await, (fine(&[0, 1, 2]), Ok(())));
    assert_eq!(*opened.lock().unwrap(), 3);

    let (open, opened) = scripted(&[refuse]);
    let mut exchange = Exchange::new(open, &options, requests(3));
    let refused = (Vec::new(), Err(Code::Unavailable));
    assert_eq!(run(&mut exchange).await, refused);
    assert_eq!(*opened.lock().unwrap(), 3);
}

#[tokio::test]
async fn requests_that_may_have_run_are_sent_again_only_if_they_are_idempotent() {
    let retrying = ExchangeOptions {
        in_order: true,
        retries: 1,
        ..ExchangeOptions::default()
    };
    let (found, end) = outcomes(&[break_at_second, echo], retrying.clone(), 3).await;
    assert_eq!((found, end), (fine(&[0]), Err(Code::Unavailable)));
    let idempotent = ExchangeOptions {
        idempotent: true,
        ..retrying
    };
    let found = outcomes(&[break_at_second, echo], idempotent, 3).await;
    assert_eq!(found, (fine(&[0, 1, 2]), Ok(())));
}

#[tokio::test]
async fn the_results_end_with_the_failure_of_the_stream() {
    let (open, _) = scripted(&[refuse]);
    let exchange = Exchange::new(open, &ExchangeOptions::default(), requests(3));
    let results: Vec<_> = exchange.into_results().collect().await;
    assert_eq!(results.len(), 1);
    assert_eq!(results[0].as_ref().unwrap_err().code(), Code::Unavailable);
}

#[tokio::test]
async fn a_request_that_is_too_large_is_not_sent() {
    let template = RequestTemplate::default();
    let text = "x".repeat(Request::LEN_MAX + 1);
    let request = template.request(vec![Document::from_text(&text)]);
    let (open, _) = scripted(&[echo]);
    let requests = stream::iter([(request, 0)]);
    let mut exchange = Exchange::new(open, &ExchangeOptions::default(), requests);
    let found = run(&mut exchange).await;
    assert_eq!(found, (vec![(0, Some(Code::TooLarge))], Ok(())));
}
