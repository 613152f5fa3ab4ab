use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Waits for permission to write, if it needs one, and sends what is written.
struct Output {
    permits: Option<Receiver<()>>,
    written: Sender<String>,
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(permits) = &self.permits {
            permits.recv().ok();
        }
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        self.written.send(text).ok();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A log that holds this many bytes and writes them to an output.
fn log(
    bytes_max: usize,
    format: LogFormat,
    permits: Option<Receiver<()>>,
) -> (LineOutput, Receiver<String>) {
    let (sender, written) = channel();
    let output = Mutex::new(Some(Output {
        permits,
        written: sender,
    }));
    let open = move || -> Box<dyn Write + Send> {
        Box::new(output.lock().unwrap().take().expect("it is opened once"))
    };
    let log = LineOutput::with_capacity(bytes_max, Arc::new(open), format, Some("access"));
    (log, written)
}

fn write(log: &LineOutput, lines: &[&str]) {
    for line in lines {
        log.write(line.as_bytes(), false).unwrap();
    }
}

#[test]
fn lines_are_written_in_their_order() {
    let (log, written) = log(100, LogFormat::Text, None);
    log.write(b"1\n", true).unwrap();
    write(&log, &["2\n"]);
    log.write(b"3\n", true).unwrap();
    log.flush(Duration::MAX);
    let text: String = written.try_iter().collect();
    assert_eq!(text, "1\n2\n3\n");
}

#[test]
fn a_line_is_written_without_a_flush() {
    let (log, written) = log(100, LogFormat::Text, None);
    for is_buffered in [true, false] {
        log.write(b"1\n", is_buffered).unwrap();
        assert_eq!(written.recv().unwrap(), "1\n");
    }
}

/// What is written when a log of two lines had an output that accepted nothing while six were logged, the first of which the
/// thread may have taken.
fn written_after_drops(format: LogFormat) -> String {
    let (permits, needed) = channel();
    let (log, written) = log(4, format, Some(needed));
    write(&log, &["0\n"]);
    permits.send(()).unwrap();
    assert_eq!(written.recv().unwrap(), "0\n");
    // None of these waits, though the output accepts nothing.
    write(&log, &["1\n", "2\n", "3\n", "4\n", "5\n", "6\n"]);
    drop(permits);
    log.flush(Duration::MAX);
    written.try_iter().collect()
}

#[test]
fn lines_for_an_output_that_accepts_nothing_are_dropped_and_counted() {
    let text = written_after_drops(LogFormat::Text);
    assert!(text.starts_with("1\n"), "{text}");
    // The thread may take lines while others are logged, and then reports twice.
    let (kept, reports): (Vec<&str>, Vec<&str>) = text.lines().partition(|line| line.len() == 1);
    let dropped = reports.iter().map(|line| {
        let (_, report) = line.split_once("  WARN ").expect("a report");
        let count = report.strip_prefix("flow_process::log::output: dropped ");
        let (count, rest) = count.expect("a report").split_once(" log line").unwrap();
        let why = rest.strip_prefix('s').unwrap_or(rest);
        assert_eq!(why, ", because the log's reader did not keep up with them");
        count.parse::<usize>().unwrap()
    });
    let dropped: usize = dropped.sum();
    assert!(dropped > 0, "{text}");
    assert_eq!(kept.len() + dropped, 6, "{text}");
}

#[test]
fn a_line_that_is_longer_than_all_that_may_wait_is_written() {
    let (log, written) = log(4, LogFormat::Text, None);
    write(&log, &["longer than that\n"]);
    assert_eq!(written.recv().unwrap(), "longer than that\n");
}

#[test]
fn the_thread_ends_with_the_last_output() {
    let (log, written) = log(100, LogFormat::Text, None);
    write(&log.clone(), &["last\n"]);
    drop(log);
    // The output is dropped with the thread.
    assert_eq!(written.iter().collect::<String>(), "last\n");
}

#[test]
fn a_report_in_json_has_the_form_of_other_lines() {
    let line = line_of_dropped(1, LogFormat::Json);
    let line: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["fields"]["dropped"], 1);
    assert!(line["timestamp"].as_str().unwrap().ends_with('Z'));
    let message = line["fields"]["message"].as_str().unwrap();
    assert!(message.starts_with("dropped 1 log line, "), "{message}");
}

#[test]
fn an_output_that_accepts_nothing_does_not_block_the_exit() {
    let (never, needed) = channel();
    let (log, _written) = log(100, LogFormat::Text, Some(needed));
    write(&log, &["last\n"]);
    log.flush(Duration::from_millis(1));
    drop(never);
}

#[test]
fn a_process_without_the_thread_writes_its_lines_itself() {
    let (sender, written) = channel();
    let open = move || -> Box<dyn Write + Send> {
        Box::new(Output {
            permits: None,
            written: sender.clone(),
        })
    };
    let log = LineOutput::new(open, LogFormat::Text, None);
    let forked = LineOutput {
        process: log.process + 1,
        ..log
    };
    write(&forked, &["1\n"]);
    assert_eq!(written.try_recv().unwrap(), "1\n");
}

#[test]
fn only_lines_of_the_target_are_buffered() {
    let (log, _written) = log(100, LogFormat::Text, None);
    let seen = Arc::new(Mutex::new(Vec::new()));
    struct Seen(LineOutput, Arc<Mutex<Vec<bool>>>);
    impl<'o> MakeWriter<'o> for Seen {
        type Writer = io::Sink;

        fn make_writer(&'o self) -> io::Sink {
            io::sink()
        }

        fn make_writer_for(&'o self, event: &Metadata<'_>) -> io::Sink {
            let is_buffered = self.0.make_writer_for(event).is_buffered;
            self.1.lock().unwrap().push(is_buffered);
            io::sink()
        }
    }
    let subscriber = tracing_subscriber::fmt()
        .with_writer(Seen(log, seen.clone()))
        .finish();
    tracing::subscriber::with_default(subscriber, || {
        tracing::info!(target: "access", "one");
        tracing::info!(target: "other", "two");
    });
    assert_eq!(*seen.lock().unwrap(), [true, false]);
}
