//! The form of log lines, as text and as JSON.
//!
//! Each line names the requests that its thread works on. Control characters, which may come from clients, are escaped:
//! they could move the cursor of a terminal, or look like a line of their own. Only line breaks of a message stay, because
//! tracebacks have them.

use std::fmt::{self, Debug, Write};
use std::sync::Arc;
use std::time::SystemTime;

use serde_json::json;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::{requests, timestamp};

/// Requests that one line names; a call may have a thousand.
const NAMED_MAX: usize = 32;

/// Room for a line of usual length.
const LINE_LEN: usize = 512;

/// The field with the text of a line.
const MESSAGE: &str = "message";

/// The fields of a line of text.
///
/// Most values are plain texts. They are written as they are, without formatting: a flow may log every request.
pub(super) struct TextFields;

impl<'w> FormatFields<'w> for TextFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let is_colored = writer.has_ansi_escapes();
        write_fields(&mut writer, is_colored, fields)
    }
}

/// Lines of text. A line without colors, outside of spans, is written without the layers that other lines need.
pub(super) struct TextLines(pub(super) Format);

impl<S, N> FormatEvent<S, N> for TextLines
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        let has_span = context.parent_span().is_some();
        // Events of the crate `log` have their target in a field.
        if writer.has_ansi_escapes() || has_span || metadata.target() == "log" {
            return self.0.format_event(context, writer, event);
        }
        let mut line = String::with_capacity(LINE_LEN);
        timestamp::push(&mut line, SystemTime::now());
        line.push_str(level(*metadata.level()));
        line.push_str(metadata.target());
        line.push_str(": ");
        write_fields(&mut line, false, event)?;
        line.push('\n');
        writer.write_str(&line)
    }
}

/// A level as it stands in a line, with the spaces around it.
fn level(level: Level) -> &'static str {
    match level {
        Level::TRACE => " TRACE ",
        Level::DEBUG => " DEBUG ",
        Level::INFO => "  INFO ",
        Level::WARN => "  WARN ",
        Level::ERROR => " ERROR ",
    }
}

fn write_fields<R: RecordFields>(
    writer: &mut impl Write,
    is_colored: bool,
    fields: R,
) -> fmt::Result {
    let mut visitor = FieldVisitor {
        writer,
        is_colored,
        is_first: true,
        result: Ok(()),
    };
    fields.record(&mut visitor);
    visitor.result
}

struct FieldVisitor<'w, W> {
    writer: &'w mut W,
    is_colored: bool,
    is_first: bool,
    /// The first error. Nothing is written after it.
    result: fmt::Result,
}

impl<W: Write> Visit for FieldVisitor<'_, W> {
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

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.record(field, |writer| {
            writer.write_str(itoa::Buffer::new().format(value))
        });
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.record(field, |writer| {
            writer.write_str(itoa::Buffer::new().format(value))
        });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.record(field, |writer| match thousandths(value) {
            Some(thousandths) => write_thousandths(writer, thousandths),
            None => write!(writer, "{value:?}"),
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let is_message = field.name() == MESSAGE;
        self.record(field, |writer| write_escaped(writer, value, is_message));
    }
}

impl<W: Write> FieldVisitor<'_, W> {
    fn record(&mut self, field: &Field, value: impl FnOnce(&mut W) -> fmt::Result) {
        // Fields of the crate `log`, which say where in the code a line comes from.
        if self.result.is_err() || field.name().starts_with("log.") {
            return;
        }
        self.result = self
            .write_name(field.name())
            .and_then(|()| value(self.writer));
    }

    /// Writes what comes before a value: a space, unless it is the first, and the name. The message has the ids of requests
    /// instead of a name.
    fn write_name(&mut self, name: &str) -> fmt::Result {
        let writer = &mut *self.writer;
        if !std::mem::replace(&mut self.is_first, false) {
            writer.write_char(' ')?;
        }
        match (name, self.is_colored) {
            (MESSAGE, _) => requests::look(|ids| write_requests(writer, ids)),
            (name, true) => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m"),
            (name, false) => {
                writer.write_str(name)?;
                writer.write_char('=')
            }
        }
    }
}

