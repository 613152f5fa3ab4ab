//! Which web sites may call the gateway from a browser.

use std::time::Duration;

use flow_spec::Cors;
use http::{HeaderName, HeaderValue};
use tower_http::cors::{AllowOrigin, Any, CorsLayer};

use super::model_call::CACHED_TEXTS;

/// How long a browser remembers what it may do.
const MAX_AGE: Duration = Duration::from_secs(60 * 60);

/// Headers of responses that scripts may read.
const EXPOSED: [HeaderName; 7] = [
    HeaderName::from_static("x-request-id"),
    HeaderName::from_static("server-timing"),
    CACHED_TEXTS,
    HeaderName::from_static("retry-after"),
    HeaderName::from_static("grpc-status"),
    HeaderName::from_static("grpc-message"),
    HeaderName::from_static("grpc-status-details-bin"),
];

/// The layer that adds the CORS headers.
pub(crate) fn layer(cors: &Cors) -> CorsLayer {
    let origins = match cors {
        // Without headers of its own, a response is for its own origin only.
        Cors::Off => return CorsLayer::new(),
        Cors::Any => AllowOrigin::any(),
        Cors::Origins(origins) => {
            let origins = origins
                .iter()
                .filter_map(|it| HeaderValue::from_str(it).ok());
            AllowOrigin::list(origins)
        }
    };
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods(Any)
        .allow_headers(Any)
        .expose_headers(EXPOSED)
        .max_age(MAX_AGE)
}
