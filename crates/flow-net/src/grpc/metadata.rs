//! gRPC metadata: what of a call's options travels as headers, and the entries that a flow adds.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use flow_core::{
    CallOptions, Deadline, Failure, Origin, Priority, Secret, TraceContext, check_priority,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use tonic::metadata::{Ascii, MetadataKey, MetadataMap, MetadataValue};

/// Time that the caller waits, as gRPC defines it.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Which requests overtake which in an executor's queue.
const PRIORITY: HeaderName = HeaderName::from_static("priority");

/// The id of a request beside its messages, in requests and replies.
pub const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longest id that is taken from metadata, in bytes.
const REQUEST_ID_LEN_MAX: usize = 256;

/// The trace of a request, and what its tracers and its caller keep with it, as W3C names them.
const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");
const BAGGAGE: HeaderName = HeaderName::from_static("baggage");

/// With this, a caller asks where the time of its requests goes. Stock peers ignore it.
pub const TIMING: HeaderName = HeaderName::from_static("flow-timing");

/// Longest values of them that are forwarded, in bytes: as much as every service has to forward.
const TRACESTATE_LEN_MAX: usize = 512;
const BAGGAGE_LEN_MAX: usize = 8192;

/// Entries that are sent with each call of a node. They may contain secrets.
#[derive(Debug, Clone, Default)]
pub struct Metadata(Secret<Vec<(MetadataKey<Ascii>, MetadataValue<Ascii>)>>);

