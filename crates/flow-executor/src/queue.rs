//! Calls that wait for a worker.

mod admission;
mod admitted;
mod batcher;
mod call;
mod call_queue;
mod call_times;
mod call_trace;
mod document_sender;
mod fingerprint;
mod reply;
mod timing;

pub(crate) use admission::{Admission, QueueUsage, ShortCallRunner, ShortCallsHere};
pub(crate) use batcher::{Batcher, LeaveReason, Next, PriorityClass, QueuedRequest};
pub(crate) use call::{Call, CallRequest};
pub(crate) use call_queue::{CallQueue, NextIf, Work, WorkerGuard};
pub(crate) use call_times::CallTimes;
pub(crate) use call_trace::{CallSpans, CallTrace};
pub(crate) use document_sender::{DocumentSender, NotSent};
pub(crate) use reply::{CallOutput, ReplySender, ReplyWatch};
pub(crate) use timing::{Stage, Timing};
