//! The page at `/docs`: Swagger UI, which reads the OpenAPI document and sends requests.
//!
//! Its files are part of this program, so browsers fetch nothing from elsewhere. They are stored compressed.

use std::io::Read;
use std::sync::OnceLock;

use axum::Router;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use flate2::read::GzDecoder;
use http::HeaderMap;
use http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY, X_CONTENT_TYPE_OPTIONS,
};

use crate::docs;
use crate::http::state::HttpState;
use crate::http::web_page;

/// What the page may load and do: its own files, and requests to this gateway. Swagger UI sets styles of its elements, and its
/// style sheet contains images.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; \
                      frame-ancestors 'none'";

const HTML: &str = "text/html; charset=utf-8";

const JAVASCRIPT: &str = "text/javascript; charset=utf-8";

const PAGE: &str = include_str!("page/index.html");

const START: &str = include_str!("page/start.js");

const CSS: &str = "text/css; charset=utf-8";

const PNG: &str = "image/png";

/// A file of Swagger UI.
struct File {
    kind: &'static str,
    compressed: &'static [u8],
    /// The same without compression, made for the first client that does not accept gzip and shared by all.
    decompressed: OnceLock<Bytes>,
}

static BUNDLE: File = File::new(
    JAVASCRIPT,
    include_bytes!(concat!(env!("OUT_DIR"), "/swagger-ui-bundle.js.gz")),
);
static STYLE: File = File::new(
    CSS,
    include_bytes!(concat!(env!("OUT_DIR"), "/swagger-ui.css.gz")),
);
static ICON: File = File::new(
    PNG,
    include_bytes!(concat!(env!("OUT_DIR"), "/favicon-32x32.png.gz")),
);

/// The routes. They tell nothing of the flow, so [`docs::is_page`](crate::docs::is_page) lets clients without a key read them.
pub(super) fn routes() -> Router<HttpState> {
    Router::new()
        .route(docs::PAGE, get(async || of_page(HTML, PAGE)))
        .route(docs::START, get(async || of_page(JAVASCRIPT, START)))
        .route(docs::BUNDLE, get(async |request| BUNDLE.answer(&request)))
        .route(docs::STYLE, get(async |request| STYLE.answer(&request)))
        .route(docs::ICON, get(async |request| ICON.answer(&request)))
}

fn of_page(kind: &'static str, text: &'static str) -> Response {
    web_page::file(kind, POLICY, text)
}

impl File {
    const fn new(kind: &'static str, compressed: &'static [u8]) -> Self {
        Self {
            kind,
            compressed,
            decompressed: OnceLock::new(),
        }
    }

    fn answer(&self, request: &HeaderMap) -> Response {
        let headers = [
            (CONTENT_TYPE, self.kind),
            // The file changes with the program.
            (CACHE_CONTROL, "max-age=3600"),
            (VARY, "accept-encoding"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        if takes_gzip(request) {
            let encoding = [(CONTENT_ENCODING, "gzip")];
            return (headers, encoding, self.compressed).into_response();
        }
        (headers, self.decompressed()).into_response()
    }

    fn decompressed(&self) -> Bytes {
        let decompress = || {
            let mut bytes = Vec::new();
            let whole = GzDecoder::new(self.compressed).read_to_end(&mut bytes);
            whole.expect("the build script compressed the file");
            bytes.into()
        };
        self.decompressed.get_or_init(decompress).clone()
    }
}

/// Whether a client accepts gzip. A client that names it with a weight of zero does not.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter();
    let mut encodings = values
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','));
    encodings.any(|encoding| {
        let mut parts = encoding.split(';').map(str::trim);
        let is_gzip = parts
            .next()
            .is_some_and(|it| it.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|it| it.strip_prefix("q=").or(it.strip_prefix("Q=")));
        is_gzip && weight.and_then(|it| it.parse::<f32>().ok()) != Some(0.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_clients_that_accept_it() {
        let takes = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            takes_gzip(&headers)
        };
        assert!(takes("gzip") && takes("gzip, deflate, br") && takes("br;q=1, GZIP;q=0.5"));
        assert!(!takes("identity") && !takes("gzip;q=0") && !takes("br, gzip; Q=0.0"));
        assert!(!takes_gzip(&HeaderMap::new()));
    }
}
