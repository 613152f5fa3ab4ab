//! The side at which a long text is cut.

use serde::Deserialize;

use super::super::truncation::Truncation;

/// The side at which a long text is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Direction {
    #[serde(alias = "left")]
    Left,
    #[serde(alias = "right")]
    Right,
}

/// What the fields `truncate` and `truncation_direction` say.
pub(super) fn truncation(truncate: Option<bool>, direction: Option<Direction>) -> Truncation {
    Truncation {
        truncate,
        left: (direction == Some(Direction::Left)).then_some("truncation_direction"),
    }
}
