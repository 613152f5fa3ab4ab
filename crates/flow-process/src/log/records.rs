//! Log records for exporters: what each line says, before it is written as text.

use std::fmt::{self, Debug};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::SystemTime;

use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;

use super::requests::{self, SpanIds};

/// Bytes of the text of a record, and of one field. Longer ones are cut, because records wait in memory.
const TEXT_LEN_MAX: usize = 16 << 10;

/// The field with the text of a line, and that with the target of lines of the crate `log`.
const MESSAGE: &str = "message";
const LOG_TARGET: &str = "log.target";

/// What takes the records.
type Sink = Arc<dyn Fn(LogRecord) + Send + Sync>;

static SINK: RwLock<Option<Sink>> = RwLock::new(None);

/// One line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct LogRecord {
    /// When it was logged.
    pub at: SystemTime,
    /// Its level.
    pub level: Level,
    /// The part of the program that logged it, such as `flow_gateway::failed`.
    pub target: String,
    /// Its text.
    pub message: String,
    /// Its fields.
    pub fields: Vec<(&'static str, LogValue)>,
    /// The requests on whose behalf its thread works.
    pub requests: Vec<Arc<str>>,
    /// The span that its thread's work is part of.
    pub span: Option<SpanIds>,
}

/// The value of a field.
#[derive(Debug, Clone, PartialEq)]
pub enum LogValue {
    /// A truth value.
    Flag(bool),
    /// A whole number.
    Integer(i64),
    /// Any number.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// The export of this process's log records, which ends when this value is dropped.
#[derive(Debug)]
pub struct RecordsExported(());

/// Gives each line of the log, besides writing it, to a function, which must not block. The filter of the log holds for both.
/// There is one such function at a time; a later one replaces it.
#[must_use]
pub fn export_records(sink: impl Fn(LogRecord) + Send + Sync + 'static) -> RecordsExported {
    set(Some(Arc::new(sink)));
    RecordsExported(())
}

impl Drop for RecordsExported {
    fn drop(&mut self) {
        set(None);
    }
}

fn set(sink: Option<Sink>) {
    *SINK.write().unwrap_or_else(PoisonError::into_inner) = sink;
}

/// Gives each event to the function, if there is one.
pub(super) struct Records;

impl<S: Subscriber> Layer<S> for Records {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let sink = SINK.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(sink) = sink {
            sink(LogRecord::of(event));
        }
    }
}

impl LogRecord {
    fn of(event: &Event<'_>) -> Self {
        let about = event.metadata();
        let mut record = Self {
            at: SystemTime::now(),
            level: *about.level(),
            target: about.target().to_owned(),
            message: String::new(),
            fields: Vec::new(),
            requests: requests::look(<[Arc<str>]>::to_vec),
            span: requests::current_span(),
        };
        event.record(&mut record);
        record
    }

    fn add(&mut self, field: &Field, value: LogValue) {
        match (field.name(), value) {
            (MESSAGE, LogValue::Text(text)) => self.message = text,
            (LOG_TARGET, LogValue::Text(text)) => self.target = text,
            // Where in the code a line of the crate `log` comes from.
            (name, _) if name.starts_with("log.") => {}
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for LogRecord {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.add(field, LogValue::Number(value));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, LogValue::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        self.add(field, LogValue::Integer(value));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, LogValue::Flag(value));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let mut text = Bounded(String::new());
        // Fails when the text is full.
        let _full = fmt::write(&mut text, format_args!("{value:?}"));
        self.add(field, LogValue::Text(text.0));
    }
}

/// A text that takes no more than its bound.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = TEXT_LEN_MAX - self.0.len();
        if text.len() <= room {
            self.0.push_str(text);
            return Ok(());
        }
        let end = (0..=room).rev().find(|at| text.is_char_boundary(*at));
        self.0.push_str(&text[..end.unwrap_or(0)]);
        Err(fmt::Error)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::{LogSettings, note_span, on_behalf_of};
    use super::*;

    const SPAN: SpanIds = SpanIds {
        trace: [1; 16],
        span: [2; 8],
    };

    #[test]
    fn a_record_has_what_its_line_has_and_follows_the_filter() {
        let records = Arc::new(Mutex::new(Vec::new()));
        let taken = records.clone();
        let exported = export_records(move |record| {
            // Other tests log, too.
            if record.target == "of_this_test" {
                taken.lock().unwrap().push(record);
            }
        });
        let settings = LogSettings {
            filter: "info".parse().unwrap(),
            ..LogSettings::default()
        };
        let (dispatch, _) = settings.dispatch(std::io::sink, false);
        let long = "ä".repeat(TEXT_LEN_MAX);
        tracing::dispatcher::with_default(&dispatch, || {
            on_behalf_of(["r".into()], || {
                note_span(SPAN);
                tracing::warn!(target: "of_this_test", n = 3_u64, ok = true, part = 0.5, s = "x", "a {}", 'b');
            });
            tracing::debug!(target: "of_this_test", "below the level");
            tracing::info!(target: "of_this_test", long, "cut");
        });
        drop(exported);
        tracing::dispatcher::with_default(&dispatch, || {
            tracing::info!(target: "of_this_test", "not exported");
        });
        let records = records.lock().unwrap();
        let [first, second] = records.as_slice() else {
            panic!("{records:?}")
        };
        assert_eq!((first.level, first.message.as_str()), (Level::WARN, "a b"));
        assert_eq!((first.span, second.span), (Some(SPAN), None));
        assert_eq!(first.requests, [Arc::from("r")]);
        let expected = [
            ("n", LogValue::Integer(3)),
            ("ok", LogValue::Flag(true)),
            ("part", LogValue::Number(0.5)),
            ("s", LogValue::Text("x".to_owned())),
        ];
        assert_eq!(first.fields, expected);
        let (_, LogValue::Text(text)) = &second.fields[0] else {
            panic!("{second:?}")
        };
        assert_eq!(text.len(), TEXT_LEN_MAX);
    }
}
