//! Reads when a certificate expires, from its encoding (X.509 in DER). The TLS library checks everything else, and does not
//! tell this.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

/// Tags of DER.
const SEQUENCE: u8 = 0x30;
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";

/// When the first certificate of a PEM file expires; `None` if the text has none that can be read.
pub(super) fn expiry(pem: &str) -> Option<SystemTime> {
    let (_, rest) = pem.split_once(BEGIN)?;
    let (body, _) = rest.split_once(END)?;
    let body: String = body.split_whitespace().collect();
    not_after(&STANDARD.decode(body).ok()?)
}

/// The end of the validity of a certificate.
fn not_after(der: &[u8]) -> Option<SystemTime> {
    let (certificate, _) = value(der, SEQUENCE)?;
    let (mut rest, _) = value(certificate, SEQUENCE)?;
    if rest.first() == Some(&VERSION) {
        rest = value(rest, VERSION)?.1;
    }
    // Serial number, algorithm and issuer come before the validity.
    for _ in 0..3 {
        rest = value(rest, *rest.first()?)?.1;
    }
    let (validity, _) = value(rest, SEQUENCE)?;
    let (_, end) = value(validity, *validity.first()?)?;
    let tag = *end.first()?;
    let (text, _) = value(end, tag)?;
    time(tag, std::str::from_utf8(text).ok()?)
}

/// The value of an element with this tag, and what follows the element.
fn value(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (found, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    if *found != tag {
        return None;
    }
    let (len, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        // The length has as many bytes as the other bits say.
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let len = bytes
                .iter()
                .fold(0, |len, byte| len << 8 | usize::from(*byte));
            (len, rest)
        }
        _ => return None,
    };
    rest.split_at_checked(len)
}

/// A time in UTC: with two digits for the year, of 1950 to 2049, or with four.
fn time(tag: u8, text: &str) -> Option<SystemTime> {
    let text = text.strip_suffix('Z')?;
    let (year, rest) = match tag {
        UTC_TIME => {
            let (year, rest) = text.split_at_checked(2)?;
            let year: u64 = year.parse().ok()?;
            (if year < 50 { 2000 + year } else { 1900 + year }, rest)
        }
        GENERALIZED_TIME => {
            let (year, rest) = text.split_at_checked(4)?;
            (year.parse().ok()?, rest)
        }
        _ => return None,
    };
    let part = |at: usize| rest.get(at..at + 2)?.parse::<u64>().ok();
    let (month, day) = (part(0)?, part(2)?);
    let (hour, minute, second) = (part(4)?, part(6)?, part(8)?);
    let text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z");
    humantime::parse_rfc3339(&text).ok()
}

/// The time from `now` to the expiry, in whole days; negative after it.
pub(super) fn days_left(expiry: SystemTime, now: SystemTime) -> i64 {
    const DAY: u64 = 24 * 3600;
    let days = |time: SystemTime| {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
    };
    (days(expiry) - days(now)).div_euclid(DAY.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, value: &[u8]) -> Vec<u8> {
        let len = u8::try_from(value.len()).unwrap();
        let mut bytes = match len {
            0..=0x7f => vec![tag, len],
            _ => vec![tag, 0x81, len],
        };
        bytes.extend(value);
        bytes
    }

    /// A certificate of which only the validity means something.
    fn certificate(with_version: bool, (tag, end): (u8, &str)) -> String {
        let version = element(VERSION, &element(2, &[2]));
        let times = [
            element(UTC_TIME, b"200101000000Z"),
            element(tag, end.as_bytes()),
        ];
        let parts = [
            if with_version { version } else { Vec::new() },
            element(2, &[1, 2, 3]),
            element(SEQUENCE, &[0; 130]),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &times.concat()),
            element(SEQUENCE, &[]),
        ];
        let signed = element(SEQUENCE, &parts.concat());
        let der = element(SEQUENCE, &[signed, element(3, &[0])].concat());
        format!("text before\n{BEGIN}\n{}\n{END}\n", STANDARD.encode(der))
    }

    #[test]
    fn the_end_of_the_validity_is_read() {
        let check = |with_version, end, expected: &str| {
            let found = expiry(&certificate(with_version, end));
            let found = found.map(|it| humantime::format_rfc3339_seconds(it).to_string());
            assert_eq!(found.as_deref(), Some(expected), "{end:?}");
        };
        check(true, (UTC_TIME, "300507123456Z"), "2030-05-07T12:34:56Z");
        check(false, (UTC_TIME, "300507123456Z"), "2030-05-07T12:34:56Z");
        check(true, (UTC_TIME, "991231235959Z"), "1999-12-31T23:59:59Z");
        check(
            true,
            (GENERALIZED_TIME, "20510101000000Z"),
            "2051-01-01T00:00:00Z",
        );
    }

    #[test]
    fn a_file_without_a_certificate_has_no_expiry() {
        assert_eq!(expiry(""), None);
        assert_eq!(expiry(&format!("{BEGIN}\n????\n{END}")), None);
        let whole = certificate(true, (UTC_TIME, "300507123456Z"));
        let body: String = whole.lines().nth(2).unwrap().to_owned();
        let der = STANDARD.decode(body).unwrap();
        for len in 0..der.len() {
            assert_eq!(not_after(&der[..len]), None, "{len} bytes");
        }
        assert_eq!(
            expiry(&certificate(true, (UTC_TIME, "30é507123456Z"))),
            None
        );
        assert_eq!(expiry(&certificate(true, (4, "300507123456Z"))), None);
    }

    #[test]
    fn days_are_counted_to_the_expiry() {
        let at = |hours: u64| UNIX_EPOCH + Duration::from_secs(hours * 3600);
        assert_eq!(days_left(at(49), at(0)), 2);
        assert_eq!(days_left(at(0), at(1)), -1);
    }
}
