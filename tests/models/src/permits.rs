//! The limit on requests in progress.

use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use shuttle::future::block_on;
use shuttle::thread;

use crate::limit::ConcurrencyLimit;
use crate::sync::{Arc, AtomicUsize, Ordering};

fn limit(max: usize) -> ConcurrencyLimit {
    ConcurrencyLimit::new(NonZeroUsize::new(max).unwrap())
}

/// All permits can be had again, and no caller counts as waiting.
fn check_unused(limit: &ConcurrencyLimit) {
    assert_eq!((limit.in_flight(), limit.waiting()), (0, 0));
    let all: Vec<_> = (0..limit.max().get())
        .map(|_| limit.try_acquire())
        .collect();
    assert!(all.iter().all(Option::is_some), "a permit is lost");
    assert!(limit.try_acquire().is_none(), "there is a permit too many");
}

pub(crate) fn none_is_lost() {
    let limit = limit(2);
    let running = Arc::new(AtomicUsize::new(0));
    let caller = |waits: bool| {
        let (limit, running) = (limit.clone(), Arc::clone(&running));
        thread::spawn(move || {
            let permit = match waits {
                true => Some(block_on(limit.clone().acquire())),
                false => limit.try_acquire(),
            };
            let Some(_permit) = permit else {
                return;
            };
            let others = running.fetch_add(1, Ordering::SeqCst);
            assert!(others < 2, "more requests run than may");
            assert!(limit.in_flight() <= 2);
            running.fetch_sub(1, Ordering::SeqCst);
        })
    };
    let callers: Vec<_> = [true, true, true, false].into_iter().map(caller).collect();
    callers.into_iter().for_each(|it| it.join().unwrap());
    check_unused(&limit);
}

pub(crate) fn cancelled() {
    let limit = limit(1);
    let waiting = || {
        let limit = limit.clone();
        thread::spawn(move || drop(block_on(limit.acquire())))
    };
    let callers = [waiting(), waiting()];
    let gives_up = {
        let limit = limit.clone();
        thread::spawn(move || {
            let mut acquire = pin!(limit.acquire());
            let mut context = Context::from_waker(Waker::noop());
            let first = acquire.as_mut().poll(&mut context);
            thread::yield_now();
            // With or without a permit by now, this ends here.
            drop(matches!(first, Poll::Ready(_)));
        })
    };
    callers.into_iter().for_each(|it| it.join().unwrap());
    gives_up.join().unwrap();
    check_unused(&limit);
}
