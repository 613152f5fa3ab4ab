//! Requests on a timetable: each leaves when it is due, whatever happened to those before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use flow_core::{Deadline, Document, DocumentArray, Failure, Tensor};
use flow_net::Client;
use flow_proto::Envelope;
use flow_tests::texts;
use tokio::task::JoinSet;
use tokio::time::{sleep_until, timeout};

use crate::catalogue::Kind;

/// Requests a second. With texts of [`TEXT`] bytes this is most of what a line of 1 Mbit/s carries.
const RATE: u32 = 20;
const TEXT: usize = 4 << 10;

/// The larger texts, more than the memory that an executor gets, and the requests among which one has it.
const LARGER: usize = 1 << 20;
const LARGER_EVERY: u32 = RATE;

/// What clients allow a request.
const DEADLINE: Duration = Duration::from_secs(5);

/// A request that has no reply this long after its deadline hangs.
const GRACE: Duration = Duration::from_secs(1);

/// A request that takes longer is no good. Without a fault they take milliseconds.
const SLOW: Duration = Duration::from_millis(500);

/// What became of a request.
#[derive(Debug)]
pub(crate) struct Request {
    /// When it was to leave.
    pub(crate) due: Duration,
    pub(crate) took: Duration,
    /// The code and the text that the client saw; `None` for a good reply.
    pub(crate) failure: Option<String>,
}

/// A client that sends requests until it is stopped.
#[derive(Debug)]
pub(crate) struct Load {
    url: String,
    kind: Kind,
    client: Client,
    text: String,
    larger: String,
    begun: Instant,
    /// Whether the fault lasts.
    has_fault: AtomicBool,
    stopped: AtomicBool,
    /// When the last request ended that was no good, in milliseconds.
    last_bad: AtomicU64,
}

impl Load {
    pub(crate) async fn new(url: &str, kind: Kind) -> Self {
        Self {
            url: url.to_owned(),
            kind,
            client: Client::connect(url).await.unwrap(),
            text: "x".repeat(TEXT),
            larger: "x".repeat(LARGER),
            begun: Instant::now(),
            has_fault: AtomicBool::new(false),
            stopped: AtomicBool::new(false),
            last_bad: AtomicU64::new(0),
        }
    }

    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn last_bad(&self) -> Duration {
        Duration::from_millis(self.last_bad.load(Ordering::Relaxed))
    }

    /// The fault begins or ends.
    pub(crate) fn set_fault(&self, has_fault: bool) {
        self.has_fault.store(has_fault, Ordering::Relaxed);
    }

    pub(crate) fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Sends requests until the load is stopped, and waits for the last one.
    pub(crate) async fn send(self: Arc<Self>) -> Vec<Request> {
        let mut requests = JoinSet::new();
        for number in 0.. {
            let due = Duration::from_secs(1) * number / RATE;
            sleep_until((self.begun + due).into()).await;
            if self.stopped.load(Ordering::Relaxed) {
                break;
            }
            let load = self.clone();
            requests.spawn(async move { load.one(number, due).await });
        }
        let mut requests = requests.join_all().await;
        requests.sort_by_key(|it| it.due);
        requests
    }

    async fn one(&self, number: u32, due: Duration) -> Request {
        let request = self.request(self.text(number));
        let failure = match timeout(DEADLINE + GRACE, self.ask(request)).await {
            Ok(outcome) => outcome.err(),
            Err(_) => Some("HANGS: no reply a second after the deadline".to_owned()),
        };
        let now = self.now();
        let took = now - due;
        if failure.is_some() || took > SLOW {
            let now = u64::try_from(now.as_millis()).unwrap();
            self.last_bad.fetch_max(now, Ordering::Relaxed);
        }
        Request { due, took, failure }
    }

    async fn ask(&self, request: Envelope) -> Result<(), String> {
        let deadline = Deadline::after(Instant::now(), Some(DEADLINE));
        let reply = match self.kind {
            Kind::NewConnection => {
                let client = timeout(DEADLINE, Client::connect(&self.url)).await;
                let client = client.map_err(|_| "no connection within the deadline".to_owned())?;
                let client = client.map_err(|error| format!("{error}"))?;
                client.single(request, deadline).await
            }
            _ => self.client.single(request, deadline).await,
        };
        let reply = reply.map_err(|failure| shown(&failure))?;
        let status = reply.header.as_ref().and_then(|it| it.status.as_ref());
        match status.and_then(Failure::from_status) {
            Some(failure) => Err(shown(&failure)),
            None => Ok(()),
        }
    }

    /// The text of the request with this number.
    fn text(&self, number: u32) -> &str {
        let is_larger = self.kind == Kind::Larger && number.is_multiple_of(LARGER_EVERY);
        match is_larger && self.has_fault.load(Ordering::Relaxed) {
            true => &self.larger,
            false => &self.text,
        }
    }

    fn request(&self, text: &str) -> Envelope {
        let (endpoint, node) = match self.kind {
            Kind::Index => ("/index", "^index$"),
            _ => ("/any", "^work$"),
        };
        let mut request = texts(endpoint, &[text]);
        request.header.as_mut().unwrap().target_executor = Some(node.to_owned());
        if self.kind == Kind::Index {
            let mut document = Document::from_text(text);
            document.set_embedding(&Tensor::vector(&[1.0, 0.5]));
            let documents: DocumentArray = [document].into_iter().collect();
            request.data = Some(documents.encode());
        }
        request
    }
}

fn shown(failure: &Failure) -> String {
    format!("{}: {}", failure.code().as_str(), failure.message())
}
