//! What the unit tests of this crate share.

pub(crate) mod in_memory;
