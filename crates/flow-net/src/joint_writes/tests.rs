use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use futures_util::task::AtomicWaker;
use hyper::rt::ReadBuf;
use tokio::runtime::{Builder, Runtime};
use tokio::task::{JoinSet, yield_now};

use super::*;
use crate::other_tasks::OtherTasks;

/// Records each write. `takes` limits how many bytes of it are accepted.
#[derive(Debug, Clone, Default)]
struct Recorder {
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
    /// How many bytes the next writes take; zero for none at that time. Afterwards all are taken.
    takes: Arc<Mutex<VecDeque<usize>>>,
    is_broken: bool,
}

impl Recorder {
    fn taking(takes: impl IntoIterator<Item = usize>) -> Self {
        let recorder = Self::default();
        recorder.takes.lock().unwrap().extend(takes);
        recorder
    }

    fn failing() -> Self {
        Self {
            is_broken: true,
            ..Self::default()
        }
    }

    fn lengths(&self) -> Vec<usize> {
        self.writes.lock().unwrap().iter().map(Vec::len).collect()
    }

    fn bytes(&self) -> Vec<u8> {
        self.writes.lock().unwrap().concat()
    }
}

impl Write for Recorder {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.is_broken {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        let mut bytes = parts.iter().map(|it| &**it).collect::<Vec<_>>().concat();
        if let Some(max) = self.takes.lock().unwrap().pop_front() {
            if max == 0 {
                return Poll::Pending;
            }
            bytes.truncate(max);
        }
        let written = bytes.len();
        self.writes.lock().unwrap().push(bytes);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }
}

impl Read for Recorder {
    fn poll_read(
        self: Pin<&mut Self>,
        _context: &mut Context<'_>,
        _buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Poll::Pending
    }
}

type Stream = JointStream<Recorder>;

/// Writes a message and flushes it, as h2 does with larger ones.
fn send(stream: &mut Stream, context: &mut Context<'_>, message: &[u8]) {
    let mut rest = message;
    while !rest.is_empty() {
        match Pin::new(&mut *stream).poll_write(context, rest) {
            Poll::Ready(written) => rest = &rest[written.unwrap()..],
            Poll::Pending => {}
        }
    }
    while Pin::new(&mut *stream).poll_flush(context).is_pending() {}
}

