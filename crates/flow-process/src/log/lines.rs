//! The form of log lines, as text and as JSON.
//!
//! Each line names the requests that its thread works on. Control characters, which may come from clients, are escaped:
//! they could move the cursor of a terminal, or look like a line of their own. Only line breaks of a message stay, because
//! tracebacks have them.

use std::fmt::{self, Debug, Write};
use std::sync::Arc;

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::requests;

/// Requests that one line names; a call may have a thousand.
const NAMED_MAX: usize = 32;

/// The field with the text of a line.
const MESSAGE: &str = "message";

/// The fields of a line of text.
///
/// Most values are plain texts. They are written as they are, without formatting: a flow may log every request.
pub(super) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut visitor = FieldVisitor {
            writer,
            is_first: true,
            result: Ok(()),
        };
        fields.record(&mut visitor);
        visitor.result
    }
}

struct FieldVisitor<'w> {
    writer: Writer<'w>,
    is_first: bool,
    /// The first error. Nothing is written after it.
    result: fmt::Result,
}

impl Visit for FieldVisitor<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record(field, |writer| match needs_no_escapes(value) {
            true => {
                writer.write_char('"')?;
                writer.write_str(value)?;
                writer.write_char('"')
            }
            false => write_escaped(writer, &value, false),
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let is_message = field.name() == MESSAGE;
        self.record(field, |writer| write_escaped(writer, value, is_message));
    }
}

impl<'w> FieldVisitor<'w> {
    fn record(&mut self, field: &Field, value: impl FnOnce(&mut Writer<'w>) -> fmt::Result) {
        // Fields of the crate `log`, which say where in the code a line comes from.
        if self.result.is_err() || field.name().starts_with("log.") {
            return;
        }
        self.result = self
            .write_name(field.name())
            .and_then(|()| value(&mut self.writer));
    }

    /// Writes what comes before a value: a space, unless it is the first, and the name. The message has the ids of requests
    /// instead of a name.
    fn write_name(&mut self, name: &str) -> fmt::Result {
        let writer = &mut self.writer;
        if !std::mem::replace(&mut self.is_first, false) {
            writer.write_char(' ')?;
        }
        match (name, writer.has_ansi_escapes()) {
            (MESSAGE, _) => requests::look(|ids| write_requests(writer, ids)),
            (name, true) => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m"),
            (name, false) => {
                writer.write_str(name)?;
                writer.write_char('=')
            }
        }
    }
}

/// Whether a text between quotes is what `Debug` makes of it.
fn needs_no_escapes(text: &str) -> bool {
    text.bytes()
        .all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\')
}

fn write_escaped(writer: &mut Writer<'_>, value: &dyn Debug, keeps_lines: bool) -> fmt::Result {
    let mut escaped = Escaped {
        to: writer,
        keeps_lines,
    };
    write!(escaped, "{value:?}")
}

fn write_requests(writer: &mut Writer<'_>, ids: &[Arc<str>]) -> fmt::Result {
    match ids {
        [] => Ok(()),
        [id] => write!(writer, "request_id={id:?} "),
        ids if ids.len() <= NAMED_MAX => write!(writer, "request_ids={ids:?} "),
        ids => {
            let (named, all) = (&ids[..NAMED_MAX], ids.len());
            write!(writer, "requests={all} request_ids={named:?} ")
        }
    }
}

/// Escapes control characters.
struct Escaped<'w, W> {
    to: &'w mut W,
    keeps_lines: bool,
}

impl<W: Write> Write for Escaped<'_, W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let keeps_lines = self.keeps_lines;
        let is_fine = |c: char| !c.is_control() || (keeps_lines && matches!(c, '\n' | '\t'));
        // Most texts are plain, and all bytes are quicker to look at than characters one by one.
        let is_plain = |byte| matches!(byte, b' '..=b'~');
        let all_plain = text.bytes().fold(true, |all, byte| all & is_plain(byte));
        if all_plain || text.chars().all(is_fine) {
            return self.to.write_str(text);
        }
        text.chars().try_for_each(|c| match is_fine(c) {
            true => self.to.write_char(c),
            false => write!(self.to, "{}", c.escape_default()),
        })
    }
}

