//! The paths of the page that describes the routes, and of its files. Pure.
//!
//! The page says nothing of the flow, so it needs no API key: it asks for one when the OpenAPI document needs it.

use http::Method;

pub(crate) const PAGE: &str = "/docs";
pub(crate) const START: &str = "/docs/start.js";
pub(crate) const BUNDLE: &str = "/docs/swagger-ui-bundle.js";
pub(crate) const STYLE: &str = "/docs/swagger-ui.css";
pub(crate) const ICON: &str = "/docs/favicon-32x32.png";

/// Whether a request is for the page or one of its files.
pub(crate) fn is_page(method: &Method, path: &str) -> bool {
    let reads = *method == Method::GET || *method == Method::HEAD;
    reads && [PAGE, START, BUNDLE, STYLE, ICON].contains(&path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_of_the_page_need_no_key() {
        assert!(is_page(&Method::GET, "/docs") && is_page(&Method::HEAD, "/docs/start.js"));
        assert!(!is_page(&Method::POST, "/docs"));
        assert!(!is_page(&Method::GET, "/docs/other"));
        assert!(!is_page(&Method::GET, "/openapi.json"));
    }
}
