//! Sizes in bytes, as people write them.

use std::fmt;
use std::str::FromStr;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

/// A number of bytes: `512MiB`, `2GB`, `1.5 GiB`, or a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

/// Units, the longer ones first, so that no unit ends like one before it.
const UNITS: [(&str, u64); 9] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("b", 1),
];

/// A text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("must be a size such as `512MiB` or `2GB`, is `{0}`")]
pub struct BadByteSize(String);

impl ByteSize {
    /// A size in mebibytes.
    #[must_use]
    pub const fn mebibytes(mebibytes: u32) -> Self {
        Self((mebibytes as u64) << 20)
    }

    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl From<u64> for ByteSize {
    fn from(bytes: u64) -> Self {
        Self(bytes)
    }
}

impl FromStr for ByteSize {
    type Err = BadByteSize;

    fn from_str(text: &str) -> Result<Self, BadByteSize> {
        let bad = || BadByteSize(text.to_owned());
        let lower = text.trim().to_ascii_lowercase();
        let unit = UNITS.iter().find(|(unit, _)| lower.ends_with(unit));
        let (number, factor) = match unit {
            Some((unit, factor)) => (lower[..lower.len() - unit.len()].trim_end(), *factor),
            None => (lower.as_str(), 1),
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Self).ok_or_else(bad);
        }
        fraction(number, factor).map(Self).ok_or_else(bad)
    }
}

/// A decimal fraction of a unit: `1.5` of 1,024 is 1,536.
fn fraction(number: &str, factor: u64) -> Option<u64> {
    let (whole, digits) = number.split_once('.')?;
    let is_digits = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(digits) || digits.len() > 6 {
        return None;
    }
    let scale = 10_u64.pow(u32::try_from(digits.len()).ok()?);
    let parts = whole.parse::<u64>().ok()?.checked_mul(scale)?;
    let parts = parts.checked_add(digits.parse().ok()?)?;
    let bytes = u128::from(parts) * u128::from(factor) / u128::from(scale);
    u64::try_from(bytes).ok()
}

impl fmt::Display for ByteSize {
    /// The largest unit that leaves a whole number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [("TiB", 40), ("GiB", 30), ("MiB", 20), ("KiB", 10)];
        let fits = |(_, bits): &&(&str, u32)| self.0 != 0 && self.0.trailing_zeros() >= *bits;
        match units.iter().find(fits) {
            Some((unit, bits)) => write!(f, "{}{unit}", self.0 >> bits),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(SizeVisitor)
    }
}

struct SizeVisitor;

impl Visitor<'_> for SizeVisitor {
    type Value = ByteSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a size such as `512MiB` or `2GB`")
    }

    fn visit_u64<E: serde::de::Error>(self, bytes: u64) -> Result<ByteSize, E> {
        Ok(ByteSize(bytes))
    }

    fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<ByteSize, E> {
        let bad = |_| E::invalid_value(Unexpected::Signed(bytes), &self);
        u64::try_from(bytes).map(ByteSize).map_err(bad)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<ByteSize, E> {
        text.parse().map_err(E::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(text: &str) -> Option<u64> {
        text.parse().ok().map(ByteSize::bytes)
    }

    #[test]
    fn sizes_have_binary_and_decimal_units() {
        assert_eq!(bytes("0"), Some(0));
        assert_eq!(bytes("17"), Some(17));
        assert_eq!(bytes("17 B"), Some(17));
        assert_eq!(bytes("512MiB"), Some(512 << 20));
        assert_eq!(bytes("2gb"), Some(2_000_000_000));
        assert_eq!(bytes(" 1.5 KiB "), Some(1_536));
        assert_eq!(bytes("0.000001TB"), Some(1_000_000));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "MiB",
            "-1",
            "1e3",
            "1,5MB",
            "1.MB",
            ".5MB",
            "1 XB",
            "0.0000001TB",
        ] {
            assert_eq!(bytes(text), None, "{text}");
        }
        assert_eq!(bytes("18446744073709551616"), None);
        assert_eq!(bytes("99999999TiB"), None);
    }

    #[test]
    fn a_size_is_shown_in_its_largest_whole_unit_and_reads_back() {
        for (size, shown) in [
            (512 << 20, "512MiB"),
            (1_000, "1000B"),
            (0, "0B"),
            (3 << 40, "3TiB"),
        ] {
            assert_eq!(ByteSize(size).to_string(), shown);
            assert_eq!(bytes(shown), Some(size));
        }
    }

    #[test]
    fn configurations_have_numbers_and_texts() {
        let read = serde_json::from_str::<ByteSize>;
        assert_eq!(read("4096").unwrap(), ByteSize(4_096));
        assert_eq!(read("\"4KiB\"").unwrap(), ByteSize(4_096));
        assert!(read("-1").unwrap_err().to_string().contains("512MiB"));
        assert!(read("true").unwrap_err().to_string().contains("512MiB"));
    }
}