/// Lines of JSON.
pub(super) struct JsonLines(pub(super) Format<Json>);

impl<S, N> FormatEvent<S, N> for JsonLines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
    FormattedFields<N>: Send + Sync,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut line = String::new();
        self.0
            .format_event(context, Writer::new(&mut line), event)?;
        requests::look(|ids| insert_requests(&mut line, ids));
        writer.write_str(&line)
    }
}

/// Inserts the requests at the end of an object.
fn insert_requests(line: &mut String, ids: &[Arc<str>]) {
    let Some(end) = line.rfind('}').filter(|_| !ids.is_empty()) else {
        return;
    };
    let named = &ids[..ids.len().min(NAMED_MAX)];
    let field = match named {
        [id] => format!(r#","request_id":{}"#, json!(**id)),
        named => {
            let named: Vec<&str> = named.iter().map(|id| &**id).collect();
            format!(
                r#","requests":{},"request_ids":{}"#,
                ids.len(),
                json!(named)
            )
        }
    };
    line.insert_str(end, &field);
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Mutex, PoisonError};

    use super::super::{LogFormat, LogSettings, on_behalf_of};
    use super::*;

    /// Collects what is logged.
    #[derive(Clone, Default)]
    struct Output(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Output {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            all.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged in this format.
    fn logged(format: LogFormat, log: impl FnOnce()) -> String {
        let output = Output::default();
        let of_line = output.clone();
        let settings = LogSettings {
            format,
            ..LogSettings::default()
        };
        let (dispatch, _) = settings.dispatch(move || of_line.clone(), false);
        tracing::dispatcher::with_default(&dispatch, log);
        let bytes = output.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    fn ids(count: usize) -> Vec<Arc<str>> {
        (0..count).map(|it| it.to_string().into()).collect()
    }

    #[test]
    fn a_line_of_text_names_the_requests_that_its_thread_works_on() {
        let line = |count| {
            logged(LogFormat::Text, || {
                on_behalf_of(ids(count), || tracing::info!(a = "x", "said"))
            })
        };
        assert!(line(0).ends_with(": said a=\"x\"\n"), "{}", line(0));
        assert!(
            line(1).ends_with(": request_id=\"0\" said a=\"x\"\n"),
            "{}",
            line(1)
        );
        assert!(
            line(2).contains(": request_ids=[\"0\", \"1\"] said"),
            "{}",
            line(2)
        );
        let many = line(NAMED_MAX + 1);
        assert!(
            many.contains("requests=33 request_ids=[") && many.contains("\"31\"] said"),
            "{many}"
        );
    }

    #[test]
    fn a_line_of_json_names_them_too() {
        let line = |count| {
            let text = logged(LogFormat::Json, || {
                on_behalf_of(ids(count), || tracing::info!("said"))
            });
            serde_json::from_str::<serde_json::Value>(&text).unwrap()
        };
        assert_eq!(line(0).get("request_id"), None);
        assert_eq!(line(1)["request_id"], "0");
        assert_eq!(line(2)["request_ids"], json!(["0", "1"]));
        assert_eq!(line(NAMED_MAX + 1)["requests"], NAMED_MAX + 1);
    }

    #[test]
    fn work_that_panics_has_ended() {
        let panicked = std::panic::catch_unwind(|| on_behalf_of(ids(1), || panic!("on purpose")));
        assert!(panicked.is_err());
        assert!(requests::current_requests().is_empty());
    }

    #[test]
    fn texts_are_quoted_and_escaped_as_debug_does() {
        for text in ["plain", "", "a \"b\" \\", "line\nbreak", "ü \u{9b}"] {
            let line = logged(LogFormat::Text, || tracing::info!(text, count = 3, "said"));
            let expected = format!(": said text={text:?} count=3\n");
            assert!(line.ends_with(&expected), "{line}");
        }
    }

    #[test]
    fn control_characters_are_escaped() {
        let evil = "a\x1b[2J\r\u{9b}\nb";
        let line = logged(LogFormat::Text, || tracing::info!(field = %evil, "{evil}"));
        assert!(
            line.contains(": a\\u{1b}[2J\\r\\u{9b}\nb field=a\\u{1b}[2J\\r\\u{9b}\\nb\n"),
            "{line:?}"
        );
    }
}
