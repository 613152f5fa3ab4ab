//! What the console asks the supervisor, within limits: pages that ask too often, or leave before the answer, must not
//! keep the gateway or the supervisor busy.

use std::net::SocketAddr;
use std::sync::Arc;

use flow_net::Listener;
use tokio::sync::Semaphore;
use tokio_util::task::TaskTracker;

use crate::config::Config;
use crate::supervisor::{
    Action, FlowFileReport, FlowProcess, LogExcerpt, LogQuery, SupervisorClient, SupervisorError,
};

/// Changes at a time. The supervisor does one after another, and people wait for them.
const CHANGES_MAX: usize = 4;

/// Lists of processes at a time; each takes a millisecond.
const LISTS_MAX: usize = 4;

/// Checks of the flow file at a time.
const FILE_CHECKS_MAX: usize = 4;

/// Searches of logs at a time, waiting ones included: one for each of some open pages.
const SEARCHES_MAX: usize = 16;

/// Asks the supervisor, if there is one.
#[derive(Debug)]
pub(crate) struct Operations {
    supervisor: Option<Arc<dyn SupervisorClient>>,
    /// Where the gateway listens.
    pub(crate) addresses: Vec<SocketAddr>,
    /// Whether requests need API keys.
    pub(crate) has_keys: bool,
    changes: Arc<Semaphore>,
    /// The changes that go on, also when the page has left.
    changing: TaskTracker,
    lists: Semaphore,
    file_checks: Semaphore,
    searches: Semaphore,
}

impl Operations {
    pub(crate) fn new(config: &Config, listeners: &[Listener]) -> Self {
        Self {
            supervisor: config.supervisor.clone(),
            addresses: listeners.iter().map(Listener::local_addr).collect(),
            has_keys: config.api_keys.is_some() || config.jwt.is_some(),
            changes: Arc::new(Semaphore::new(CHANGES_MAX)),
            changing: TaskTracker::new(),
            lists: Semaphore::new(LISTS_MAX),
            file_checks: Semaphore::new(FILE_CHECKS_MAX),
            searches: Semaphore::new(SEARCHES_MAX),
        }
    }

    /// Whether only programs of this machine can connect to the gateway.
    pub(crate) fn is_local(&self) -> bool {
        self.addresses.iter().all(|it| it.ip().is_loopback())
    }

    /// Whether the flow has a supervisor that the gateway knows.
    pub(crate) fn has_supervisor(&self) -> bool {
        self.supervisor.is_some()
    }

    /// Lists the processes of the flow.
    pub(crate) async fn processes(&self) -> Result<Vec<FlowProcess>, SupervisorError> {
        let _permit = self
            .lists
            .try_acquire()
            .map_err(|_| SupervisorError::Busy)?;
        self.supervisor()?.processes().await
    }

    /// Compares the flow file with what the flow follows.
    pub(crate) async fn flow_file(&self) -> Result<FlowFileReport, SupervisorError> {
        let _permit = self
            .file_checks
            .try_acquire()
            .map_err(|_| SupervisorError::Busy)?;
        self.supervisor()?.flow_file().await
    }

    /// Searches the logs.
    pub(crate) async fn search_logs(&self, query: LogQuery) -> Result<LogExcerpt, SupervisorError> {
        let _permit = self
            .searches
            .try_acquire()
            .map_err(|_| SupervisorError::Busy)?;
        self.supervisor()?.search_logs(query).await
    }

    /// Changes the flow. The change counts as one of those that are allowed until it has ended, even if this future is
    /// dropped before.
    pub(crate) async fn change(&self, action: Action) -> Result<Vec<String>, SupervisorError> {
        let permit = self.changes.clone().try_acquire_owned();
        let permit = permit.map_err(|_| SupervisorError::Busy)?;
        let supervisor = self.supervisor()?;
        let change = self.changing.spawn(async move {
            let _permit = permit;
            let outcome = supervisor.change(action.clone()).await;
            match &outcome {
                Ok(_) => tracing::info!(%action, "console action completed"),
                Err(reason) => {
                    tracing::info!(%action, %reason, "console action failed")
                }
            }
            outcome
        });
        let stopped = |_| SupervisorError::Unreachable("the gateway stops".to_owned());
        change.await.map_err(stopped)?
    }

    fn supervisor(&self) -> Result<Arc<dyn SupervisorClient>, SupervisorError> {
        let none = || SupervisorError::Unreachable("this gateway has no supervisor".to_owned());
        self.supervisor.clone().ok_or_else(none)
    }
}
