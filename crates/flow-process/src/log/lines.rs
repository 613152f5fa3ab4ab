//! The form of log lines, as text and as JSON.
//!
//! Each line names the requests that its thread works on. Control characters, which may come from clients, are escaped:
//! they could move the cursor of a terminal, or look like a line of their own. Only line breaks of a message stay, because
//! tracebacks have them.

use std::fmt::{self, Debug, Write};
use std::sync::Arc;

use serde_json::json;
use tracing::field::Field;
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::format::{Format, FormatEvent, FormatFields, Json, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::requests;

/// Requests that one line names; a call may have a thousand.
const NAMED_MAX: usize = 32;

/// The field with the text of a line.
const MESSAGE: &str = "message";

/// Writes one field of a line of text.
pub(super) fn write_field(
    writer: &mut Writer<'_>,
    field: &Field,
    value: &dyn Debug,
) -> fmt::Result {
    let has_colour = writer.has_ansi_escapes();
    match (field.name(), has_colour) {
        (MESSAGE, _) => {
            requests::look(|ids| write_requests(writer, ids))?;
            return write!(
                Escaped {
                    to: writer,
                    keeps_lines: true
                },
                "{value:?}"
            );
        }
        // Fields of the crate `log`, which say where in the code a line comes from.
        (name, _) if name.starts_with("log.") => return Ok(()),
        (name, true) => write!(writer, "\x1b[3m{name}\x1b[0m\x1b[2m=\x1b[0m")?,
        (name, false) => write!(writer, "{name}=")?,
    }
    write!(
        Escaped {
            to: writer,
            keeps_lines: false
        },
        "{value:?}"
    )
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
    fn work_that_panics_is_over() {
        let panicked = std::panic::catch_unwind(|| on_behalf_of(ids(1), || panic!("on purpose")));
        assert!(panicked.is_err());
        assert!(requests::current_requests().is_empty());
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
