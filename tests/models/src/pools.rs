//! What a snapshot needs of the pools of the gateway.

/// What placements do not change.
#[derive(Debug, Clone)]
pub(crate) struct PlacementIndependent;

/// A placement is refused.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlacementError;
