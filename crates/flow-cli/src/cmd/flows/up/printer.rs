//! Prints the events of a flow, line by line, on stderr.
//!
//! As text, a line has its process's name before it. As JSON, every line is an object that names it. On a terminal,
//! lines that are wider are wrapped.
//!
//! A terminal may be paused, and a pipe may have no reader. So a thread of its own writes, and nothing waits for it:
//! lines that it cannot write fast enough are dropped, and a line says how many. This program's own log goes the same
//! way.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use flow_launch::{
    EventSender, FlowEvent, LastLines, Lines, ReadyProcess, event_channel, send_log_line,
};
use flow_process::LogFormat as Format;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::cmd::flows::json_line::json_line;
use crate::escape::{escape, escape_except_colors, escape_json};
use crate::layout::{width, wrap_after, wrap_indented};
use crate::output::{self, Colour, Painter};
use crate::shell::Shell;

/// Maximum number of lines, or groups of lines that were read together, that wait for a slow terminal; more are dropped.
const LINES_MAX: usize = 1_024;

/// At the end, a terminal that takes no line for this long is given up.
const STALL_MAX: Duration = Duration::from_secs(1);

/// Number of printed lines that are remembered: about a screen.
const RECENT_MAX: usize = 50;

/// Indentation of the further lines of a sentence that is wrapped.
const INDENT: usize = 4;

/// Separates the name of a process from its line.
const MARK: &str = " │ ";

/// The thread that prints events.
#[derive(Debug)]
pub(super) struct Printer {
    /// Disconnected when everything is written.
    done: Receiver<()>,
    written: Arc<AtomicU64>,
    /// Completes when everything is printed that happened before the flow was ready.
    serving: oneshot::Receiver<()>,
    recent: Arc<Mutex<Recent>>,
    own_log: OwnLog,
}

/// The last lines of processes that were printed.
#[derive(Debug)]
pub(super) struct Recent(LastLines);

impl Default for Recent {
    fn default() -> Self {
        Self(LastLines::new(RECENT_MAX))
    }
}

impl Recent {
    /// Whether these are the last lines of a process, and are still on the screen.
    pub(super) fn ends_with(&self, process: &str, lines: &[String]) -> bool {
        let printed: Vec<&str> = self.0.of(process).collect();
        printed.ends_with(&lines.iter().map(String::as_str).collect::<Vec<_>>())
    }
}

/// Starts the thread.
pub(super) fn start(shell: &Shell) -> io::Result<(Printer, EventSender)> {
    let look = LineFormat {
        format: shell.log.format,
        painter: Painter::stderr(shell),
        columns: output::columns(io::stderr()),
    };
    let (sender, mut events) = event_channel(LINES_MAX);
    let (send_serving, serving) = oneshot::channel();
    let mut send_serving = Some(send_serving);
    let (running, done) = sync_channel(0);
    let written = Arc::<AtomicU64>::default();
    let count = written.clone();
    let recent = Arc::<Mutex<Recent>>::default();
    let printed = recent.clone();
    let write = move || {
        let _running = running;
        let print = |lines: &mut String| {
            output::error_lines(lines);
            count.fetch_add(1, Ordering::Relaxed);
            lines.clear();
        };
        while let Some(events) = events.blocking_recv_some() {
            let mut lines = String::new();
            for event in events {
                if let FlowEvent::Lines { name, lines } = &event {
                    let mut recent = printed.lock().unwrap_or_else(PoisonError::into_inner);
                    recent.0.push(name.clone(), lines.clone());
                }
                if let Some(line) = look.text(event) {
                    lines.push_str(&line);
                    lines.push('\n');
                } else if let Some(send) = send_serving.take() {
                    print(&mut lines);
                    // Without a receiver the flow was stopped in the meantime.
                    send.send(()).ok();
                }
            }
            print(&mut lines);
        }
    };
    thread::Builder::new()
        .name("printer".to_owned())
        .spawn(write)?;
    let printer = Printer {
        done,
        written,
        serving,
        recent,
        own_log: OwnLog(Arc::new(Mutex::new(Some(sender.clone())))),
    };
    Ok((printer, sender))
}

impl Printer {
    /// Writes lines of this program's own log.
    pub(super) fn own_log(&self) -> OwnLog {
        self.own_log.clone()
    }