/// Polls a connection that does this.
fn polled(joint: &JointConnection<Recorder>, mut act: impl FnMut(&mut Context<'_>)) {
    let mut context = Context::from_waker(Waker::noop());
    let connection = pin!(poll_fn(|context| {
        act(context);
        Poll::Ready(())
    }));
    assert!(joint.poll(connection, &mut context).is_ready());
}

/// The lengths of the writes of a connection, until it has written all. Each message of another task wakes it.
fn writes(runtime: &Runtime, messages: usize) -> Vec<usize> {
    let recorder = Recorder::default();
    let finished = Arc::new(AtomicUsize::new(0));
    let waker = Arc::new(AtomicWaker::new());
    let (mut stream, joint) = joint_writes(recorder.clone());
    let mut others = OtherTasks::default();
    let task = {
        let (finished, waker) = (Arc::clone(&finished), Arc::clone(&waker));
        let mut sent = 0;
        let mut connection = Box::pin(poll_fn(move |context| {
            waker.register(context.waker());
            while sent < finished.load(Ordering::Relaxed) {
                send(&mut stream, context, &[0; 1000]);
                sent += 1;
            }
            match sent == messages {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
        poll_fn(move |context| {
            ready!(others.poll_have_run(context));
            joint.poll(connection.as_mut(), context)
        })
    };
    let all = async move {
        let mut tasks = JoinSet::new();
        tasks.spawn(task);
        // The connection waits for messages.
        yield_now().await;
        yield_now().await;
        for _ in 0..messages {
            let (finished, waker) = (Arc::clone(&finished), Arc::clone(&waker));
            tasks.spawn(async move {
                finished.fetch_add(1, Ordering::Relaxed);
                waker.wake();
            });
        }
        tasks.join_all().await;
    };
    let mut tasks = JoinSet::new();
    tasks.spawn_on(all, runtime.handle());
    runtime.block_on(tasks.join_all());
    recorder.lengths()
}

#[test]
fn messages_that_are_finished_one_after_another_are_written_at_once() {
    let one_thread = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    assert_eq!(writes(&one_thread, 16), [16_000]);
    let current = Builder::new_current_thread().build().unwrap();
    assert_eq!(writes(&current, 16), [16_000]);
}

#[test]
fn outside_of_a_runtime_nothing_waits() {
    let mut others = OtherTasks::default();
    let mut context = Context::from_waker(Waker::noop());
    assert!(others.poll_have_run(&mut context).is_ready());
    assert!(!others.is_waiting());
}

#[test]
fn what_a_connection_flushes_is_written_when_it_has_been_polled() {
    let recorder = Recorder::default();
    let (mut stream, joint) = joint_writes(recorder.clone());
    polled(&joint, |context| {
        send(&mut stream, context, b"one ");
        send(&mut stream, context, b"two");
        assert_eq!(recorder.bytes(), b"");
    });
    assert_eq!(recorder.lengths(), [7]);
}

#[test]
fn outside_of_the_connection_bytes_are_written_at_once() {
    let recorder = Recorder::default();
    let (mut stream, joint) = joint_writes(recorder.clone());
    let mut context = Context::from_waker(Waker::noop());
    let written = Pin::new(&mut stream).poll_write(&mut context, b"one ");
    assert!(matches!(written, Poll::Ready(Ok(4))));
    assert_eq!(recorder.bytes(), b"one ");
    drop(joint);
    send(&mut stream, &mut context, b"two");
    assert_eq!(recorder.bytes(), b"one two");
}

#[test]
fn a_stream_that_is_shut_down_writes_what_waits() {
    let recorder = Recorder::default();
    let (mut stream, joint) = joint_writes(recorder.clone());
    polled(&joint, |context| {
        send(&mut stream, context, b"one");
        let shut_down = Pin::new(&mut stream).poll_shutdown(context);
        assert!(shut_down.is_ready());
        assert_eq!(recorder.bytes(), b"one");
    });
}

#[test]
fn a_large_message_is_written_with_what_waits_before_it() {
    let recorder = Recorder::default();
    let (mut stream, joint) = joint_writes(recorder.clone());
    polled(&joint, |context| {
        send(&mut stream, context, b"small");
        send(&mut stream, context, &[1; COLLECTED_MAX + 1]);
    });
    assert_eq!(recorder.lengths(), [5 + COLLECTED_MAX + 1]);
}

#[test]
fn no_more_than_the_buffer_waits_for_a_peer_that_does_not_read() {
    let recorder = Recorder::taking([0; 100]);
    let (mut stream, joint) = joint_writes(recorder);
    polled(&joint, |context| {
        let mut accepted = 0;
        while let Poll::Ready(written) = Pin::new(&mut stream).poll_write(context, &[0; 1000]) {
            accepted += written.unwrap();
        }
        assert!((1000..=BUFFER_LEN).contains(&accepted), "{accepted}");
    });
}

#[test]
fn what_a_slow_peer_does_not_take_is_written_later() {
    let recorder = Recorder::taking([3, 0]);
    let (mut stream, joint) = joint_writes(recorder.clone());
    polled(&joint, |context| send(&mut stream, context, b"message"));
    assert_eq!(recorder.bytes(), b"mes");
    polled(&joint, |_| ());
    assert_eq!(recorder.bytes(), b"message");
}

#[test]
fn a_failed_write_is_an_error_of_the_connection() {
    let (mut stream, joint) = joint_writes(Recorder::failing());
    polled(&joint, |context| send(&mut stream, context, b"one"));
    let mut context = Context::from_waker(Waker::noop());
    let mut buffer = [0; 8];
    let mut buffer = ReadBuf::new(&mut buffer);
    let read = Pin::new(&mut stream).poll_read(&mut context, buffer.unfilled());
    let Poll::Ready(Err(error)) = read else {
        panic!("{read:?}")
    };
    assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
}

#[test]
fn bytes_keep_their_order_whatever_the_stream_takes() {
    let mut state = 1_u64;
    let mut random = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(state >> 33).unwrap() % below
    };
    for _ in 0..50 {
        let takes: Vec<_> = (0..random(40)).map(|_| random(BUFFER_LEN)).collect();
        let recorder = Recorder::taking(takes);
        let (mut stream, joint) = joint_writes(recorder.clone());
        let mut sent = Vec::new();
        for _ in 0..random(20) {
            polled(&joint, |context| {
                for _ in 0..random(5) {
                    let len = [20, 2_000, 2 * BUFFER_LEN][random(3)];
                    let message = vec![u8::try_from(random(256)).unwrap(); len];
                    send(&mut stream, context, &message);
                    sent.extend(message);
                }
            });
        }
        let mut context = Context::from_waker(Waker::noop());
        while Pin::new(&mut stream)
            .poll_shutdown(&mut context)
            .is_pending()
        {}
        assert!(recorder.bytes() == sent, "the bytes differ");
    }
}
