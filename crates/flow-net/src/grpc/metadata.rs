//! gRPC metadata: what of a call's options travels as headers, and the entries that a flow adds.

use std::time::{Duration, Instant};

use flow_core::{CallOptions, Deadline, Failure, Priority, check_priority};
use http::HeaderMap;
use tonic::metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue};

/// Time that the caller waits, as gRPC defines it.
const TIMEOUT: &str = "grpc-timeout";

/// Which requests overtake which in an executor's queue.
const PRIORITY: &str = "priority";

/// Entries that are sent with each call of a node.
#[derive(Debug, Clone, Default)]
pub struct Metadata(Vec<(MetadataKey<Ascii>, MetadataValue<Ascii>)>);

/// The text cannot be sent as gRPC metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}: {value}` is no gRPC metadata: ASCII only, keys in lower case")]
pub struct BadMetadata {
    key: String,
    value: String,
}

impl Metadata {
    /// No entries.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// These entries, each a key and a value.
    ///
    /// # Errors
    ///
    /// If gRPC does not allow one of them.
    pub fn parse(entries: &[(String, String)]) -> Result<Self, BadMetadata> {
        let entry = |(key, value): &(String, String)| match (key.parse(), value.parse()) {
            (Ok(key), Ok(value)) => Ok((key, value)),
            _ => Err(BadMetadata {
                key: key.clone(),
                value: value.clone(),
            }),
        };
        entries
            .iter()
            .map(entry)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    pub(crate) fn write(&self, to: &mut MetadataMap) {
        for (key, value) in &self.0 {
            to.insert(key.clone(), value.clone());
        }
    }
}

/// The options that a call's metadata contains; the deadline is made from the current time.
///
/// # Errors
///
/// If one of them is too long to be forwarded.
pub fn call_options(metadata: &MetadataMap) -> Result<CallOptions, Failure> {
    let priority = metadata.get(PRIORITY).map(MetadataValue::as_bytes);
    check_priority(priority.map_or(0, <[u8]>::len))?;
    Ok(CallOptions {
        deadline: deadline(metadata),
        priority: priority.map(Priority::parse),
    })
}

/// When the caller stops waiting.
#[must_use]
pub fn deadline(metadata: &MetadataMap) -> Deadline {
    Deadline::after(Instant::now(), timeout(metadata.as_ref()))
}

pub(crate) fn timeout(headers: &HeaderMap) -> Option<Duration> {
    parse_timeout(headers.get(TIMEOUT)?.to_str().ok()?)
}

/// At most eight digits and a unit, as the protocol has it.
fn parse_timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let count: u64 = digits.parse().ok().filter(|_| digits.len() <= 8)?;
    match unit {
        "H" => Some(Duration::from_secs(count * 3600)),
        "M" => Some(Duration::from_secs(count * 60)),
        "S" => Some(Duration::from_secs(count)),
        "m" => Some(Duration::from_millis(count)),
        "u" => Some(Duration::from_micros(count)),
        "n" => Some(Duration::from_nanos(count)),
        _ => None,
    }
}

/// Adds a priority, unless it has none that gRPC could send.
pub(crate) fn write_priority(metadata: &mut MetadataMap, priority: Option<&Priority>) {
    let value = match priority {
        None => return,
        Some(Priority::Interactive) => MetadataValue::from_static("interactive"),
        Some(Priority::Bulk) => MetadataValue::from_static("bulk"),
        Some(Priority::Other(bytes)) => match MetadataValue::try_from(bytes.clone()) {
            Ok(value) => value,
            Err(_not_a_header) => return,
        },
    };
    metadata.insert(PRIORITY, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_read_as_the_protocol_writes_them() {
        let check =
            |text: &str, expected: Option<Duration>| assert_eq!(parse_timeout(text), expected);
        check("5S", Some(Duration::from_secs(5)));
        check("250m", Some(Duration::from_millis(250)));
        check("2M", Some(Duration::from_secs(120)));
        check("1H", Some(Duration::from_secs(3600)));
        check("99999999n", Some(Duration::from_nanos(99_999_999)));
        for bad in ["", "5", "S", "123456789S", "5x", "é"] {
            check(bad, None);
        }
    }

    #[test]
    fn a_priority_is_forwarded_as_it_came() {
        for text in ["interactive", "bulk", "urgent"] {
            let mut metadata = MetadataMap::new();
            metadata.insert(PRIORITY, text.parse().unwrap());
            let mut forwarded = MetadataMap::new();
            let options = call_options(&metadata).unwrap();
            write_priority(&mut forwarded, options.priority.as_ref());
            assert_eq!(forwarded.get(PRIORITY), metadata.get(PRIORITY));
        }
    }

    #[test]
    fn a_long_priority_is_refused() {
        let mut metadata = MetadataMap::new();
        metadata.insert(PRIORITY, "x".repeat(65).parse().unwrap());
        let failure = call_options(&metadata).unwrap_err();
        let expected = "`priority` has 65 bytes; at most 64 are allowed";
        assert_eq!(failure.message(), expected);
    }

    #[test]
    fn an_entry_that_grpc_does_not_allow_is_named() {
        let entry = |key: &str, value: &str| [(key.to_owned(), value.to_owned())];
        assert!(Metadata::parse(&entry("authorization", "Bearer x")).is_ok());
        let error = Metadata::parse(&entry("Über", "x")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`Über: x` is no gRPC metadata: ASCII only, keys in lower case"
        );
    }
}
