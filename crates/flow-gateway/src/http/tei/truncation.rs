//! The side at which a long text is cut.

use serde::Deserialize;

use super::super::api_error::ApiError;

/// The side at which a long text is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(super) enum Direction {
    #[serde(alias = "left")]
    Left,
    #[serde(alias = "right")]
    Right,
}

/// Refuses the side that the tokenizer does not cut.
pub(super) fn refuse_left(direction: Option<Direction>) -> Result<(), ApiError> {
    match direction {
        Some(Direction::Left) => Err(ApiError::invalid(
            "truncation_direction",
            "`truncation_direction` can be `Right` only: the tokenizer cuts off the end of a text",
        )),
        Some(Direction::Right) | None => Ok(()),
    }
}
