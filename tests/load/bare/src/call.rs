//! The client's side of the one method.

use anyhow::{Context, bail};
use bytes::Bytes;
use http::uri::PathAndQuery;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

use crate::bytes_codec::BytesCodec;

pub(crate) const PATH: &str = "/jina.JinaSingleDataRequestRPC/process_single_data";

/// The flag and the length that gRPC puts before a message.
const FRAME_HEAD_LEN: usize = 5;

pub(crate) async fn connect(url: &str) -> anyhow::Result<Channel> {
    let endpoint = Endpoint::from_shared(url.to_owned())?;
    endpoint
        .connect()
        .await
        .with_context(|| format!("cannot connect to `{url}`"))
}

pub(crate) async fn unary(channel: Channel, message: Bytes) -> Result<Response<Bytes>, Status> {
    let mut grpc = Grpc::new(channel);
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    grpc.unary(
        Request::new(message),
        PathAndQuery::from_static(PATH),
        BytesCodec,
    )
    .await
}

/// Sends one framed request; says the length of a good reply.
pub(crate) async fn once(url: &str, framed: &[u8]) -> anyhow::Result<String> {
    let Some(message) = framed.get(FRAME_HEAD_LEN..) else {
        bail!(
            "the request has {} bytes, fewer than the head of its frame",
            framed.len()
        );
    };
    let reply = unary(connect(url).await?, Bytes::copy_from_slice(message)).await?;
    Ok(format!("grpc-status 0, {} bytes", reply.get_ref().len()))
}
