//! Encodes a span as the message `Span` of OTLP, without making the message first: a busy process ends thousands of spans in a
//! second, and the thread that serves requests encodes them.

use std::time::SystemTime;

use flow_trace::SpanData;
use opentelemetry::trace::{Event, Link, SpanId, SpanKind, Status};
use opentelemetry::{Array, KeyValue, StringValue, Value};
use opentelemetry_proto::tonic::trace::v1::SpanFlags;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind as KindMessage;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::encoding::{WireType, encode_key, encode_varint, fixed32, fixed64};

use crate::values::nanoseconds;

/// The numbers of the fields of a span.
mod field {
    pub(super) const TRACE_ID: u32 = 1;
    pub(super) const SPAN_ID: u32 = 2;
    pub(super) const TRACE_STATE: u32 = 3;
    pub(super) const PARENT_SPAN_ID: u32 = 4;
    pub(super) const NAME: u32 = 5;
    pub(super) const KIND: u32 = 6;
    pub(super) const START: u32 = 7;
    pub(super) const END: u32 = 8;
    pub(super) const ATTRIBUTES: u32 = 9;
    pub(super) const DROPPED_ATTRIBUTES: u32 = 10;
    pub(super) const EVENTS: u32 = 11;
    pub(super) const DROPPED_EVENTS: u32 = 12;
    pub(super) const LINKS: u32 = 13;
    pub(super) const DROPPED_LINKS: u32 = 14;
    pub(super) const STATUS: u32 = 15;
    pub(super) const FLAGS: u32 = 16;
}

/// Adds a span as an element of a repeated field of messages.
pub(crate) fn put(of: u32, span: &SpanData, to: &mut Vec<u8>) {
    put_message(of, to, |to| put_fields(span, to));
}

fn put_fields(span: &SpanData, to: &mut Vec<u8>) {
    let context = &span.span_context;
    put_bytes(field::TRACE_ID, &context.trace_id().to_bytes(), to);
    put_bytes(field::SPAN_ID, &context.span_id().to_bytes(), to);
    put_text(field::TRACE_STATE, &context.trace_state().header(), to);
    if span.parent_span_id != SpanId::INVALID {
        put_bytes(field::PARENT_SPAN_ID, &span.parent_span_id.to_bytes(), to);
    }
    put_text(field::NAME, &span.name, to);
    put_number(field::KIND, kind(&span.span_kind), to);
    put_time(field::START, span.start_time, to);
    put_time(field::END, span.end_time, to);
    put_attributes(field::ATTRIBUTES, &span.attributes, to);
    let dropped = span.dropped_attributes_count;
    put_number(field::DROPPED_ATTRIBUTES, dropped.into(), to);
    for event in span.events.iter() {
        put_message(field::EVENTS, to, |to| put_event(event, to));
    }
    put_number(field::DROPPED_EVENTS, span.events.dropped_count.into(), to);
    for link in span.links.iter() {
        put_message(field::LINKS, to, |to| put_link(link, to));
    }
    put_number(field::DROPPED_LINKS, span.links.dropped_count.into(), to);
    put_message(field::STATUS, to, |to| put_status(&span.status, to));
    let flags = flags(
        span.parent_span_is_remote,
        context.trace_flags().to_u8().into(),
    );
    fixed32::encode(field::FLAGS, &flags, to);
}

fn kind(kind: &SpanKind) -> u64 {
    let kind = match kind {
        SpanKind::Client => KindMessage::Client,
        SpanKind::Consumer => KindMessage::Consumer,
        SpanKind::Internal => KindMessage::Internal,
        SpanKind::Producer => KindMessage::Producer,
        SpanKind::Server => KindMessage::Server,
    };
    kind as u64
}

fn flags(is_remote: bool, of_trace: u32) -> u32 {
    let known = SpanFlags::ContextHasIsRemoteMask as u32 | of_trace;
    match is_remote {
        true => known | SpanFlags::ContextIsRemoteMask as u32,
        false => known,
    }
}

fn put_event(event: &Event, to: &mut Vec<u8>) {
    put_time(1, event.timestamp, to);
    put_text(2, &event.name, to);
    put_attributes(3, &event.attributes, to);
    put_number(4, event.dropped_attributes_count.into(), to);
}

fn put_link(link: &Link, to: &mut Vec<u8>) {
    let context = &link.span_context;
    put_bytes(1, &context.trace_id().to_bytes(), to);
    put_bytes(2, &context.span_id().to_bytes(), to);
    put_text(3, &context.trace_state().header(), to);
    put_attributes(4, &link.attributes, to);
    put_number(5, link.dropped_attributes_count.into(), to);
    let flags = flags(context.is_remote(), context.trace_flags().to_u8().into());
    fixed32::encode(6, &flags, to);
}

fn put_status(status: &Status, to: &mut Vec<u8>) {
    let (code, message) = match status {
        Status::Unset => (StatusCode::Unset, ""),
        Status::Ok => (StatusCode::Ok, ""),
        Status::Error { description } => (StatusCode::Error, &**description),
    };
    put_text(2, message, to);
    put_number(3, code as u64, to);
}

fn put_attributes(field: u32, attributes: &[KeyValue], to: &mut Vec<u8>) {
    for attribute in attributes {
        put_message(field, to, |to| {
            put_text(1, attribute.key.as_str(), to);
            put_message(2, to, |to| put_value(&attribute.value, to));
        });
    }
}

