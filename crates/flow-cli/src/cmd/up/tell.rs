//! What happens in a flow's processes, line by line on stderr.
//!
//! As text, a line has its process's name before it. As JSON, every line is an object that names it.

use std::io;
use std::thread::{self, JoinHandle};

use flow_executor::Log as Format;
use flow_launch::{Event, Member};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;

use crate::output::{self, Colour, Painter};
use crate::shell::Shell;

/// Lines that may wait for a slow terminal before the processes that write them do.
const EVENTS_MAX: usize = 1_024;

/// The thread that writes.
#[derive(Debug)]
pub(super) struct Teller(JoinHandle<()>);

/// Starts to write whatever comes. A terminal may block, so it has a thread of its own.
pub(super) fn start(shell: &Shell) -> io::Result<(mpsc::Sender<Event>, Teller)> {
    let (format, painter) = (shell.log.format, Painter::stderr(shell));
    let (tell, mut events) = mpsc::channel(EVENTS_MAX);
    let write = move || {
        while let Some(event) = events.blocking_recv() {
            output::error_line(&shown(event, format, painter));
        }
    };
    let thread = thread::Builder::new()
        .name("teller".to_owned())
        .spawn(write)?;
    Ok((tell, Teller(thread)))
}

impl Teller {
    /// Waits until everything is written. To be called when nobody is left to say anything.
    pub(super) fn finish(self) {
        if self.0.join().is_err() {
            output::error_line("flow: lines of processes were lost");
        }
    }
}

fn shown(event: Event, format: Format, painter: Painter) -> String {
    match (event, format) {
        (Event::Line { name, line }, Format::Text) => {
            format!(
                "{} {line}",
                painter.paint(Colour::Cyan, &format!("{name} │"))
            )
        }
        (Event::Line { name, line }, Format::Json) => object(&name, &line),
        (Event::Ready(member), Format::Text) => painter.paint(Colour::Green, &member.to_string()),
        (Event::Ready(member), Format::Json) => ready(&member).to_string(),
    }
}

/// A line as an object that names its process: its own, if it is one.
fn object(name: &str, line: &str) -> String {
    let own: Option<Map<String, Value>> = serde_json::from_str(line).ok();
    let mut fields = own.unwrap_or_else(|| Map::from_iter([("message".to_owned(), line.into())]));
    fields.insert("process".to_owned(), name.into());
    Value::Object(fields).to_string()
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
    use super::*;

    fn check(line: &str, format: Format, expected: &str) {
        let event = Event::Line {
            name: "encoder".into(),
            line: line.to_owned(),
        };
        assert_eq!(shown(event, format, Painter::off()), expected);
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
}
