//! A thread with a runtime of its own.

use std::convert::Infallible;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// The thread. It ends when this is dropped, and so do the tasks on it.
#[derive(Debug)]
pub(crate) struct RuntimeThread {
    handle: Handle,
    _stop: oneshot::Sender<Infallible>,
}

impl RuntimeThread {
    /// Starts the thread, which runs `begin` first.
    ///
    /// # Errors
    ///
    /// If the system has no thread.
    pub(crate) fn start(name: &str, begin: impl FnOnce() + Send + 'static) -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                begin();
                // An error means that the sender was dropped.
                drop(runtime.block_on(stopped));
            })?;
        Ok(Self {
            handle,
            _stop: stop,
        })
    }

    /// What runs tasks on it.
    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}
