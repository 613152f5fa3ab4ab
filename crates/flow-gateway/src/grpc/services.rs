//! The services of a gateway's port.

use flow_net::Limits;
use flow_proto::jina::jina_discover_endpoints_rpc_server::JinaDiscoverEndpointsRpcServer;
use flow_proto::jina::jina_gateway_dry_run_rpc_server::JinaGatewayDryRunRpcServer;
use flow_proto::jina::jina_info_rpc_server::JinaInfoRpcServer;
use flow_proto::jina::jina_rpc_server::JinaRpcServer;
use flow_proto::jina::jina_single_data_request_rpc_server::JinaSingleDataRequestRpcServer;
use flow_proto::jina::jina_single_document_request_rpc_server::JinaSingleDocumentRequestRpcServer;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;

use super::Wire;

/// Names that health is asked by.
pub(crate) const SERVICES: &[&str] = &[
    "jina.JinaRPC",
    "jina.JinaSingleDataRequestRPC",
    "jina.JinaSingleDocumentRequestRPC",
    "jina.JinaDiscoverEndpointsRPC",
    "jina.JinaGatewayDryRunRPC",
    "jina.JinaInfoRPC",
];

impl Wire {
    pub(crate) fn routes(&self, limits: Limits) -> Routes {
        macro_rules! configured {
            ($server:ident) => {
                $server::new(self.clone())
                    .accept_compressed(CompressionEncoding::Gzip)
                    .accept_compressed(CompressionEncoding::Deflate)
                    .max_decoding_message_size(limits.message_len_max)
                    .max_encoding_message_size(limits.message_len_max)
            };
        }
        let routes = Routes::new(configured!(JinaRpcServer))
            .add_service(configured!(JinaSingleDataRequestRpcServer))
            .add_service(configured!(JinaSingleDocumentRequestRpcServer))
            .add_service(configured!(JinaDiscoverEndpointsRpcServer))
            .add_service(configured!(JinaGatewayDryRunRpcServer))
            .add_service(configured!(JinaInfoRpcServer));
        flow_net::with_reflection(routes)
    }
}
