//! What happens in a flow's processes, line by line on stderr.
//!
//! As text, a line has its process's name before it. As JSON, every line is an object that names it.
//! On a terminal, lines that are wider are broken, and go on under their beginning.

use std::io;
use std::thread::{self, JoinHandle};

use flow_executor::Log as Format;
use flow_launch::{Event, Member};
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::layout::{width, wrap, wrap_indented};
use crate::log::object;
use crate::output::{self, Colour, Painter};
use crate::shell::Shell;

/// Lines that may wait for a slow terminal before the processes that write them do.
const EVENTS_MAX: usize = 1_024;

/// Blanks before what follows of a sentence of ours that is broken.
const INDENT: usize = 4;

/// Between the name of a process and its line.
const MARK: &str = " │ ";

/// Lines of processes are not broken where they would have less room than this.
const LINE_WIDTH_MIN: usize = 20;

/// The thread that writes.
#[derive(Debug)]
pub(super) struct Teller {
    thread: JoinHandle<()>,
    /// Comes when everything is written that led to a flow that serves.
    serving: oneshot::Receiver<()>,
}

/// Starts to write whatever comes. A terminal may block, so it has a thread of its own.
pub(super) fn start(shell: &Shell) -> io::Result<(mpsc::Sender<Event>, Teller)> {
    let look = Look {
        format: shell.log.format,
        painter: Painter::stderr(shell),
        columns: output::columns(io::stderr()),
    };
    let (tell, mut events) = mpsc::channel(EVENTS_MAX);
    let (tell_serving, serving) = oneshot::channel();
    let mut tell_serving = Some(tell_serving);
    let write = move || {
        while let Some(event) = events.blocking_recv() {
            if let Some(line) = look.shown(event) {
                output::error_line(&line);
            } else if let Some(tell) = tell_serving.take() {
                // Nobody waits any more if the flow was stopped meanwhile.
                tell.send(()).ok();
            }
        }
    };
    let thread = thread::Builder::new()
        .name("teller".to_owned())
        .spawn(write)?;
    Ok((tell, Teller { thread, serving }))
}

impl Teller {
    /// Waits until everything is written that happened before the flow served: what its user reads next
    /// comes after it, on whichever output.
    pub(super) async fn has_told_start(&mut self) {
        // An error means that the thread has failed, and writes nothing more.
        drop((&mut self.serving).await);
    }

    /// Waits until everything is written. To be called when nobody is left to say anything.
    pub(super) fn finish(self) {
        if self.thread.join().is_err() {
            output::error_line("flow: lines of processes were lost");
        }
    }
}

/// How lines look.
#[derive(Debug, Clone, Copy)]
struct Look {
    format: Format,
    painter: Painter,
    /// Of the terminal, if there is one.
    columns: Option<usize>,
}

impl Look {
    /// An event as a line; none: it is not shown.
    fn shown(&self, event: Event) -> Option<String> {
        Some(match (event, self.format) {
            (Event::Line { name, line }, Format::Text) => self.line(&name, &line),
            (Event::Line { name, line }, Format::Json) => {
                Value::Object(object(&name, &line)).to_string()
            }
            (Event::Ready(member), Format::Text) => {
                let columns = self.columns.unwrap_or(usize::MAX);
                let text = wrap_indented(&member.to_string(), columns, INDENT);
                self.painter.paint(Colour::Green, &text)
            }
            (Event::Ready(member), Format::Json) => ready(&member).to_string(),
            (Event::Serving, _) => return None,
        })
    }

    /// A line of a process, behind the process's name.
    fn line(&self, name: &str, line: &str) -> String {
        let prefix = |name: &str| {
            let mark = self
                .painter
                .paint(Colour::Cyan, &format!("{name}{}", MARK.trim_end()));
            format!("{mark} ")
        };
        let room = self.columns.unwrap_or(usize::MAX);
        let room = room.saturating_sub(width(name) + width(MARK));
        // What moves the cursor or changes colours has another width than its letters.
        if room < LINE_WIDTH_MIN || line.chars().any(char::is_control) {
            return prefix(name) + line;
        }
        let mut lines = wrap(line, room).into_iter();
        let first = lines.next().unwrap_or_default();
        let blank = " ".repeat(width(name));
        let more = lines.map(|line| format!("\n{}{line}", prefix(&blank)));
        format!("{}{first}{}", prefix(name), more.collect::<String>())
    }
}

fn ready(member: &Member) -> Value {
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

    fn look(format: Format, columns: Option<usize>) -> Look {
        Look {
            format,
            painter: Painter::off(),
            columns,
        }
    }

    fn check(line: &str, format: Format, expected: &str) {
        let event = Event::Line {
            name: "encoder".into(),
            line: line.to_owned(),
        };
        assert_eq!(look(format, None).shown(event).as_deref(), Some(expected));
    }

    #[test]
    fn a_line_says_who_wrote_it() {
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
    }

    #[test]
    fn a_line_that_is_wider_than_the_terminal_goes_on_under_its_beginning() {
        let shown = |line: &str, columns| {
            let event = Event::Line {
                name: "encoder".into(),
                line: line.to_owned(),
            };
            look(Format::Text, Some(columns)).shown(event).unwrap()
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
    fn a_process_that_is_ready_is_told_in_lines_that_fit_the_terminal() {
        let facts = [
            ("device", "cpu"),
            ("model", "sentence-transformers/all-MiniLM-L6-v2"),
        ];
        let facts = facts.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let member = Member {
            name: "encoder".into(),
            role: Role::Gateway,
            pid: 7,
            address: "127.0.0.1:41233".parse().unwrap(),
            metrics: None,
            facts: Facts::from_iter(facts),
            took: std::time::Duration::ZERO,
        };
        let shown = |columns| look(Format::Text, columns).shown(Event::Ready(member.clone()));
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
