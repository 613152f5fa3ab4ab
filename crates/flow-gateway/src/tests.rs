//! Helpers of this crate's unit tests.

pub(crate) mod in_memory;
