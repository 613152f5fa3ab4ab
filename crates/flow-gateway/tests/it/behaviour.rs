//! What executors of tests do before they answer, and other parts of cases that several tables share.

use std::sync::Arc;
use std::time::Duration;

use flow_core::{Code, Failure};
use flow_gateway::auth::{ApiKeys, KeyFile};
use futures_util::future::BoxFuture;
use tempfile::NamedTempFile;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tonic::Status;

/// Time for a call to end after its client has left.
const LIMIT: Duration = Duration::from_secs(20);

/// What comes before an answer. An error takes its place.
type Before = BoxFuture<'static, Result<(), Status>>;

/// Takes a permit.
pub(crate) fn permitted(gate: &Arc<Semaphore>) -> impl Fn() -> Before + Send + Sync + use<> {
    let gate = gate.clone();
    move || {
        let gate = gate.clone();
        Box::pin(async move {
            gate.acquire().await.unwrap().forget();
            Ok(())
        })
    }
}

/// Fails.
pub(crate) fn failing(code: Code) -> impl Fn() -> Before + Send + Sync {
    move || {
        let status = flow_net::status::from_failure(&Failure::new(code, "no memory"));
        Box::pin(std::future::ready(Err(status)))
    }
}

/// A call of an executor, which adds a permit when it ends.
struct Running(Arc<Semaphore>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.add_permits(1);
    }
}

/// Never ends by itself. Adds a permit when the call is cancelled.
pub(crate) fn until_cancelled(ended: &Arc<Semaphore>) -> impl Fn() -> Before + Send + Sync + use<> {
    let ended = ended.clone();
    move || {
        let call = Running(ended.clone());
        Box::pin(async move {
            let _call = call;
            std::future::pending().await
        })
    }
}

/// What became of the call of [`until_cancelled`].
pub(crate) async fn outcome(ended: &Semaphore) -> String {
    match timeout(LIMIT, ended.acquire()).await {
        Ok(_) => "cancelled".to_owned(),
        Err(_) => "runs on".to_owned(),
    }
}

/// An empty file of API keys, so that no key is valid. The file is removed when the first value is dropped.
pub(crate) fn no_keys() -> (NamedTempFile, ApiKeys) {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), KeyFile { keys: Vec::new() }.to_yaml()).unwrap();
    let keys = ApiKeys {
        file: file.path().to_owned(),
        for_health: false,
    };
    (file, keys)
}
