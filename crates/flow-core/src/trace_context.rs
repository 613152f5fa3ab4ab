//! The trace that a request belongs to, as W3C Trace Context writes it in headers.

use std::fmt;

use bytes::Bytes;

/// The bit of the flags that says that the trace is recorded.
const SAMPLED: u8 = 1;

/// Length of a `traceparent` of version 00, whose layout later versions keep at their beginning.
const LEN: usize = 55;

/// A trace, and the span in it that the next one is a child of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceContext {
    /// The trace; not zero.
    pub trace_id: [u8; 16],
    /// The span; not zero.
    pub span_id: [u8; 8],
    /// Whether the trace is recorded.
    pub is_sampled: bool,
    /// What other tracers keep with the trace: the value of `tracestate`.
    pub state: Option<Bytes>,
}

impl TraceContext {
    /// Parses the value of a `traceparent`; `None` if it is invalid. A new trace begins then, as the standard demands.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (version, rest) = text.split_at_checked(2)?;
        let is_known = match version {
            b"00" => text.len() == LEN,
            b"ff" => false,
            _ => is_hex(version) && (text.len() == LEN || text.get(LEN) == Some(&b'-')),
        };
        let (b'-', b'-', b'-') = (rest.first()?, text.get(35)?, text.get(52)?) else {
            return None;
        };
        let trace_id = bytes(text.get(3..35)?)?;
        let span_id = bytes(text.get(36..52)?)?;
        let [flags] = bytes(text.get(53..LEN)?)?;
        let is_valid = is_known && trace_id != [0; 16] && span_id != [0; 8];
        is_valid.then_some(Self {
            trace_id,
            span_id,
            is_sampled: flags & SAMPLED != 0,
            state: None,
        })
    }

    /// The value of a `traceparent`, in ASCII.
    #[must_use]
    pub fn traceparent(&self) -> [u8; 55] {
        let mut text = *b"00-00000000000000000000000000000000-0000000000000000-00";
        put_hex(&mut text[3..35], &self.trace_id);
        put_hex(&mut text[36..52], &self.span_id);
        text[LEN - 1] += u8::from(self.is_sampled);
        text
    }

    /// The id of the trace, if it is recorded.
    #[must_use]
    pub fn recorded_id(&self) -> Option<[u8; 16]> {
        self.is_sampled.then_some(self.trace_id)
    }

    /// The id of the trace: 32 hexadecimal digits.
    #[must_use]
    pub fn trace_id(&self) -> String {
        let mut text = String::with_capacity(32);
        push_hex(&mut text, &self.trace_id);
        text
    }

    /// The id of the span: 16 hexadecimal digits.
    #[must_use]
    pub fn span_id(&self) -> String {
        let mut text = String::with_capacity(16);
        push_hex(&mut text, &self.span_id);
        text
    }
}

/// The value of a `traceparent`.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.traceparent();
        f.write_str(str::from_utf8(&text).unwrap_or_default())
    }
}

fn push_hex(to: &mut String, bytes: &[u8]) {
    let mut digits = [0; 2 * 16];
    let digits = &mut digits[..2 * bytes.len()];
    put_hex(digits, bytes);
    to.push_str(str::from_utf8(digits).unwrap_or_default());
}

/// Writes the digits of bytes, of which there are half as many.
fn put_hex(to: &mut [u8], bytes: &[u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (pair, byte) in to.chunks_exact_mut(2).zip(bytes) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

/// The bytes that lower-case hexadecimal digits stand for.
fn bytes<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if digits.len() != 2 * N {
        return None;
    }
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

fn is_hex(digits: &[u8]) -> bool {
    digits.iter().all(|&digit| value(digit).is_some())
}

fn value(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn a_traceparent_is_written_as_it_was_read() {
        for text in [GOOD, &GOOD.replace("-01", "-00")] {
            let parsed = TraceContext::parse(text.as_bytes()).unwrap();
            assert_eq!(parsed.to_string(), text);
        }
        let parsed = TraceContext::parse(GOOD.as_bytes()).unwrap();
        assert_eq!(parsed.trace_id(), "0af7651916cd43dd8448eb211c80319c");
        assert!(parsed.is_sampled);
    }

    #[test]
    fn a_later_version_may_have_more_and_begins_the_same() {
        let later = GOOD.replacen("00", "01", 1);
        for text in [later.clone(), format!("{later}-more")] {
            let parsed = TraceContext::parse(text.as_bytes()).unwrap();
            assert_eq!(parsed.to_string(), GOOD);
        }
        assert_eq!(TraceContext::parse(format!("{later}x").as_bytes()), None);
    }

    #[test]
    fn an_invalid_traceparent_is_ignored() {
        let zeros = |from: &str| GOOD.replace(from, &"0".repeat(from.len()));
        let bad = [
            String::new(),
            "00".to_owned(),
            "é".repeat(40),
            GOOD.to_uppercase(),
            GOOD.replacen("00", "ff", 1),
            GOOD.replace("-b7", "+b7"),
            format!("{GOOD}-more"),
            zeros("0af7651916cd43dd8448eb211c80319c"),
            zeros("b7ad6b7169203331"),
            GOOD[..54].to_owned(),
        ];
        for text in bad {
            assert_eq!(TraceContext::parse(text.as_bytes()), None, "{text}");
        }
    }
}
