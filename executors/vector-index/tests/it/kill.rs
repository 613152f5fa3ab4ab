//! kill -9 in the middle of the work, repeatedly: acknowledged documents are still there.

use flow_core::{Document, DocumentArray};
use flow_net::PostOptions;
use flow_proto::Envelope;
use futures_util::{StreamExt, stream};

use crate::process::{Process, document, request};

/// Times that the process is killed.
const KILLS: usize = 5;

/// Requests that it acknowledges before it is killed with others under way.
const ACKNOWLEDGED: usize = 20;

/// Requests that are sent; those beyond are under way when it is killed.
const SENT: usize = 40;

/// Documents in a request.
const DOCS: usize = 3;

/// Indexes documents until `ACKNOWLEDGED` requests have their replies, and kills the process then, with more under way.
async fn index_and_kill(process: Process, round: usize) -> Vec<String> {
    let requests = stream::iter((0..SENT).map(move |number| index_request(round, number)));
    let options = PostOptions::default();
    let mut replies = process.client.post(&options, requests).await.unwrap();
    let mut ids = Vec::new();
    for _ in 0..ACKNOWLEDGED {
        let reply = replies.next().await.unwrap().unwrap();
        assert!(reply.header.unwrap().status.is_none_or(|it| it.code == 0));
        let docs = DocumentArray::decode(&reply.data.unwrap()).unwrap();
        ids.extend(docs.iter().map(Document::id));
    }
    process.kill();
    ids
}

fn index_request(round: usize, number: usize) -> Envelope {
    let docs = (0..DOCS).map(|place| document(&format!("{round}-{number}-{place}"), "kept"));
    request("/index", docs)
}

#[tokio::test]
async fn acknowledged_documents_survive_kill_9_and_requests_are_atomic() {
    let folder = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..KILLS {
        let process = Process::start(folder.path()).await;
        acknowledged.extend(index_and_kill(process, round).await);
    }
    let process = Process::start(folder.path()).await;
    let there = process.ids().await;
    for id in &acknowledged {
        assert!(there.contains(id), "{id} was acknowledged and is gone");
    }
    assert!(acknowledged.len() >= KILLS * ACKNOWLEDGED * DOCS);
    let whole = |id: &String| {
        let request = id.rsplit_once('-').unwrap().0;
        let of_it = there
            .iter()
            .filter(|it| it.rsplit_once('-').unwrap().0 == request);
        of_it.count() == DOCS
    };
    assert!(there.iter().all(whole), "a request is there in part");
    process.kill();
}