/// The number of thousandths of a number that has no smaller part, such as milliseconds with microseconds. They are written as
/// they are: finding the shortest digits of any number takes several times as long.
fn thousandths(value: f64) -> Option<u64> {
    /// Numbers up to here differ by far less than a thousandth.
    const MAX: f64 = 1e9;
    let thousandths = (value * 1e3).round();
    let is_whole = (0.0..MAX).contains(&value) && thousandths / 1e3 == value;
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number from 0 to 10^12"
    )]
    let whole = thousandths as u64;
    // The sign of -0 is written, too.
    (is_whole && value.is_sign_positive()).then_some(whole)
}

/// As `Debug` writes the number: with one digit behind the point at least.
fn write_thousandths(writer: &mut impl Write, thousandths: u64) -> fmt::Result {
    let (whole, rest) = (thousandths / 1_000, thousandths % 1_000);
    writer.write_str(itoa::Buffer::new().format(whole))?;
    let digits = [rest / 100, rest / 10 % 10, rest % 10];
    let last = digits.iter().rposition(|&digit| digit != 0).unwrap_or(0);
    writer.write_char('.')?;
    digits[..=last].iter().try_for_each(|&digit| {
        let digit = u8::try_from(digit).unwrap_or_default();
        writer.write_char(char::from(b'0' + digit))
    })
}

/// Whether a text between quotes is what `Debug` makes of it.
fn needs_no_escapes(text: &str) -> bool {
    // Looking at every byte is quicker than stopping at the first that does not fit.
    let is_fine = |byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\';
    text.bytes().fold(true, |all, byte| all & is_fine(byte))
}

fn write_escaped(writer: &mut impl Write, value: &dyn Debug, keeps_lines: bool) -> fmt::Result {
    let mut escaped = Escaped {
        to: writer,
        keeps_lines,
    };
    write!(escaped, "{value:?}")
}

fn write_requests(writer: &mut impl Write, ids: &[Arc<str>]) -> fmt::Result {
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
    fn a_line_of_text_has_the_form_of_tracing() {
        let lines = logged(LogFormat::Text, || {
            let log = || {
                tracing::error!(target: "a::b", x = 1, "said");
                tracing::warn!(target: "a::b", "said");
                tracing::info!(target: "a::b", "said");
            };
            log();
            tracing::info_span!("outer", id = 7).in_scope(log);
        });
        let lines: Vec<(&str, &str)> = lines.lines().map(|line| line.split_at(27)).collect();
        let texts: Vec<&str> = lines.iter().map(|(_, text)| *text).collect();
        let expected = [
            " ERROR a::b: said x=1",
            "  WARN a::b: said",
            "  INFO a::b: said",
            " ERROR outer{id=7}: a::b: said x=1",
            "  WARN outer{id=7}: a::b: said",
            "  INFO outer{id=7}: a::b: said",
        ];
        assert_eq!(texts, expected);
        // The first ones are ours, and the others are those of the library.
        for (time, _) in lines {
            let digits = time.replace(|it: char| it.is_ascii_digit(), "0");
            assert_eq!(digits, "0000-00-00T00:00:00.000000Z");
        }
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
    fn numbers_are_written_as_debug_does() {
        let floats = [
            0.0,
            -0.0,
            0.001,
            0.01,
            1.0,
            1.5,
            3.257,
            12.34,
            999.999,
            1e6,
            1e9,
            1e17,
            -2.5,
            0.0005,
            0.1 + 0.2,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        let of_ms = (0..2_000_000_u32)
            .step_by(997)
            .map(|us| f64::from(us) / 1e3);
        for number in of_ms.chain(floats) {
            let line = logged(LogFormat::Text, || tracing::info!(number, "said"));
            assert!(
                line.ends_with(&format!(": said number={number:?}\n")),
                "{line}"
            );
        }
        let line = logged(LogFormat::Text, || {
            tracing::info!(a = u64::MAX, b = i64::MIN, c = 7_usize, d = true, "said");
        });
        let expected = ": said a=18446744073709551615 b=-9223372036854775808 c=7 d=true\n";
        assert!(line.ends_with(expected), "{line}");
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
