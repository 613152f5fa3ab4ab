//! Reads the body of a request as a whole, within the limits on messages and the budget of its connection.

use std::error::Error;

use axum::body::Bytes;
use axum::extract::Request;
use flow_core::{Code, Failure};
use flow_net::{ByteBudget, HeldBytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tonic::Status;

use super::json_size;
use super::state::HttpState;

/// The body of a request. Its bytes count in the budget of the connection until this is dropped.
#[derive(Debug)]
pub(crate) struct WholeBody {
    pub(crate) bytes: Bytes,
    _held: Option<HeldBytes>,
}

impl WholeBody {
    /// Reads a request's body. Handlers of APIs map the failure to their own shape of errors, so they call this instead
    /// of using an extractor with a shape of its own.
    ///
    /// Its length is limited as that of a message after decompression, compressed or not: JSON takes up to 16 times that
    /// while it is parsed, because its values are limited too.
    pub(crate) async fn read(request: Request, state: &HttpState) -> Result<Self, Failure> {
        let messages = &state.limits.messages;
        let max = messages.message_len_max.min(messages.decompressed_len_max);
        let budget = request.extensions().get::<ByteBudget>().cloned();
        let body = Limited::new(request.into_body(), max).collect().await;
        let bytes = body.map_err(|error| unreadable(&*error, max))?.to_bytes();
        if json_size::may_exceed(bytes.len(), max) {
            let checked = bytes.clone();
            let check = move || json_size::check(&checked, max);
            state.service.heavy().run(bytes.len(), check).await?;
        }
        let _held = budget.map(|budget| budget.hold(bytes.len()));
        Ok(Self { bytes, _held })
    }
}

fn unreadable(error: &(dyn Error + 'static), max: usize) -> Failure {
    if cause::<LengthLimitError>(error).is_some() {
        let text = format!("the body has more than {max} bytes, the limit");
        return Failure::new(Code::TooLarge, text);
    }
    match cause::<Status>(error) {
        // The budget is used up.
        Some(status) => flow_net::status::to_failure(status),
        None => Failure::from_error(Code::BadRequest, error),
    }
}

/// The error, or the first of its causes, that has this type.
fn cause<'c, E: Error + 'static>(error: &'c (dyn Error + 'static)) -> Option<&'c E> {
    let mut current = Some(error);
    while let Some(error) = current {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        current = error.source();
    }
    None
}
