//! Reads the options of a gRPC call, and the memory budget of its connection.

use std::sync::Arc;

use flow_core::CallOptions;
use flow_net::grpc::metadata::{call_options, write_request_id};
use flow_net::status::from_failure;
use flow_net::{ByteBudget, ConnectionHandle};
use tonic::metadata::MetadataMap;
use tonic::{Request, Status};

use crate::origin::origin;

/// The options of a call of this method.
pub(super) fn options<T>(
    request: &Request<T>,
    method: &'static str,
) -> Result<CallOptions, Status> {
    let options = call_options(request.metadata()).map_err(|failure| from_failure(&failure))?;
    Ok(CallOptions {
        origin: origin(request.extensions(), "grpc", method),
        ..options
    })
}

/// Returns the id that the caller gave the call.
pub(super) fn return_id(metadata: &mut MetadataMap, id: Option<&Arc<str>>) {
    if let Some(id) = id {
        write_request_id(metadata, id);
    }
}

/// The part of the byte budget that the call's connection has.
pub(super) fn budget<T>(request: &Request<T>) -> Option<ByteBudget> {
    ConnectionHandle::budget_of(request.extensions()).cloned()
}
