//! The gRPC routes of a gateway.

use flow_net::grpc::inference::grpc_inference_service_server::{
    GrpcInferenceService, GrpcInferenceServiceServer,
};
use flow_net::grpc::jina_discover_endpoints_rpc_server::{
    JinaDiscoverEndpointsRpc, JinaDiscoverEndpointsRpcServer,
};
use flow_net::grpc::jina_gateway_dry_run_rpc_server::{
    JinaGatewayDryRunRpc, JinaGatewayDryRunRpcServer,
};
use flow_net::grpc::jina_info_rpc_server::{JinaInfoRpc, JinaInfoRpcServer};
use flow_net::grpc::jina_rpc_server::{JinaRpc, JinaRpcServer};
use flow_net::grpc::jina_single_data_request_rpc_server::JinaSingleDataRequestRpc;
use flow_net::grpc::jina_single_document_request_rpc_server::{
    JinaSingleDocumentRequestRpc, JinaSingleDocumentRequestRpcServer,
};
use flow_net::{GrpcRoutes, Limits, SingleDataServer};
use tonic::codec::CompressionEncoding;

/// The names of the services, by which clients ask for their health.
pub(crate) const SERVICES: &[&str] = &[
    "jina.JinaRPC",
    "jina.JinaSingleDataRequestRPC",
    "jina.JinaSingleDocumentRequestRPC",
    "jina.JinaDiscoverEndpointsRPC",
    "jina.JinaGatewayDryRunRPC",
    "jina.JinaInfoRPC",
    "inference.GRPCInferenceService",
];

/// How requests to the routes arrive.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RequestKind {
    AsTheyAre,
    Compressed,
}

/// Routes to the services, and to reflection.
pub(crate) fn routes<J, I>(
    (jina, inference): (&J, &I),
    limits: Limits,
    requests: RequestKind,
) -> GrpcRoutes
where
    J: JinaRpc
        + JinaSingleDataRequestRpc
        + JinaSingleDocumentRequestRpc
        + JinaDiscoverEndpointsRpc
        + JinaGatewayDryRunRpc
        + JinaInfoRpc
        + Clone,
    I: GrpcInferenceService + Clone,
{
    let read_max = match requests {
        RequestKind::AsTheyAre => limits.message_len_max,
        RequestKind::Compressed => limits.decompressed_len_max,
    };
    macro_rules! configured {
        ($server:ident, $service:ident) => {
            $server::new($service.clone())
                .accept_compressed(CompressionEncoding::Gzip)
                .accept_compressed(CompressionEncoding::Deflate)
                .max_decoding_message_size(read_max)
                .max_encoding_message_size(limits.message_len_max)
        };
    }
    let single_data = SingleDataServer::new(jina.clone(), read_max, limits.message_len_max);
    let routes = GrpcRoutes::new(single_data)
        .add_service(configured!(JinaRpcServer, jina))
        .add_service(configured!(JinaSingleDocumentRequestRpcServer, jina))
        .add_service(configured!(JinaDiscoverEndpointsRpcServer, jina))
        .add_service(configured!(JinaGatewayDryRunRpcServer, jina))
        .add_service(configured!(JinaInfoRpcServer, jina))
        .add_service(configured!(GrpcInferenceServiceServer, inference));
    flow_net::with_reflection(routes, SERVICES)
}
