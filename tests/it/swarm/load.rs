//! Clients of several gateways: requests on a timetable, each sent again elsewhere while no reply has come.

use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use flow_core::{Deadline, Document, DocumentArray, Tensor};
use flow_net::Client;
use flow_proto::Envelope;
use flow_tests::{said, texts};
use tokio::task::JoinSet;

/// How long a client waits at one gateway before it asks another.
const ATTEMPT: Duration = Duration::from_secs(2);

/// How long a client tries at all.
const GIVES_UP: Duration = Duration::from_secs(30);

/// How long a gateway that did not answer is avoided.
const AVOIDED: Duration = Duration::from_secs(1);

/// Pause where no gateway answers.
const PAUSE: Duration = Duration::from_millis(50);

/// What requests ask for, and so what a good reply is.
#[derive(Debug, Clone, Copy)]
pub(super) enum Question {
    /// The same text.
    Echo,
    /// The vector of the text, with this many numbers.
    Vector(usize),
}

impl Question {
    fn endpoint(self) -> &'static str {
        match self {
            Self::Echo => "/any",
            Self::Vector(_) => "/encode",
        }
    }

    /// Checks the reply to a request with this text.
    fn check(self, reply: &Envelope, text: &str) -> Result<(), String> {
        let plain = said(reply);
        if let Some(failure) = plain.failure {
            return Err(failure);
        }
        if plain.texts != [text] {
            return Err(format!("{:?}", plain.texts));
        }
        let Self::Vector(expected) = self else {
            return Ok(());
        };
        let documents = reply.data.as_ref().ok_or("no documents")?;
        let documents = DocumentArray::decode(documents).map_err(|error| error.to_string())?;
        let vector = documents.iter().next().and_then(Document::embedding);
        let vector = vector.as_ref().and_then(Tensor::to_f32);
        let vector = vector.unwrap_or_default();
        // The encoder scales its vectors to this length.
        let length = vector.iter().map(|it| it * it).sum::<f32>().sqrt();
        match vector.len() == expected && (length - 1.0).abs() < 1e-3 {
            true => Ok(()),
            false => Err(format!("{} numbers of length {length}", vector.len())),
        }
    }
}

/// What became of a request.
#[derive(Debug, Clone)]
pub(super) struct Outcome {
    /// When it was to leave.
    pub(super) due: Duration,
    pub(super) took: Duration,
    pub(super) attempts: u32,
    /// Why the last attempt without a good reply had none.
    pub(super) last_failure: Option<String>,
    pub(super) is_answered: bool,
}

/// A gateway that may be there.
struct Address {
    url: String,
    client: Option<Client>,
    avoided_until: Instant,
}

/// The addresses at which gateways may be.
#[derive(Clone)]
pub(super) struct Gateways(Arc<Vec<Mutex<Address>>>);

impl Gateways {
    pub(super) fn new(urls: impl Iterator<Item = String>) -> Self {
        let address = |url| {
            Mutex::new(Address {
                url,
                client: None,
                avoided_until: Instant::now(),
            })
        };
        Self(Arc::new(urls.map(address).collect()))
    }

    /// The next that is not avoided, beginning with this one.
    fn choose(&self, start: usize) -> Option<usize> {
        let count = self.0.len();
        let mut all = (0..count).map(|it| (start + it) % count);
        let now = Instant::now();
        all.find(|it| self.0[*it].lock().unwrap().avoided_until <= now)
    }

    async fn client(&self, index: usize) -> Result<Client, String> {
        let (known, url) = {
            let address = self.0[index].lock().unwrap();
            (address.client.clone(), address.url.clone())
        };
        if let Some(client) = known {
            return Ok(client);
        }
        let client = Client::connect(&url).await;
        let client = client.map_err(|error| error.to_string())?;
        self.0[index].lock().unwrap().client = Some(client.clone());
        Ok(client)
    }

    fn avoid(&self, index: usize) {
        let mut address = self.0[index].lock().unwrap();
        address.client = None;
        address.avoided_until = Instant::now() + AVOIDED;
    }

    /// One request until it is answered: the number of attempts, why the last that failed did so, and whether there is a good
    /// reply.
    async fn ask(&self, number: usize, question: Question) -> (u32, Option<String>, bool) {
        let begun = Instant::now();
        let text = text(number);
        let request = texts(question.endpoint(), &[&text]);
        let (mut attempts, mut failure) = (0, None);
        while begun.elapsed() < GIVES_UP {
            let Some(index) = self.choose(number + attempts as usize) else {
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            attempts += 1;
            let deadline = Deadline::after(Instant::now(), Some(ATTEMPT));
            let attempt = async {
                let client = self.client(index).await?;
                let reply = client.single(request.clone(), deadline).await;
                let reply = reply.map_err(|failure| failure.to_string())?;
                question.check(&reply, &text)
            };
            failure = match tokio::time::timeout(ATTEMPT, attempt).await {
                Ok(Ok(())) => return (attempts, failure, true),
                Ok(Err(failure)) => Some(failure),
                Err(_) => Some("no reply in time".to_owned()),
            };
            self.avoid(index);
        }
        (attempts, failure.or(Some("no gateway".to_owned())), false)
    }

    /// Sends `rate` requests a second until the flag is set.
    pub(super) async fn load(
        &self,
        rate: u32,
        question: Question,
        ends: &AtomicBool,
    ) -> Vec<Outcome> {
        let begun = Instant::now();
        let mut requests = JoinSet::new();
        for number in 0.. {
            let due = Duration::from_secs(1) * number / rate;
            if ends.load(Ordering::Relaxed) {
                break;
            }
            tokio::time::sleep_until((begun + due).into()).await;
            let gateways = self.clone();
            requests.spawn(async move {
                let (attempts, last_failure, is_answered) =
                    gateways.ask(number as usize, question).await;
                Outcome {
                    due,
                    took: (begun + due).elapsed(),
                    attempts,
                    last_failure,
                    is_answered,
                }
            });
        }
        let mut outcomes = requests.join_all().await;
        outcomes.sort_by_key(|it| it.due);
        outcomes
    }
}

/// The text of the request with this number.
pub(super) fn text(number: usize) -> String {
    format!("text {number}")
}

/// Checks that each request has one good reply.
pub(super) fn check(outcomes: &[Outcome]) {
    let failed: Vec<_> = outcomes.iter().filter(|it| !it.is_answered).collect();
    assert!(
        failed.is_empty(),
        "{} of {} requests: {:?}",
        failed.len(),
        outcomes.len(),
        &failed[..failed.len().min(5)]
    );
}

/// Writes a line for each request.
pub(super) fn write(path: &Path, outcomes: &[Outcome]) {
    let mut text = "due_s,took_ms,attempts,is_answered,last_failure\n".to_owned();
    for it in outcomes {
        let (due, took) = (it.due.as_secs_f64(), it.took.as_secs_f64() * 1000.0);
        let failure = it.last_failure.as_deref().unwrap_or_default();
        let failure = failure.replace([',', '\n'], ";");
        let (attempts, is_answered) = (it.attempts, it.is_answered);
        writeln!(
            text,
            "{due:.3},{took:.1},{attempts},{is_answered},{failure}"
        )
        .unwrap();
    }
    std::fs::write(path, text).unwrap();
}
