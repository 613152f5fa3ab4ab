//! Work that comes before the processes of a flow can start, such as building its executors.
//!
//! The flow can be seen meanwhile (`flow ps`), and told to end.

use std::error::Error;
use std::fmt;

use flow_spec::Plan;
use tokio::sync::watch;

use crate::running::Failed;
use crate::supervise::{Order, told};

/// Why a preparation failed.
type BoxError = Box<dyn Error + Send + Sync>;

/// Work that makes the plan which is started.
pub struct Preparation {
    run: Box<dyn FnOnce() -> Result<Plan, BoxError> + Send>,
    stop: Box<dyn Fn() + Send>,
}

impl Preparation {
    /// `run` does the work, and may block. `stop` makes it return soon, whatever it returns then.
    pub fn new(
        run: impl FnOnce() -> Result<Plan, BoxError> + Send + 'static,
        stop: impl Fn() + Send + 'static,
    ) -> Self {
        Self {
            run: Box::new(run),
            stop: Box::new(stop),
        }
    }

    /// Does the work, unless the flow is told to end.
    pub(crate) async fn done(self, orders: &mut watch::Receiver<Order>) -> Result<Plan, Failed> {
        let mut work = tokio::task::spawn_blocking(self.run);
        tokio::select! {
            done = &mut work => match done {
                Ok(plan) => plan.map_err(Failed::Unprepared),
                Err(_panicked) => Err(Failed::Launcher),
            },
            () = told(orders, Order::Drain) => {
                (self.stop)();
                drop(work.await);
                Err(Failed::Stopped)
            }
        }
    }
}

impl fmt::Debug for Preparation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Preparation").finish_non_exhaustive()
    }
}