    /// Waits until everything is printed that happened before the flow was ready, so that the banner comes after it.
    pub(super) async fn start_printed(&mut self) {
        // An error means that the thread has failed, and writes nothing more.
        drop((&mut self.serving).await);
    }

    /// Waits until everything is printed, and returns the last lines. All senders must be gone.
    pub(super) fn finish(self) -> Recent {
        let recent = self.recent.clone();
        drop(self);
        std::mem::take(&mut *recent.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Printer {
    /// Waits until everything is written, unless the terminal is paused or the pipe has no reader. All senders must be
    /// gone.
    fn drop(&mut self) {
        self.own_log.close();
        let mut before = self.written.load(Ordering::Relaxed);
        while self.done.recv_timeout(STALL_MAX) == Err(RecvTimeoutError::Timeout) {
            let now = self.written.load(Ordering::Relaxed);
            if now == before {
                return;
            }
            before = now;
        }
    }
}

/// Writes this program's own log to the thread.
#[derive(Debug, Clone)]
pub(super) struct OwnLog(Arc<Mutex<Option<EventSender>>>);

impl OwnLog {
    fn close(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl Write for OwnLog {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &*sender {
            Some(sender) => send_log_line(sender, text.trim_end_matches('\n').to_owned()),
            // The thread has ended: the program ends, and may write itself.
            None => output::error_line(text.trim_end_matches('\n')),
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The format of lines.
#[derive(Debug, Clone, Copy)]
struct LineFormat {
    format: Format,
    painter: Painter,
    /// Width of the terminal, if there is one.
    columns: Option<usize>,
}

impl LineFormat {
    /// The text of an event. `None` if it is not printed.
    fn text(&self, event: FlowEvent) -> Option<String> {
        Some(match (event, self.format) {
            (FlowEvent::Lines { name, lines }, Format::Text) => self.lines(&name, &lines),
            (FlowEvent::Lines { name, lines }, Format::Json) => {
                let object = |line| Value::Object(json_line(&name, line)).to_string();
                let objects = lines
                    .iter()
                    .map(|line| escape_json(&object(line)).into_owned());
                objects.collect::<Vec<_>>().join("\n")
            }
            (FlowEvent::Log(line), _) => line,
            (FlowEvent::Dropped(dropped), Format::Text) => {
                self.lines(&dropped.name, &Lines::new(dropped.to_string()))
            }
            (FlowEvent::Dropped(dropped), Format::Json) => {
                Value::Object(json_line(&dropped.name, &dropped.to_string())).to_string()
            }
            (FlowEvent::Ready(member), Format::Text) => {
                let columns = self.columns.unwrap_or(usize::MAX);
                let text = wrap_indented(&escape(&member.to_string()), columns, INDENT);
                self.painter.paint(Colour::Green, &text)
            }
            (FlowEvent::Ready(member), Format::Json) => ready(&member).to_string(),
            (FlowEvent::Serving, _) => return None,
        })
    }

    /// Lines of a process, each after its name.
    fn lines(&self, name: &str, lines: &Lines) -> String {
        let (prefix, blank) = (self.prefix(name), " ".repeat(width(name)));
        let mut text = String::new();
        for line in lines.iter() {
            let line = escape_except_colors(line, self.columns.is_some());
            text.push_str(&prefix);
            if self.columns.is_none() {
                text.push_str(&line);
                text.push('\n');
                continue;
            }
            let parts = wrap_after(width(name) + width(MARK), &line, self.columns);
            for (number, part) in parts.into_iter().enumerate() {
                if number > 0 {
                    text.push_str(&self.prefix(&blank));
                }
                text.push_str(&part);
                text.push('\n');
            }
        }
        // The last line has no end.
        text.pop();
        text
    }

    /// The name of a process and the mark before each of its lines.
    fn prefix(&self, name: &str) -> String {
        let name = format!("{name}{}", MARK.trim_end());
        let mut prefix = self.painter.paint(Colour::Cyan, &name);
        prefix.push(' ');
        prefix
    }
}

fn ready(member: &ReadyProcess) -> Value {
    let mut ready = json!({
        "message": "ready and listening",
        "process": &*member.name,
        "pid": member.pid,
        "address": member.address,
        "facts": member.facts,
    });
    if let Some(url) = member.metrics_url() {
        ready["metrics"] = url.into();
    }
    ready
}

#[cfg(test)]
mod tests {
    use flow_launch::{Facts, Role};

    use super::*;

    fn look(format: Format, columns: Option<usize>) -> LineFormat {
        LineFormat {
            format,
            painter: Painter::off(),
            columns,
        }
    }

    fn check(line: &str, format: Format, expected: &str) {
        let event = FlowEvent::Lines {
            name: "encoder".into(),
            lines: Lines::new(line),
        };
        assert_eq!(look(format, None).text(event).as_deref(), Some(expected));
    }

    #[test]
    fn a_line_begins_with_the_name_of_its_process() {
        check("loading", Format::Text, "encoder │ loading");
        check(
            "loading",
            Format::Json,
            r#"{"message":"loading","process":"encoder"}"#,
        );
        check(
            r#"{"level":"INFO"}"#,
            Format::Json,
            r#"{"level":"INFO","process":"encoder"}"#,
        );
        check("7", Format::Json, r#"{"message":"7","process":"encoder"}"#);
        check(
            "a\n\nb",
            Format::Text,
            "encoder │ a\nencoder │ \nencoder │ b",
        );
        check(
            "7\nb",
            Format::Json,
            "{\"message\":\"7\",\"process\":\"encoder\"}\n{\"message\":\"b\",\"process\":\"encoder\"}",
        );
    }

    #[test]
    fn a_line_that_is_wider_than_the_terminal_is_wrapped() {
        let shown = |line: &str, columns| {
            let event = FlowEvent::Lines {
                name: "encoder".into(),
                lines: Lines::new(line),
            };
            look(Format::Text, Some(columns)).text(event).unwrap()
        };
        let line = r#"INFO source: downloading file="model.safetensors" percent=10"#;
        assert_eq!(shown(line, 80), format!("encoder │ {line}"));
        let expected = "encoder │ INFO source: downloading\n        \
                        │ file=\"model.safetensors\" percent=10";
        assert_eq!(shown(line, 45), expected);
        for columns in 30..90 {
            let text = shown(line, columns);
            assert!(text.lines().all(|line| width(line) <= columns), "{text}");
        }
        let coloured = "\u{1b}[31mred\u{1b}[0m and a long line behind it";
        assert_eq!(shown(coloured, 40), format!("encoder │ {coloured}"));
    }

    #[test]
    fn control_characters_are_escaped() {
        let line = "\u{1b}]0;x\u{7}\u{9b}2J";
        check(line, Format::Text, "encoder │ \\x1b]0;x\\x07\\x9b2J");
        check(
            line,
            Format::Json,
            r#"{"message":"\u001b]0;x\u0007\u009b2J","process":"encoder"}"#,
        );
    }

    #[test]
    fn the_last_lines_of_a_process_are_remembered_among_those_of_others() {
        let mut recent = Recent::default();
        for (name, line) in [("a", "1"), ("b", "x"), ("a", "2"), ("b", "y")] {
            recent.0.push(name.into(), Lines::new(line));
        }
        let lines = |lines: &[&str]| lines.iter().map(|&it| it.to_owned()).collect::<Vec<_>>();
        assert!(recent.ends_with("a", &lines(&["1", "2"])));
        assert!(!recent.ends_with("a", &lines(&["1"])));
        for number in 0..RECENT_MAX {
            recent.0.push("b".into(), Lines::new(number.to_string()));
        }
        assert!(!recent.ends_with("a", &lines(&["2"])));
    }

    #[test]
    fn a_ready_event_is_wrapped_to_the_terminal() {
        let facts = [
            ("device", "cpu"),
            ("model", "sentence-transformers/all-MiniLM-L6-v2"),
        ];
        let facts = facts.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let member = ReadyProcess {
            name: "encoder".into(),
            role: Role::Gateway,
            pid: 7,
            address: "127.0.0.1:41233".parse().unwrap(),
            more_addresses: Vec::new(),
            metrics: None,
            facts: Facts::from_iter(facts),
            keeps_state: None,
            took: std::time::Duration::ZERO,
        };
        let shown = |columns| look(Format::Text, columns).text(FlowEvent::Ready(member.clone()));
        let whole = shown(None).unwrap();
        assert_eq!(whole, member.to_string());
        for columns in 30..150 {
            let text = shown(Some(columns)).unwrap();
            assert!(text.lines().all(|line| width(line) <= columns), "{text}");
            let words = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(words(&text), words(&whole), "{columns}");
        }
    }
}
