//! Recognises requests for the console's page. Pure.
//!
//! The page says nothing of the flow, so it needs no API key: it asks for one. What it shows comes from the routes below
//! [`DATA`], which need a key like all others.

use http::header::ACCEPT;
use http::{HeaderMap, Method};

/// The beginning of the paths of the page's files and data.
pub(crate) const PREFIX: &str = "/_console/";

/// The beginning of the paths of its data.
pub(crate) const DATA: &str = "/_console/api/";

/// Whether a request is for the page or its files.
pub(crate) fn is_page(method: &Method, path: &str, headers: &HeaderMap) -> bool {
    let reads = *method == Method::GET || *method == Method::HEAD;
    let is_file = path.starts_with(PREFIX) && !path.starts_with(DATA);
    reads && (is_file || (path == "/" && wants_page(headers)))
}

/// Whether the client is a browser that opens a page: it asks for HTML by name. Other clients accept anything.
pub(crate) fn wants_page(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    let accepted = accepted.filter_map(|it| it.to_str().ok());
    accepted.flat_map(|it| it.split(',')).any(is_html)
}

fn is_html(range: &str) -> bool {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next().unwrap_or_default();
    let is_refused = |part: &str| {
        let weight = part.strip_prefix("q=").and_then(|it| it.parse().ok());
        weight == Some(0.0_f32)
    };
    kind.eq_ignore_ascii_case("text/html") && !parts.any(is_refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepting(accept: &str) -> HeaderMap {
        HeaderMap::from_iter([(ACCEPT, accept.parse().unwrap())])
    }

    #[test]
    fn browsers_ask_for_html_by_name() {
        let check = |accept: &str, expected: bool| {
            assert_eq!(wants_page(&accepting(accept)), expected, "{accept}");
        };
        check(
            "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
            true,
        );
        check("application/json, Text/HTML;q=0.1", true);
        check("*/*", false);
        check("application/json", false);
        check("text/html;q=0", false);
        check("text/htmlx", false);
        assert!(!wants_page(&HeaderMap::new()));
    }

    #[test]
    fn data_is_not_part_of_the_page() {
        let html = accepting("text/html");
        let is_page = |method: Method, path: &str| super::is_page(&method, path, &html);
        assert!(is_page(Method::GET, "/"));
        assert!(is_page(Method::HEAD, "/_console/app.js"));
        assert!(!is_page(Method::POST, "/_console/app.js"));
        assert!(!is_page(Method::GET, "/_console/api/overview"));
        assert!(!is_page(Method::GET, "/_console"));
        assert!(!is_page(Method::GET, "/encode"));
        let none = HeaderMap::new();
        assert!(!super::is_page(&Method::GET, "/", &none));
    }
}
