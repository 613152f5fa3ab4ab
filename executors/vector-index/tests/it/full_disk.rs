//! A disk without room: a write fails in the middle, and what was acknowledged is there.

use rustix::process::{Pid, Resource, Rlimit, prlimit};

use crate::process::{Process, document, request};

/// Requests of which only some fit on the disk.
const REQUESTS: usize = 40;

/// Bytes of a document. The limit is no multiple of them, so that a record is torn.
const DOCUMENT_LEN: usize = 10_000;

/// Bytes that a file may have.
const FILE_MAX: u64 = 123_456;

/// Lets no file of a process grow beyond so many bytes. A write that would goes as far as it can, and then fails.
fn limit_files(process: &Process, bytes: Option<u64>) {
    let pid = Pid::from_raw(process.pid().try_into().unwrap());
    let limit = Rlimit {
        current: bytes,
        maximum: None,
    };
    prlimit(pid, Resource::Fsize, limit).unwrap();
}

/// Indexes a document; says why if that fails.
async fn index(process: &Process, id: &str) -> Result<(), String> {
    let text = "x".repeat(DOCUMENT_LEN);
    let reply = process.call(request("/index", [document(id, &text)])).await;
    match reply.header.unwrap().status {
        Some(status) if status.code != 0 => Err(status.description),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn a_full_disk_loses_nothing_that_was_acknowledged_and_later_writes_work() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(folder.path()).await;
    limit_files(&process, Some(FILE_MAX));
    let mut acknowledged = Vec::new();
    let mut refused = Vec::new();
    for number in 0..REQUESTS {
        let id = number.to_string();
        match index(&process, &id).await {
            Ok(()) => acknowledged.push(id),
            Err(error) => {
                assert!(error.contains("cannot write"), "{error}");
                assert!(error.contains("index.log"), "{error}");
                refused.push(id);
            }
        }
    }
    assert!(acknowledged.len() > 5 && refused.len() > 5);
    assert_eq!(process.ids().await, acknowledged);
    limit_files(&process, None);
    for id in ["later", "last"] {
        assert_eq!(index(&process, id).await, Ok(()));
        acknowledged.push(id.to_owned());
    }
    assert_eq!(process.ids().await, acknowledged);
    process.kill();

    let process = Process::start(folder.path()).await;
    assert_eq!(process.ids().await, acknowledged);
    process.kill();
}
