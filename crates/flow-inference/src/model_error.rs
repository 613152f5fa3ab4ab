//! The error of a call that a model could not answer.

use flow_executor::{CallError, Chain};
use flow_models::EncodeError;

/// The error of a call. If a GPU is lost to this process, the process must end.
#[must_use]
pub fn model_error(error: &EncodeError) -> CallError {
    if matches!(error, EncodeError::Cancelled) {
        return CallError::cancelled();
    }
    let call_error = CallError::new(Chain(error).to_string());
    if error.is_sticky() {
        call_error.and_end()
    } else {
        call_error
    }
}
