//! The steps before the start of a flow's processes, such as building its executors.
//!
//! Meanwhile the flow is visible (`flow ps`) and can be stopped.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use flow_spec::Plan;
use tokio::sync::watch;
use tokio::time::timeout;

use crate::supervisor::error::LaunchError;
use crate::supervisor::shutdown::{Shutdown, wait_for};

/// Time for a preparation that was stopped to return. It is abandoned after that.
const STOP_MAX: Duration = Duration::from_secs(5);

type BoxError = Box<dyn Error + Send + Sync>;

/// Work that makes the plan that is started.
pub struct Preparation {
    run: Box<dyn FnOnce() -> Result<Plan, BoxError> + Send>,
    stop: Box<dyn Fn() + Send>,
}

impl Preparation {
    /// `run` does the work, on a thread where it may block. `stop` makes it return soon, with any result.
    pub fn new(
        run: impl FnOnce() -> Result<Plan, BoxError> + Send + 'static,
        stop: impl Fn() + Send + 'static,
    ) -> Self {
        Self {
            run: Box::new(run),
            stop: Box::new(stop),
        }
    }

    /// Does the work, unless the shutdown comes first.
    pub(crate) async fn run(
        self,
        shutdown: &mut watch::Receiver<Shutdown>,
    ) -> Result<Plan, LaunchError> {
        let mut work = tokio::task::spawn_blocking(self.run);
        tokio::select! {
            done = &mut work => match done {
                Ok(plan) => plan.map_err(LaunchError::Preparation),
                Err(_panicked) => Err(LaunchError::Supervisor),
            },
            () = wait_for(shutdown, Shutdown::Drain) => {
                (self.stop)();
                if timeout(STOP_MAX, work).await.is_err() {
                    tracing::warn!(limit = ?STOP_MAX, "a build does not stop and is abandoned");
                }
                Err(LaunchError::Stopped)
            }
        }
    }
}

impl fmt::Debug for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preparation").finish_non_exhaustive()
    }
}
