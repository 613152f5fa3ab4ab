//! Takes the records of the log, which wait in a bounded queue, and converts them to messages of OTLP.

use std::cell::Cell;
use std::collections::BTreeMap;

use flow_metrics::Counter;
use flow_process::{LogRecord, LogValue, RecordsExported, export_records};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, InstrumentationScope, KeyValue,
};
use opentelemetry_proto::tonic::logs::v1::{
    LogRecord as RecordMessage, ResourceLogs, ScopeLogs, SeverityNumber,
};
use opentelemetry_proto::transform::common::tonic::ResourceAttributesWithSchema;
use tokio::sync::mpsc;
use tracing::Level;

use crate::resource;
use crate::values::{attribute, nanoseconds, text};

thread_local! {
    static EXPORTS: Cell<bool> = const { Cell::new(false) };
}

/// The fields with the span that a line belongs to.
const TRACE_ID: &str = "trace_id";
const SPAN_ID: &str = "span_id";

/// Says that this thread exports. What it logs is not exported: that would never end.
pub(crate) fn note_exporter() {
    EXPORTS.set(true);
}

/// Takes the records of this process from now on, until the value is dropped. So many of them may wait; those that find no
/// room are counted.
pub(crate) fn take_records(
    records_max: usize,
    dropped: Counter,
) -> (RecordsExported, mpsc::Receiver<LogRecord>) {
    let (records, waiting) = mpsc::channel(records_max);
    let exported = export_records(move |record| {
        if !EXPORTS.get() && records.try_send(record).is_err() {
            dropped.add(1);
        }
    });
    (exported, waiting)
}

/// A message with these records. Those of one part of the program are together.
pub(crate) fn request(
    records: Vec<LogRecord>,
    resource: &ResourceAttributesWithSchema,
) -> ExportLogsServiceRequest {
    let mut by_target: BTreeMap<String, Vec<RecordMessage>> = BTreeMap::new();
    for record in records {
        let records = by_target.entry(record.target.clone()).or_default();
        records.push(message(record));
    }
    let scopes = by_target.into_iter().map(|(name, log_records)| ScopeLogs {
        scope: Some(InstrumentationScope {
            name,
            ..Default::default()
        }),
        log_records,
        ..Default::default()
    });
    ExportLogsServiceRequest {
        resource_logs: vec![ResourceLogs {
            resource: Some(resource::message(resource)),
            scope_logs: scopes.collect(),
            schema_url: resource.schema_url.clone().unwrap_or_default(),
        }],
    }
}

fn message(record: LogRecord) -> RecordMessage {
    let at = nanoseconds(record.at);
    let (severity, severity_text) = severity(record.level);
    let mut message = RecordMessage {
        time_unix_nano: at,
        observed_time_unix_nano: at,
        severity_number: severity.into(),
        severity_text: severity_text.to_owned(),
        body: Some(AnyValue {
            value: Some(Value::StringValue(record.message)),
        }),
        ..Default::default()
    };
    if let Some(ids) = record.span {
        message.trace_id = ids.trace.to_vec();
        message.span_id = ids.span.to_vec();
    }
    for (name, value) in record.fields {
        match (name, value) {
            (TRACE_ID, LogValue::Text(id)) if hex(&id).len() == 16 => message.trace_id = hex(&id),
            (SPAN_ID, LogValue::Text(id)) if hex(&id).len() == 8 => message.span_id = hex(&id),
            (name, value) => message.attributes.push(field(name, value)),
        }
    }
    match record.requests.as_slice() {
        [] => {}
        [id] => message.attributes.push(text("request_id", &**id)),
        ids => {
            let ids = ids.iter().map(|id| AnyValue {
                value: Some(Value::StringValue(id.to_string())),
            });
            let values = ids.collect();
            let ids = Value::ArrayValue(ArrayValue { values });
            message.attributes.push(attribute("request_ids", ids));
        }
    }
    message
}