/// The text cannot be sent as gRPC metadata.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the entry `{key}` is not valid gRPC metadata: use ASCII, with keys in lower case")]
pub struct BadMetadata {
    /// The value is not kept: it may be a secret.
    key: String,
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
            _ => Err(BadMetadata { key: key.clone() }),
        };
        let entries: Result<_, _> = entries.iter().map(entry).collect();
        entries.map(Secret::new).map(Self)
    }

    pub(crate) fn write(&self, to: &mut MetadataMap) {
        for (key, value) in self.0.reveal() {
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
    let priority = metadata.as_ref().get(PRIORITY);
    let priority = priority.map(HeaderValue::as_bytes);
    check_priority(priority.map_or(0, <[u8]>::len))?;
    Ok(CallOptions {
        deadline: deadline(metadata),
        priority: priority.map(Priority::parse),
        request_id: request_id(metadata),
        trace: trace(metadata).map(Arc::new),
        baggage: short_value(metadata, BAGGAGE, BAGGAGE_LEN_MAX),
        timing: wants_timing(metadata),
        origin: Origin::default(),
    })
}

/// Whether the caller asks where the time of its requests goes.
#[must_use]
pub fn wants_timing(metadata: &MetadataMap) -> bool {
    metadata.as_ref().contains_key(TIMING)
}

/// The id that the caller gave the call; `None` if it gave none that is short and readable.
fn request_id(metadata: &MetadataMap) -> Option<Arc<str>> {
    let id = metadata.as_ref().get(REQUEST_ID)?.to_str().ok()?;
    (!id.is_empty() && id.len() <= REQUEST_ID_LEN_MAX).then(|| id.into())
}

/// The trace that the call belongs to.
#[must_use]
pub fn trace(metadata: &MetadataMap) -> Option<TraceContext> {
    let trace = TraceContext::parse(metadata.as_ref().get(TRACEPARENT)?.as_bytes())?;
    Some(TraceContext {
        state: short_value(metadata, TRACESTATE, TRACESTATE_LEN_MAX),
        ..trace
    })
}

fn short_value(metadata: &MetadataMap, key: HeaderName, max: usize) -> Option<Bytes> {
    let value = metadata.as_ref().get(key).map(HeaderValue::as_bytes)?;
    (value.len() <= max).then(|| Bytes::copy_from_slice(value))
}

/// Adds what a call's options say besides its deadline.
pub(crate) fn write_options(metadata: &mut MetadataMap, options: &CallOptions) {
    write_priority(metadata, options.priority.as_ref());
    if let Some(id) = &options.request_id {
        write_request_id(metadata, id);
    }
    if let Some(trace) = &options.trace {
        insert_unique(metadata, TRACEPARENT, &trace.traceparent());
        if let Some(state) = &trace.state {
            insert(metadata, TRACESTATE, state.clone());
        }
    }
    if let Some(baggage) = &options.baggage {
        insert(metadata, BAGGAGE, baggage.clone());
    }
    if options.timing {
        let asked = HeaderValue::from_static("1");
        metadata.as_mut().insert(TIMING, asked);
    }
}

/// Adds the id of a request, unless gRPC cannot send it.
pub fn write_request_id(metadata: &mut MetadataMap, id: &str) {
    insert_unique(metadata, REQUEST_ID, id.as_bytes());
}

/// Adds a value that no other call has. It is kept out of the tables of HTTP/2's header compression, where it would only take the
/// place of values that come again.
fn insert_unique(metadata: &mut MetadataMap, key: HeaderName, value: &[u8]) {
    if let Ok(mut value) = HeaderValue::from_bytes(value) {
        value.set_sensitive(true);
        metadata.as_mut().insert(key, value);
    }
}

fn insert(metadata: &mut MetadataMap, key: HeaderName, value: Bytes) {
    if let Ok(value) = HeaderValue::from_maybe_shared(value) {
        metadata.as_mut().insert(key, value);
    }
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
fn write_priority(metadata: &mut MetadataMap, priority: Option<&Priority>) {
    let value = match priority {
        None => return,
        Some(Priority::Interactive) => HeaderValue::from_static("interactive"),
        Some(Priority::Bulk) => HeaderValue::from_static("bulk"),
        Some(Priority::Other(bytes)) => match HeaderValue::from_maybe_shared(bytes.clone()) {
            Ok(value) => value,
            Err(_not_a_header) => return,
        },
    };
    metadata.as_mut().insert(PRIORITY, value);
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

    fn metadata(entries: &[(HeaderName, &str)]) -> MetadataMap {
        let entry = |(name, value): &(HeaderName, &str)| (name.clone(), value.parse().unwrap());
        MetadataMap::from_headers(entries.iter().map(entry).collect())
    }

    #[test]
    fn a_priority_is_forwarded_as_it_came() {
        for text in ["interactive", "bulk", "urgent"] {
            let sent = metadata(&[(PRIORITY, text)]);
            let mut forwarded = MetadataMap::new();
            let options = call_options(&sent).unwrap();
            write_priority(&mut forwarded, options.priority.as_ref());
            assert_eq!(forwarded.as_ref(), sent.as_ref());
        }
    }

    #[test]
    fn trace_baggage_and_request_id_are_forwarded_as_they_came() {
        let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let entries = [
            (TRACEPARENT, parent),
            (TRACESTATE, "vendor=1"),
            (BAGGAGE, "user=7"),
            (REQUEST_ID, "r-1"),
            (TIMING, "1"),
        ];
        let mut forwarded = MetadataMap::new();
        let sent = metadata(&entries);
        write_options(&mut forwarded, &call_options(&sent).unwrap());
        assert_eq!(forwarded.as_ref(), sent.as_ref());
        let long = "x".repeat(TRACESTATE_LEN_MAX + 1);
        let sent = metadata(&[(TRACEPARENT, parent), (TRACESTATE, &long)]);
        assert_eq!(trace(&sent).unwrap().state, None);
        let sent = metadata(&[(TRACEPARENT, "01"), (REQUEST_ID, "")]);
        let options = call_options(&sent).unwrap();
        assert_eq!((options.trace, options.request_id), (None, None));
    }

    #[test]
    fn a_long_priority_is_refused() {
        let long = "x".repeat(65);
        let failure = call_options(&metadata(&[(PRIORITY, &long)])).unwrap_err();
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
            "the entry `Über` is not valid gRPC metadata: use ASCII, with keys in lower case"
        );
    }
}
