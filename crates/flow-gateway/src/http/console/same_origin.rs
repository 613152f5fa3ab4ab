//! Which requests come from the console's own page. Pure.
//!
//! A web site that a browser visits can send requests to any address that the browser reaches, this gateway included.
//! Four checks keep it from the console's data:
//!
//! - A header that only scripts can set. A browser asks before it lets a script of another site send it.
//! - `sec-fetch-site`, in which browsers say where a request comes from.
//! - `origin`, for browsers that do not.
//! - The name by which the browser reached the gateway. A site whose own name was made to point here (DNS rebinding)
//!   passes all of the above, but not with an API key, which it does not have. Without keys, the gateway must be reached
//!   by its address or by a name that cannot be registered.

use std::net::{IpAddr, Ipv6Addr};

use http::header::{HOST, ORIGIN};
use http::uri::Authority;
use http::{HeaderMap, HeaderName, Uri};

/// The header that the page sends.
const FROM_PAGE: HeaderName = HeaderName::from_static("x-flow-console");

const FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// Checks that a request comes from the page.
///
/// # Errors
///
/// If it does not, with the reason.
pub(super) fn check(headers: &HeaderMap, uri: &Uri, has_key: bool) -> Result<(), &'static str> {
    if !headers.contains_key(FROM_PAGE) {
        return Err("the console's data is for its page; send `x-flow-console: 1`");
    }
    let text = |name: HeaderName| headers.get(name).map(|it| it.to_str().unwrap_or_default());
    if let Some(site) = text(FETCH_SITE)
        && !matches!(site, "same-origin" | "none")
    {
        return Err("the request comes from another web site");
    }
    let host = host(headers, uri);
    if let Some(origin) = text(ORIGIN) {
        let of_origin = origin.split_once("://").map(|(_, authority)| authority);
        if of_origin.is_none_or(|it| !it.eq_ignore_ascii_case(host)) {
            return Err("the request comes from another web site");
        }
    }
    match has_key || is_ours(host) {
        true => Ok(()),
        false => Err(
            "without API keys, the console answers only at the address of the gateway, at `localhost` or at a \
             name without a dot: any web site could have another name. Open it by IP address, or set `api_keys`",
        ),
    }
}

/// The host that the client names, with its port; empty if it names none.
pub(super) fn host<'r>(headers: &'r HeaderMap, uri: &'r Uri) -> &'r str {
    let of_header = || headers.get(HOST)?.to_str().ok();
    let of_uri = uri.authority().map(Authority::as_str);
    of_uri.or_else(of_header).unwrap_or_default()
}

/// Whether a host is always the client's own machine.
pub(super) fn is_loopback(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host().to_ascii_lowercase();
    let inner = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    let address = inner.unwrap_or(&name).parse::<IpAddr>();
    address.map_or_else(
        |_| name == "localhost" || name.ends_with(".localhost"),
        |it| it.is_loopback(),
    )
}

/// Whether no web site can have this host: it is an address, or a name that cannot be registered.
fn is_ours(host: &str) -> bool {
    let Ok(authority) = host.parse::<Authority>() else {
        return false;
    };
    let name = authority.host().to_ascii_lowercase();
    let inner = name.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
    match inner {
        Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
        None => {
            let is_address = name.parse::<IpAddr>().is_ok();
            is_address || name.ends_with(".localhost") || (!name.is_empty() && !name.contains('.'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(headers: &[(&str, &str)], has_key: bool) -> bool {
        let headers = headers.iter().map(|(name, value)| {
            let name: HeaderName = name.parse().unwrap();
            (name, value.parse().unwrap())
        });
        let uri = Uri::from_static("/_console/api/overview");
        check(&HeaderMap::from_iter(headers), &uri, has_key).is_err()
    }

    const PAGE: (&str, &str) = ("x-flow-console", "1");

    #[test]
    fn only_the_page_s_own_requests_are_answered() {
        let host = ("host", "127.0.0.1:80");
        assert!(!refused(&[PAGE, host], false));
        assert!(refused(&[host], false));
        assert!(refused(&[host], true));
        for (site, expected) in [
            ("same-origin", false),
            ("none", false),
            ("same-site", true),
            ("cross-site", true),
        ] {
            let site = ("sec-fetch-site", site);
            assert_eq!(refused(&[PAGE, host, site], false), expected, "{site:?}");
        }
        for (origin, expected) in [
            ("http://127.0.0.1:80", false),
            ("https://127.0.0.1:80", false),
            ("http://127.0.0.1:81", true),
            ("http://evil.example", true),
            ("null", true),
        ] {
            let origin = ("origin", origin);
            assert_eq!(refused(&[PAGE, host, origin], true), expected, "{origin:?}");
        }
    }

    #[test]
    fn a_name_that_a_web_site_could_have_needs_a_key() {
        for (host, expected) in [
            ("127.0.0.1:80", false),
            ("[::1]:80", false),
            ("192.168.0.7", false),
            ("localhost:54321", false),
            ("flow.localhost", false),
            ("gateway:54321", false),
            ("gateway.example.com", true),
            ("evil.example:54321", true),
            ("127.0.0.1.evil.example", true),
            ("[evil]", true),
            ("", true),
        ] {
            assert_eq!(refused(&[PAGE, ("host", host)], false), expected, "{host}");
            assert!(!refused(&[PAGE, ("host", host)], true), "{host}");
        }
    }

    #[test]
    fn only_loopback_addresses_and_localhost_are_always_the_client_s_own_machine() {
        for (host, expected) in [
            ("127.0.0.1:80", true),
            ("127.1.2.3", true),
            ("[::1]:80", true),
            ("localhost:54321", true),
            ("Flow.Localhost", true),
            ("localhost.evil.example", false),
            ("gateway:54321", false),
            ("192.168.0.7", false),
            ("0.0.0.0:80", false),
            ("127.0.0.1.evil.example", false),
            ("", false),
        ] {
            assert_eq!(is_loopback(host), expected, "{host}");
        }
    }

    #[test]
    fn over_http_2_the_host_is_part_of_the_uri() {
        let headers = HeaderMap::from_iter([(FROM_PAGE, "1".parse().unwrap())]);
        let at = |uri: &'static str| check(&headers, &Uri::from_static(uri), false);
        assert!(at("https://127.0.0.1/_console/api/flow").is_ok());
        assert!(at("https://evil.example/_console/api/flow").is_err());
    }
}
