//! Whole flow files, through the public interface only.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod flow_files;
mod flows_in_the_wild;
mod hub;
mod reference;
