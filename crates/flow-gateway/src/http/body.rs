//! Reads the body of a request as a whole, within the limits on messages and the budget of its connection.

use std::error::Error;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::CONTENT_ENCODING;
use axum::middleware::Next;
use axum::response::Response;
use bytes::BytesMut;
use flow_core::{Code, Failure};
use flow_net::{ByteBudget, ConnectionHandle, HeldBytes};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tonic::Status;

use super::parse_memory::{self, ParseMemory};
use super::state::HttpState;

/// The body of a request. Its bytes count in the budget of the connection until this is dropped.
#[derive(Debug)]
pub(crate) struct WholeBody {
    pub(crate) bytes: Bytes,
    /// For what the body takes while it is parsed.
    pub(crate) parse_memory: ParseMemory,
    _held: Option<HeldBytes>,
}

impl WholeBody {
    /// Reads a request's body. Handlers of APIs map the failure to their own shape of errors, so they call this instead
    /// of using an extractor with a shape of its own.
    ///
    /// Its length is limited as that of a message after decompression, compressed or not: a body takes many
    /// times its length while it is parsed.
    pub(crate) async fn read(request: Request, state: &HttpState) -> Result<Self, Failure> {
        let max = parse_memory::len_max(&state.limits.messages);
        let budget = ConnectionHandle::budget_of(request.extensions()).cloned();
        let is_compressed = request.extensions().get::<Compressed>().is_some();
        let body = Limited::new(request.into_body(), max);
        let bytes = match budget.as_ref().filter(|_| is_compressed) {
            Some(budget) => decompressed(body, budget, max).await?,
            None => {
                let body = body.collect().await;
                body.map_err(|error| unreadable(&*error, max))?.to_bytes()
            }
        };
        let parse_memory = ParseMemory::new(&state.limits.messages, budget.as_ref(), bytes.len());
        let _held = budget.map(|budget| budget.hold(bytes.len()));
        Ok(Self {
            bytes,
            parse_memory,
            _held,
        })
    }
}

/// Marks a request whose body is decompressed while it is read.
#[derive(Debug, Clone, Copy)]
struct Compressed;

/// Marks requests with a compressed body. To be called before they are decompressed, which removes their header.
pub(super) async fn mark_compressed(mut request: Request, next: Next) -> Response {
    if request.headers().contains_key(CONTENT_ENCODING) {
        request.extensions_mut().insert(Compressed);
    }
    next.run(request).await
}

/// Reads a body that grows while it is read. The connection has counted only what arrived.
async fn decompressed(
    mut body: Limited<Body>,
    budget: &ByteBudget,
    max: usize,
) -> Result<Bytes, Failure> {
    let mut bytes = BytesMut::new();
    let mut held = budget.hold(0);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| unreadable(&*error, max))?;
        if let Ok(data) = frame.into_data() {
            // When the buffer is full, it is copied to a larger one.
            held.set(2 * (bytes.len() + data.len()));
            if !budget.may_grow() {
                let text = "the gateway has no memory for the decompressed body at the moment";
                return Err(Failure::new(Code::Overloaded, text));
            }
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
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
