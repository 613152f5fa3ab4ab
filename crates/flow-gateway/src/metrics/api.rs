//! The API that a request came over, as a label.

use flow_core::Origin;

/// An API of the gateway.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Grpc,
    /// Jina's own over HTTP.
    Http,
    Websocket,
    OpenAi,
    Tei,
    Cohere,
    OpenInference,
}

impl Api {
    pub(super) const ALL: [Self; 7] = [
        Self::Grpc,
        Self::Http,
        Self::Websocket,
        Self::OpenAi,
        Self::Tei,
        Self::Cohere,
        Self::OpenInference,
    ];

    /// The API of a request, by its protocol and its route.
    pub(crate) fn of(origin: &Origin) -> Self {
        match origin.protocol {
            Some("websocket") => Self::Websocket,
            Some("http") => Self::of_operation(&origin.operation),
            _ if origin.operation.starts_with("/inference.") => Self::OpenInference,
            _ => Self::Grpc,
        }
    }

    /// The API of the method and the route of an HTTP request. A request without a route is one of Jina's, whose path is an
    /// endpoint.
    fn of_operation(operation: &str) -> Self {
        match operation.split_once(' ').map_or("", |(_, route)| route) {
            "/v1/rerank" | "/v2/embed" | "/v2/rerank" => Self::Cohere,
            "/v2" => Self::OpenInference,
            "/" | "/embed" | "/embed_all" | "/embed_sparse" | "/predict" | "/rerank"
            | "/similarity" | "/tokenize" | "/decode" => Self::Tei,
            route if route.starts_with("/v1/") => Self::OpenAi,
            route if route.starts_with("/v2/") => Self::OpenInference,
            _ => Self::Http,
        }
    }

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::Websocket => "websocket",
            Self::OpenAi => "openai",
            Self::Tei => "tei",
            Self::Cohere => "cohere",
            Self::OpenInference => "open_inference",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_protocol_and_the_route_say_which_api_it_is() {
        let check = |protocol: &'static str, operation: &'static str, expected: &str| {
            let origin = Origin {
                protocol: Some(protocol),
                operation: operation.into(),
                ..Origin::default()
            };
            assert_eq!(
                Api::of(&origin).as_str(),
                expected,
                "{protocol} {operation}"
            );
        };
        check("grpc", "/jina.JinaRPC/Call", "grpc");
        let infer = "/inference.GRPCInferenceService/ModelInfer";
        check("grpc", infer, "open_inference");
        check("websocket", "GET /", "websocket");
        check("http", "POST", "http");
        check("http", "POST /post", "http");
        check("http", "POST /v1/embeddings", "openai");
        check("http", "POST /v1/rerank", "cohere");
        check("http", "POST /v2/embed", "cohere");
        check("http", "POST /v2/models/{*path}", "open_inference");
        check("http", "POST /embed", "tei");
        check("http", "POST /", "tei");
        assert_eq!(Api::of(&Origin::default()), Api::Grpc);
        for (index, api) in Api::ALL.into_iter().enumerate() {
            assert_eq!(api as usize, index);
        }
    }
}
