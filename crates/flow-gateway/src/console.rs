//! What the console knows of the last hour, within a fixed amount of memory.
//!
//! ```text
//! histogram.rs  how long requests took, in buckets                    pure
//! series.rs     the last hour of the flow or of a node, in slots      pure
//! kept.rs       one failed or slow request with where its time went
//! history.rs    all of it, behind one lock
//! page.rs       which requests are for the page                       pure
//! operations.rs what it asks the supervisor, within limits
//! ```
//!
//! `request_log.rs` records each request where it ends. `http/console.rs` serves what is known.

mod histogram;
mod history;
mod kept;
mod operations;
pub(crate) mod page;
mod series;

pub(crate) use history::{History, Recent, seconds};
pub(crate) use kept::KeptRequest;
pub(crate) use operations::Operations;
pub(crate) use series::SlotReport;
