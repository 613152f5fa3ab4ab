//! Shared code of the executors that index documents and search them by vector.
//!
//! | File | Step |
//! |---|---|
//! | `entry.rs` | converts documents of a request into entries |
//! | `removal.rs` | collects the ids of the documents that a request deletes |
//! | `search.rs` | converts documents into queries, and search results into their matches |
//! | `found_entry.rs` | what a search finds in an index |
//! | `match_budget.rs` | limits the bytes of the matches of a call |
//! | `vector.rs` | converts an embedding into floats that fit the index |
//!
//! This crate checks requests and builds replies, so that every index accepts the same requests and gives the same answers. The
//! executors decide where to store entries and how to search them.

#![warn(missing_docs)]

mod entry;
mod found_entry;
mod match_budget;
mod removal;
mod search;
mod vector;

pub use entry::{IndexEntry, entries};
pub use found_entry::FoundEntry;
pub use match_budget::{MatchBudget, MatchesTooLarge};
pub use removal::{IDS, documents_to_remove};
pub use search::{LIMIT, Search, TOP_K_MAX, limit};
pub use vector::{dot, normalised};
