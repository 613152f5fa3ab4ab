//! Sends requests to real gateways and executors.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use flow_core::Deadline;
use flow_net::Client;
use flow_proto::Envelope;
use flow_tests::{TUTORIAL_SENTENCE, said, texts};
use tokio::runtime::Runtime;

use crate::random::Random;
use crate::traffic::{Answer, Calls, Traffic};

const DEADLINE: Duration = Duration::from_secs(60);

/// What all requests of a run share.
struct Run {
    clients: Vec<Client>,
    began: Instant,
    length: Duration,
    answers: Mutex<Vec<Answer>>,
}

impl Run {
    /// Sends a request that was to leave at this time, and waits for its reply.
    async fn ask(&self, number: usize, documents: usize, due: Duration) {
        let client = &self.clients[number % self.clients.len()];
        let request = request(documents);
        let deadline = Deadline::after(Instant::now(), Some(DEADLINE));
        let reply = client.single(request, deadline).await.unwrap();
        let answered = self.began.elapsed();
        assert_eq!(said(&reply).failure, None);
        self.answers.lock().unwrap().push(Answer {
            sent: due,
            answered,
            documents,
        });
    }

    fn is_over(&self) -> bool {
        self.began.elapsed() >= self.length
    }
}

fn request(documents: usize) -> Envelope {
    texts("/encode", &vec![TUTORIAL_SENTENCE; documents])
}

/// Sends requests to these addresses: each caller to one of them, and arrivals in turn. Gives the replies.
pub(crate) fn load(runtime: &Runtime, urls: &[String], traffic: Traffic, seed: u64) -> Vec<Answer> {
    let clients = runtime.block_on(async {
        let mut clients = Vec::new();
        for url in urls {
            clients.push(Client::connect(url).await.unwrap());
        }
        clients
    });
    let run = Arc::new(Run {
        clients,
        began: Instant::now(),
        length: traffic.length,
        answers: Mutex::default(),
    });
    match traffic.calls {
        Calls::PerSecond(rate) => send_by_chance(runtime, &run, traffic, (rate, seed)),
        Calls::Callers(callers) => {
            let tasks = (0..callers).map(|caller| {
                let run = run.clone();
                let mut random = Random::new(seed.wrapping_add(caller as u64) << 20);
                runtime.spawn(async move {
                    tokio::time::sleep(traffic.begins(caller, callers)).await;
                    while !run.is_over() {
                        let documents = traffic.sizes.next(&mut random);
                        run.ask(caller, documents, run.began.elapsed()).await;
                    }
                })
            });
            let tasks: Vec<_> = tasks.collect();
            wait_for_all(runtime, tasks);
        }
    }
    let answers = run.answers.lock().unwrap();
    answers.clone()
}

/// A thread waits for the times at which requests leave, because timers of tokio have a resolution of a millisecond.
fn send_by_chance(runtime: &Runtime, run: &Arc<Run>, traffic: Traffic, (rate, seed): (f64, u64)) {
    let mut random = Random::new(seed);
    let mut due = 0.0;
    let mut tasks = Vec::new();
    while !run.is_over() {
        due += random.until_next(rate);
        let until = Duration::from_secs_f64(due);
        thread::sleep(until.saturating_sub(run.began.elapsed()));
        let (run, number) = (run.clone(), tasks.len());
        let documents = traffic.sizes.next(&mut random);
        tasks.push(runtime.spawn(async move { run.ask(number, documents, until).await }));
    }
    wait_for_all(runtime, tasks);
}

fn wait_for_all(runtime: &Runtime, tasks: Vec<tokio::task::JoinHandle<()>>) {
    runtime.block_on(async {
        for task in tasks {
            task.await.unwrap();
        }
    });
}
