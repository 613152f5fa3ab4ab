//! "Did you mean …?": the known word closest to one that is not known.

pub(crate) use flow_core::closest;
