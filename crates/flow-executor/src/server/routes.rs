//! Jina's services as gRPC routes.

use flow_net::grpc::jina_data_request_rpc_server::JinaDataRequestRpcServer;
use flow_net::grpc::jina_discover_endpoints_rpc_server::JinaDiscoverEndpointsRpcServer;
use flow_net::grpc::jina_info_rpc_server::JinaInfoRpcServer;
use flow_net::grpc::jina_rpc_server::JinaRpcServer;
use flow_net::grpc::jina_single_document_request_rpc_server::JinaSingleDocumentRequestRpcServer;
use flow_net::{GrpcRoutes, Limits, SingleDataServer};
use tonic::codec::CompressionEncoding;

use super::error_trailer::ErrorTrailer;
use super::grpc::JinaService;

/// The names of the services, for health checks.
pub(crate) const SERVICES: &[&str] = &[
    "jina.JinaSingleDataRequestRPC",
    "jina.JinaDataRequestRPC",
    "jina.JinaSingleDocumentRequestRPC",
    "jina.JinaDiscoverEndpointsRPC",
    "jina.JinaInfoRPC",
    "jina.JinaRPC",
];

/// All services, and reflection, for requests of at most this length.
pub(crate) fn routes(service: &JinaService, limits: Limits, read_max: usize) -> GrpcRoutes {
    macro_rules! configured {
        ($server:ident) => {
            $server::new(service.clone())
                .accept_compressed(CompressionEncoding::Gzip)
                .accept_compressed(CompressionEncoding::Deflate)
                .max_decoding_message_size(read_max)
                .max_encoding_message_size(limits.message_len_max)
        };
    }
    let single_data = SingleDataServer::new(service.clone(), read_max, limits.message_len_max);
    let routes = GrpcRoutes::new(ErrorTrailer(single_data))
        .add_service(ErrorTrailer(configured!(JinaDataRequestRpcServer)))
        .add_service(configured!(JinaRpcServer))
        .add_service(configured!(JinaSingleDocumentRequestRpcServer))
        .add_service(configured!(JinaDiscoverEndpointsRpcServer))
        .add_service(configured!(JinaInfoRpcServer));
    flow_net::with_reflection(routes, SERVICES)
}
