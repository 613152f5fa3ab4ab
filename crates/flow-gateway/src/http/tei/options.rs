//! Options of TEI that change how texts are tokenized.

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

/// Refuses to cut off the beginning of texts.
pub(super) fn refuse_left(direction: Option<Direction>) -> Result<(), ApiError> {
    match direction {
        Some(Direction::Left) => Err(ApiError::invalid(
            "truncation_direction",
            "`truncation_direction` can be `Right` only: the tokenizer cuts off the end of a text",
        )),
        Some(Direction::Right) | None => Ok(()),
    }
}

/// Refuses a prompt: the encoder has one for all requests.
pub(super) fn refuse_prompt(prompt: Option<&str>) -> Result<(), ApiError> {
    match prompt {
        Some(_) => Err(ApiError::invalid(
            "prompt_name",
            "`prompt_name` cannot be chosen by a request; set it in the flow file, in the encoder's `uses_with`",
        )),
        None => Ok(()),
    }
}
