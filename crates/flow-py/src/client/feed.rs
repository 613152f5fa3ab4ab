//! The requests of an exchange, which Python adds when they are wanted.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use flow_client::Request;
use futures_util::Stream;

/// Requests that wait to be taken. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct Feed(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    requests: VecDeque<Request>,
    is_finished: bool,
    /// Whether a request was asked for while there was none.
    is_wanted: bool,
    waker: Option<Waker>,
}

impl Feed {
    /// Adds a request.
    pub(super) fn push(&self, request: Request) {
        let mut state = self.state();
        state.requests.push_back(request);
        wake(state);
    }

    /// Says that there are no more requests.
    pub(super) fn finish(&self) {
        let mut state = self.state();
        state.is_finished = true;
        wake(state);
    }

    /// Whether a request was asked for since the last call.
    pub(super) fn take_wanted(&self) -> bool {
        std::mem::take(&mut self.state().is_wanted)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut state: MutexGuard<'_, State>) {
    state.is_wanted = false;
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Stream for Feed {
    type Item = (Request, ());

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut state = self.state();
        if let Some(request) = state.requests.pop_front() {
            return Poll::Ready(Some((request, ())));
        }
        if state.is_finished {
            return Poll::Ready(None);
        }
        state.is_wanted = true;
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}
