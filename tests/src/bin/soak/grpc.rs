//! Requests over gRPC: single calls, and parts of streams.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_net::{Client, PostOptions};
use flow_proto::Envelope;
use flow_tests::{said, texts};
use futures_util::StreamExt;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;

use crate::account::{REPLY_MAX, Ticket};
use crate::load;
use crate::run::Run;

/// Connections for single calls.
const CONNECTIONS: usize = 4;

/// A stream ends after this time, and another one begins.
const STREAM_LENGTH: Duration = Duration::from_secs(10);

/// Requests that wait for their stream: many seconds of them, and the clock of each runs.
const WAITING_MAX: usize = 1_000;

/// The request of a ticket.
pub(crate) fn request(ticket: &Ticket, others: usize) -> Envelope {
    let id = ticket.text();
    let mut request = texts("/slow", &load::texts(&id, others));
    if let Some(header) = request.header.as_mut() {
        header.request_id.clone_from(&id);
        header.target_executor = Some(ticket.target().to_owned());
    }
    request
}

/// Whether the reply is that of the ticket, and well.
pub(crate) fn outcome(ticket: &Ticket, reply: &Envelope, others: usize) -> Result<(), String> {
    let said = said(reply);
    let id = ticket.text();
    match said.failure {
        Some(failure) => Err(failure),
        None if said.texts == load::texts(&id, others) => Ok(()),
        None => Err(format!("wrong reply: {:?}", said.texts)),
    }
}

/// Single calls, over a few connections.
pub(crate) struct Unary(Vec<Client>);

impl Unary {
    pub(crate) async fn connect(run: &Run) -> Self {
        let mut clients = Vec::new();
        for _ in 0..CONNECTIONS {
            clients.push(Client::connect(&run.url()).await.unwrap());
        }
        Self(clients)
    }

    pub(crate) fn send(&self, run: Arc<Run>, ticket: Ticket, tasks: &mut JoinSet<()>) {
        let number = usize::try_from(ticket.id).unwrap() % self.0.len();
        let client = self.0[number].clone();
        tasks.spawn(async move {
            let deadline = Deadline::after(Instant::now(), Some(REPLY_MAX));
            let reply = client.single(request(&ticket, 0), deadline).await;
            let outcome = match reply {
                Ok(reply) => outcome(&ticket, &reply, 0),
                Err(failure) => Err(failure.to_string()),
            };
            run.settle(&ticket, outcome);
        });
    }
}

/// Streams, one after another.
pub(crate) struct Streams {
    run: Arc<Run>,
    open: Option<(mpsc::Sender<Ticket>, Instant)>,
}

impl Streams {
    pub(crate) fn new(run: Arc<Run>) -> Self {
        Self { run, open: None }
    }

    pub(crate) async fn send(&mut self, ticket: Ticket, tasks: &mut JoinSet<()>) {
        self.open
            .take_if(|(_, since)| since.elapsed() > STREAM_LENGTH);
        let (sender, _) = self.open.get_or_insert_with(|| {
            let (sender, tickets) = mpsc::channel(WAITING_MAX);
            let run = self.run.clone();
            tasks.spawn(one_stream(run, tickets, PostOptions::default(), 0));
            (sender, Instant::now())
        });
        if sender.send(ticket).await.is_err() {
            self.open = None;
            self.run
                .settle(&ticket, Err("its stream had ended".to_owned()));
        }
    }
}

/// Sends the requests of tickets on one stream, and settles each when its reply comes.
pub(crate) async fn one_stream(
    run: Arc<Run>,
    mut tickets: mpsc::Receiver<Ticket>,
    options: PostOptions,
    others: usize,
) {
    let (sender, requests) = mpsc::channel(1);
    let client = Client::connect(&run.url()).await.unwrap();
    let replies = client.post(&options, ReceiverStream::new(requests)).await;
    let mut replies = replies.unwrap();
    let mut open = HashMap::new();
    let mut sender = Some(sender);
    let failure = loop {
        tokio::select! {
            ticket = tickets.recv(), if sender.is_some() => match (ticket, &sender) {
                (Some(ticket), Some(to)) => {
                    open.insert(ticket.text(), ticket);
                    // A stream that has ended says so where its replies are read.
                    drop(to.send(request(&ticket, others)).await);
                }
                _ => sender = None,
            },
            // Each new ticket starts the time again: it limits the wait after the last one.
            reply = timeout(REPLY_MAX, replies.next()) => match reply {
                Ok(Some(Ok(reply))) => settle(&run, &mut open, &reply, others),
                Ok(Some(Err(failure))) => break failure.to_string(),
                Ok(None) => break "the stream ended".to_owned(),
                Err(_elapsed) => break "no reply in time".to_owned(),
            },
        }
    };
    for ticket in open.into_values() {
        run.settle(&ticket, Err(failure.clone()));
    }
}

fn settle(run: &Run, open: &mut HashMap<String, Ticket>, reply: &Envelope, others: usize) {
    let id = reply.header.as_ref().map(|it| it.request_id.clone());
    let id = id.unwrap_or_default();
    match open.remove(&id) {
        Some(ticket) => run.settle(&ticket, outcome(&ticket, reply, others)),
        None => run.account().surplus.push(id),
    }
}