fn field(name: &str, value: LogValue) -> KeyValue {
    let value = match value {
        LogValue::Flag(flag) => Value::BoolValue(flag),
        LogValue::Integer(number) => Value::IntValue(number),
        LogValue::Number(number) => Value::DoubleValue(number),
        LogValue::Text(text) => Value::StringValue(text),
    };
    attribute(name, value)
}

fn severity(level: Level) -> (SeverityNumber, &'static str) {
    let severity = match level {
        Level::ERROR => SeverityNumber::Error,
        Level::WARN => SeverityNumber::Warn,
        Level::INFO => SeverityNumber::Info,
        Level::DEBUG => SeverityNumber::Debug,
        Level::TRACE => SeverityNumber::Trace,
    };
    (severity, level.as_str())
}

/// The bytes that hexadecimal digits encode; `None` if they are invalid.
fn hex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| {
        let pair = str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    };
    pairs.map(byte).collect::<Option<_>>().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn record(target: &str, fields: Vec<(&'static str, LogValue)>) -> LogRecord {
        LogRecord {
            at: UNIX_EPOCH + Duration::from_nanos(5),
            level: Level::WARN,
            target: target.to_owned(),
            message: "request failed".to_owned(),
            fields,
            requests: Vec::new(),
            span: None,
        }
    }

    fn string(value: &str) -> LogValue {
        LogValue::Text(value.to_owned())
    }

    #[test]
    fn a_record_has_its_trace_and_its_fields() {
        let trace = "0af7651916cd43dd8448eb211c80319c";
        let fields = vec![
            (TRACE_ID, string(trace)),
            (SPAN_ID, string("b7ad6b7169203331")),
            ("documents", LogValue::Integer(3)),
        ];
        let found = message(record("a", fields));
        assert_eq!((found.time_unix_nano, found.severity_number), (5, 13));
        assert_eq!(found.severity_text, "WARN");
        assert_eq!(
            (found.trace_id, found.span_id),
            (hex(trace), hex("b7ad6b7169203331"))
        );
        assert_eq!(
            found.attributes,
            [attribute("documents", Value::IntValue(3))]
        );
    }

    #[test]
    fn a_record_without_a_trace_of_its_own_has_that_of_its_threads_work() {
        let ids = flow_process::SpanIds {
            trace: [1; 16],
            span: [2; 8],
        };
        let found = message(LogRecord {
            span: Some(ids),
            ..record("a", Vec::new())
        });
        assert_eq!((found.trace_id, found.span_id), (vec![1; 16], vec![2; 8]));
    }

    #[test]
    fn an_invalid_trace_id_stays_a_field() {
        for id in ["", "0af7", "zz", &"0".repeat(31)] {
            let found = message(record("a", vec![(TRACE_ID, string(id))]));
            assert_eq!(found.attributes, [text(TRACE_ID, id)]);
            assert!(found.trace_id.is_empty());
        }
    }

    #[test]
    fn records_name_their_requests_and_are_grouped_by_their_targets() {
        let of = |target, requests: &[&str]| LogRecord {
            requests: requests.iter().map(|id| Arc::from(*id)).collect(),
            ..record(target, Vec::new())
        };
        let records = vec![of("b", &["r"]), of("a", &["r", "s"]), of("b", &[])];
        let request = request(records, &ResourceAttributesWithSchema::default());
        let scopes = &request.resource_logs[0].scope_logs;
        let shape = scopes.iter().map(|scope| {
            let records = scope.log_records.iter();
            let attributes = records.map(|it| it.attributes.len()).collect();
            (scope.scope.as_ref().unwrap().name.as_str(), attributes)
        });
        let shape: Vec<(&str, Vec<usize>)> = shape.collect();
        assert_eq!(shape, [("a", vec![1]), ("b", vec![1, 0])]);
        assert_eq!(scopes[0].log_records[0].attributes[0].key, "request_ids");
        assert_eq!(
            scopes[1].log_records[0].attributes,
            [text("request_id", "r")]
        );
    }
}