/// The fields of an `AnyValue`. Also those that are zero are written: a value is one of several.
fn put_value(value: &Value, to: &mut Vec<u8>) {
    match value {
        Value::String(text) => put_bytes(1, text.as_str().as_bytes(), to),
        Value::Bool(value) => {
            encode_key(2, WireType::Varint, to);
            encode_varint((*value).into(), to);
        }
        Value::I64(number) => {
            encode_key(3, WireType::Varint, to);
            encode_varint(number.cast_unsigned(), to);
        }
        Value::F64(number) => prost::encoding::double::encode(4, number, to),
        Value::Array(array) => put_message(5, to, |to| put_array(array, to)),
        // There are no others.
        _ => {}
    }
}

fn put_array(array: &Array, to: &mut Vec<u8>) {
    let mut put = |value: Value| put_message(1, to, |to| put_value(&value, to));
    match array {
        Array::Bool(values) => values.iter().for_each(|&it| put(it.into())),
        Array::I64(values) => values.iter().for_each(|&it| put(it.into())),
        Array::F64(values) => values.iter().for_each(|&it| put(it.into())),
        Array::String(values) => {
            let texts = values.iter().map(StringValue::as_str);
            texts.for_each(|it| put(it.to_owned().into()));
        }
        // There are no others.
        _ => {}
    }
}

fn put_time(field: u32, time: SystemTime, to: &mut Vec<u8>) {
    fixed64::encode(field, &nanoseconds(time), to);
}

fn put_number(field: u32, number: u64, to: &mut Vec<u8>) {
    if number != 0 {
        encode_key(field, WireType::Varint, to);
        encode_varint(number, to);
    }
}

fn put_text(field: u32, text: &str, to: &mut Vec<u8>) {
    if !text.is_empty() {
        put_bytes(field, text.as_bytes(), to);
    }
}

fn put_bytes(field: u32, bytes: &[u8], to: &mut Vec<u8>) {
    encode_key(field, WireType::LengthDelimited, to);
    encode_varint(bytes.len() as u64, to);
    to.extend_from_slice(bytes);
}

/// Adds a message whose fields a function writes. Its length stands before it, for which one byte is left free: most messages
/// are that short, and what is in a longer one is moved.
fn put_message(field: u32, to: &mut Vec<u8>, fields: impl FnOnce(&mut Vec<u8>)) {
    encode_key(field, WireType::LengthDelimited, to);
    let at = to.len();
    to.push(0);
    fields(to);
    let len = to.len() - at - 1;
    match u8::try_from(len) {
        Ok(len) if len < 0x80 => to[at] = len,
        _ => {
            let mut head = Vec::with_capacity(10);
            encode_varint(len as u64, &mut head);
            to.splice(at..=at, head);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;
    use std::time::{Duration, UNIX_EPOCH};

    use flow_core::{Code, TraceContext};
    use flow_trace::{Attribute, Sampling, SpanKind, Tracer};
    use opentelemetry_proto::tonic::trace::v1::{ScopeSpans, Span};
    use prost::Message;

    use super::*;

    /// The spans that `make` ends.
    fn ended(make: impl FnOnce(&Tracer)) -> Vec<SpanData> {
        let (sender, ended) = std::sync::mpsc::channel();
        let every = Sampling {
            ratio: 1.0,
            follows_parent: true,
        };
        let tracer = Tracer::new(every, move |span| {
            sender.send(span).ok();
        });
        make(&tracer);
        ended.try_iter().collect()
    }

    #[track_caller]
    fn check(spans: Vec<SpanData>) {
        assert!(!spans.is_empty());
        let mut bytes = Vec::new();
        for span in &spans {
            put(2, span, &mut bytes);
        }
        let found = ScopeSpans::decode(bytes.as_slice()).unwrap().spans;
        let expected: Vec<Span> = spans.into_iter().map(Span::from).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_span_is_the_message_that_the_library_makes_of_it() {
        check(ended(|tracer| {
            let mut parent =
                TraceContext::parse(b"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
                    .unwrap();
            parent.state = Some("a=1,b=2".into());
            let parent = std::sync::Arc::new(parent);
            let began = UNIX_EPOCH + Duration::new(1_795_619_337, 938_752_001);
            let name = Cow::Borrowed("/jina.JinaRPC/Call");
            let server = tracer.server(&name, Some(&parent), || began);
            let mut span = server.span.unwrap();
            span.set("text", "ü".repeat(200));
            span.set("empty", "");
            span.set("number", -7_i64);
            span.set("zero", 0_i64);
            span.set("float", 0.25);
            span.set("no", false);
            span.set("yes", true);
            span.set(
                "texts",
                Attribute::Texts(vec!["a".to_owned(), String::new()]),
            );
            span.set("floats", Attribute::Floats(vec![0.0, -1.5]));
            span.add_event(
                "happened",
                [("why".to_owned(), Attribute::from("x".repeat(300)))],
            );
            span.link(&parent);
            span.fail(Code::Internal, "broken");
            drop(tracer.child("inner", SpanKind::Client, &server.context));
        }));
        let kinds = [SpanKind::Consumer, SpanKind::Internal, SpanKind::Producer];
        check(ended(|tracer| {
            let root = tracer.root("").unwrap();
            for kind in kinds {
                drop(tracer.child("a", kind, root.context()));
            }
        }));
    }

    #[test]
    fn what_is_dropped_for_want_of_room_is_counted() {
        check(ended(|tracer| {
            let mut span = tracer.root("many").unwrap();
            for number in 0..300_i64 {
                span.set(format!("attribute {number}"), number);
                span.add_event("again", []);
                let context = span.context().clone();
                span.link(&context);
            }
        }));
    }
}
