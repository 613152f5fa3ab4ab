//! Whether messages are compressed: the extension permessage-deflate (RFC 7692). Pure.
//!
//! Both sides compress every message by itself. Otherwise a connection would hold the last 32 KiB of each direction while it is
//! idle.

use std::collections::HashSet;

use http::HeaderMap;
use http::header::SEC_WEBSOCKET_EXTENSIONS;

const NAME: &str = "permessage-deflate";

const SERVER_BITS: &str = "server_max_window_bits";
const CLIENT_BITS: &str = "client_max_window_bits";
const SERVER_ALONE: &str = "server_no_context_takeover";
const CLIENT_ALONE: &str = "client_no_context_takeover";

const BITS_MIN: u8 = 8;
const BITS_MAX: u8 = 15;

/// What client and server agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Deflate {
    /// The base-2 logarithm of the window of the server's compressor, if the client offered a limit. The answer then repeats it.
    pub(super) server_bits: Option<u8>,
}

impl Deflate {
    /// What is agreed on with a client that sends these headers; `None` if messages are not compressed.
    pub(super) fn agree(headers: &HeaderMap) -> Option<Self> {
        let values = headers.get_all(SEC_WEBSOCKET_EXTENSIONS).iter();
        let values = values.filter_map(|it| it.to_str().ok());
        values.flat_map(|it| it.split(',')).find_map(Self::accept)
    }

    /// An offer of the client, if it is one that the server can meet.
    fn accept(offer: &str) -> Option<Self> {
        let mut parts = offer.split(';').map(str::trim);
        if parts.next() != Some(NAME) {
            return None;
        }
        let mut server_bits = None;
        let mut seen = HashSet::new();
        for part in parts {
            let (name, value) = match part.split_once('=') {
                Some((name, value)) => (name.trim(), Some(bits(value.trim())?)),
                None => (part, None),
            };
            match (name, value) {
                (SERVER_ALONE | CLIENT_ALONE, None) | (CLIENT_BITS, _) => {}
                // The compressor has no window of 256 bytes.
                (SERVER_BITS, Some(bits)) if bits > BITS_MIN => server_bits = Some(bits),
                _ => return None,
            }
            if !seen.insert(name) {
                return None;
            }
        }
        Some(Self { server_bits })
    }

    /// What the answer to the client says.
    pub(super) fn header(self) -> String {
        let mut header = format!("{NAME}; {SERVER_ALONE}; {CLIENT_ALONE}");
        if let Some(bits) = self.server_bits {
            header.push_str(&format!("; {SERVER_BITS}={bits}"));
        }
        header
    }

    /// The base-2 logarithm of the compressor's window.
    pub(super) fn window_bits(self) -> u8 {
        self.server_bits.unwrap_or(BITS_MAX)
    }
}

/// A number of bits, which may be quoted.
fn bits(value: &str) -> Option<u8> {
    let quoted = value.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
    let bits = quoted.unwrap_or(value);
    let is_number = !bits.starts_with(['0', '+']);
    let bits = bits.parse().ok().filter(|_| is_number)?;
    (BITS_MIN..=BITS_MAX).contains(&bits).then_some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_offer_that_can_be_met_is_accepted() {
        let check = |offers: &str, expected: Option<u8>| {
            let mut headers = HeaderMap::new();
            headers.insert(SEC_WEBSOCKET_EXTENSIONS, offers.parse().unwrap());
            let agreed = Deflate::agree(&headers).map(Deflate::window_bits);
            assert_eq!(agreed, expected, "{offers}");
        };
        check("permessage-deflate", Some(15));
        // As browsers offer it, and as Python's `websockets` does.
        check("permessage-deflate; client_max_window_bits", Some(15));
        let python = "permessage-deflate; server_max_window_bits=12; client_max_window_bits=12";
        check(python, Some(12));
        let all = "permessage-deflate; server_no_context_takeover; client_no_context_takeover; \
                   server_max_window_bits=\"10\"; client_max_window_bits=9";
        check(all, Some(10));
        check(
            "permessage-deflate; server_max_window_bits=8, permessage-deflate",
            Some(15),
        );
        check("x-webkit-deflate-frame, permessage-deflate", Some(15));
        check("permessage-bzip2", None);
        check("permessage-deflate; unknown", None);
        check("permessage-deflate; server_max_window_bits", None);
        check("permessage-deflate; server_max_window_bits=16", None);
        check("permessage-deflate; server_max_window_bits=09", None);
        check("permessage-deflate; server_max_window_bits=8", None);
        check("permessage-deflate; client_max_window_bits=7", None);
        check("permessage-deflate; client_no_context_takeover=1", None);
        check(
            "permessage-deflate; client_max_window_bits; client_max_window_bits",
            None,
        );
        assert_eq!(Deflate::agree(&HeaderMap::new()), None);
    }

    #[test]
    fn the_answer_says_what_is_agreed_on() {
        let alone = "permessage-deflate; server_no_context_takeover; client_no_context_takeover";
        assert_eq!(Deflate { server_bits: None }.header(), alone);
        for bits in [12, 15] {
            let limited = format!("{alone}; server_max_window_bits={bits}");
            let agreed = Deflate {
                server_bits: Some(bits),
            };
            assert_eq!(agreed.header(), limited);
        }
    }
}
