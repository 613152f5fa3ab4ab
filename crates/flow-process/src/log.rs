//! The log of a process: which events are written, how, and where.

mod filter_file;
mod format;
mod lines;
mod output;
mod records;
mod requests;
mod timestamp;

use std::fmt;
use std::io::{IsTerminal, Write};
use std::str::FromStr;
use std::sync::OnceLock;
use std::time::Duration;

use tracing::{Dispatch, dispatcher};
use tracing_log::{AsLog, LogTracer};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::{LevelFilter, ParseError};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format as formats;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::reload::{self, Handle};

use self::lines::{JsonLines, TextFields, TextLines};
use self::output::LineOutput;
use self::records::Records;

pub use self::filter_file::{FILTER_FILE_VARIABLE, follow_filter_file};
pub use self::format::{BadLogFormat, LogFormat};
pub use self::records::{LogRecord, LogValue, RecordsExported, export_records};
pub use self::requests::{SpanIds, current_requests, note_span, on_behalf_of};

/// The log of this process, once it has started.
static RUNNING: OnceLock<RunningLog> = OnceLock::new();

/// The log of this process.
struct RunningLog {
    /// The filter that it started with.
    own: LogFilter,
    change: ChangeFilter,
    /// `None` if its lines go to a writer of the program's.
    output: Option<LineOutput>,
}

type ChangeFilter = Box<dyn Fn(&LogFilter) -> Result<(), reload::Error> + Send + Sync>;

/// How a process logs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogSettings {
    /// The format of each line.
    pub format: LogFormat,
    /// Which events are logged.
    pub filter: LogFilter,
    /// Where lines are written.
    pub output: LogOutput,
    /// Whether lines may be colored. They are on terminals only.
    pub color: bool,
    /// A target whose lines are buffered for up to 10 ms, because there are so many.
    pub buffered_target: Option<&'static str>,
}

impl LogSettings {
    /// Starts to log the events of this process, and its panics. A thread writes the lines, and drops and counts those that
    /// are too many for the output.
    ///
    /// The first log of a process stays: later ones change nothing.
    pub fn start(&self) {
        let to = self.output;
        let output = LineOutput::new(move || to.open(), self.format, self.buffered_target);
        self.start_to(output.clone(), Some(output));
    }

    /// Starts to log to a writer of the caller's, which stands in for the output. It gets each line in one call, and must not
    /// wait.
    pub fn start_with<W: Write + 'static>(&self, writer: impl Fn() -> W + Send + Sync + 'static) {
        self.start_to(writer, None);
    }

    fn start_to<W>(&self, writer: W, output: Option<LineOutput>)
    where
        W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
    {
        let (dispatch, change) = self.dispatch(writer, self.color && self.output.is_terminal());
        if install(dispatch) {
            // It is set once, because only the first log starts.
            let own = self.filter.clone();
            let running = RunningLog {
                own,
                change,
                output,
            };
            drop(RUNNING.set(running));
            std::panic::set_hook(Box::new(|panic| {
                tracing::error!(%panic, "panicked");
                flush(FLUSH_AFTER_PANIC_MAX);
            }));
        }
    }
}

/// Crates whose records are not logged at any level, because they contain secrets: `bollard` writes requests to the Docker engine,
/// with the variables and arguments of containers and the credentials of registries.
const IGNORED: [&str; 1] = ["bollard"];

/// Makes this the log of the process, also for the records of crates that use `log`; `false` if the process has one already.
fn install(dispatch: Dispatch) -> bool {
    if dispatcher::set_global_default(dispatch).is_err() {
        return false;
    }
    // The level is known once the dispatcher is set.
    let level = LevelFilter::current().as_log();
    let records = LogTracer::builder().with_max_level(level);
    let records = IGNORED
        .into_iter()
        .fold(records, |it, name| it.ignore_crate(name));
    records.init().is_ok()
}

/// Time for the last lines when the process exits.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// Time for the lines before a panic, after which the process may end, or go on and serve.
const FLUSH_AFTER_PANIC_MAX: Duration = Duration::from_millis(100);

/// Waits until the last lines of the log are written. A program calls this before it exits.
pub fn flush_log() {
    flush(FLUSH_MAX);
}

fn flush(limit: Duration) {
    if let Some(output) = RUNNING.get().and_then(|it| it.output.as_ref()) {
        output.flush(limit);
    }
}

impl LogSettings {
    /// Writes lines to this writer.
    fn dispatch<W>(&self, writer: W, has_colour: bool) -> (Dispatch, ChangeFilter)
    where
        W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
    {
        let lines = tracing_subscriber::fmt()
            .with_env_filter(EnvFilter::new(self.filter.as_str()))
            .with_writer(writer)
            .with_ansi(has_colour);
        match self.format {
            LogFormat::Text => {
                let lines = lines.fmt_fields(TextFields);
                let lines = lines.event_format(TextLines(formats::format()));
                let lines = lines.with_filter_reloading();
                let change = changing(lines.reload_handle());
                (Dispatch::new(lines.finish().with(Records)), change)
            }
            LogFormat::Json => {
                let lines = lines.json().event_format(JsonLines(formats::json()));
                let lines = lines.with_filter_reloading();
                let change = changing(lines.reload_handle());
                (Dispatch::new(lines.finish().with(Records)), change)
            }
        }
    }
}

fn changing<S: 'static>(handle: Handle<EnvFilter, S>) -> ChangeFilter {
    Box::new(move |filter| handle.reload(EnvFilter::new(filter.as_str())))
}

/// Changes which events this process logs, from now on. Fails if its log has not started.
fn set_filter(filter: &LogFilter) -> Result<(), NoLog> {
    let running = RUNNING.get().ok_or(NoLog)?;
    (running.change)(filter).map_err(|_dropped| NoLog)
}

/// The filter that the log of this process started with.
fn own_filter() -> LogFilter {
    RUNNING.get().map(|it| it.own.clone()).unwrap_or_default()
}

/// The log of this process has not started.
#[derive(Debug)]
struct NoLog;

/// Where a process writes its log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LogOutput {
    /// Standard error, apart from results.
    #[default]
    Stderr,
    /// Standard output, for services in containers.
    Stdout,
}

impl LogOutput {
    fn is_terminal(self) -> bool {
        match self {
            Self::Stderr => std::io::stderr().is_terminal(),
            Self::Stdout => std::io::stdout().is_terminal(),
        }
    }

    fn open(self) -> Box<dyn Write + Send> {
        match self {
            Self::Stderr => Box::new(std::io::stderr()),
            Self::Stdout => Box::new(std::io::stdout()),
        }
    }
}

impl FromStr for LogOutput {
    type Err = BadLogOutput;

    fn from_str(name: &str) -> Result<Self, BadLogOutput> {
        match name {
            "stderr" => Ok(Self::Stderr),
            "stdout" => Ok(Self::Stdout),
            _ => Err(BadLogOutput(name.to_owned())),
        }
    }
}

/// The name is not that of a log output.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a log output; expected `stderr` or `stdout`")]
pub struct BadLogOutput(String);

/// Which events are logged: a level, and levels of single modules.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogFilter(String);

impl LogFilter {
    /// The filter as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for LogFilter {
    /// Level `info`, without a library's reports of its own settings.
    fn default() -> Self {
        Self("info,hnsw_rs=warn".to_owned())
    }
}

impl fmt::Display for LogFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for LogFilter {
    type Err = BadLogFilter;

    /// Parses a filter such as `warn,flow_net=debug`.
    fn from_str(text: &str) -> Result<Self, BadLogFilter> {
        let parts: Vec<&str> = text.split(',').map(str::trim).collect();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            check(part)?;
        }
        Ok(Self(parts.join(",")))
    }
}

/// Checks one part of a filter.
///
/// tracing takes a word alone for the name of a module, and then `debgu` logs nothing; here it has to be a level.
fn check(part: &str) -> Result<(), BadLogFilter> {
    if part.contains(['=', '[']) {
        let parsed = EnvFilter::try_new(part);
        return parsed.map(drop).map_err(|source| BadLogFilter::Invalid {
            part: part.to_owned(),
            source,
        });
    }
    let level: Result<LevelFilter, _> = part.parse();
    level.map(drop).map_err(|_| BadLogFilter::NotALevel {
        part: part.to_owned(),
    })
}

/// The text is not a log filter.
#[derive(Debug, thiserror::Error)]
pub enum BadLogFilter {
    /// A word alone is not a level.
    #[error(
        "`{part}` is not a log level; expected `error`, `warn`, `info`, `debug`, `trace` or `off`, or `MODULE=LEVEL` \
         for one module"
    )]
    NotALevel {
        /// The word.
        part: String,
    },
    /// The level of a module cannot be parsed.
    #[error("`{part}` is not a log filter; expected `MODULE=LEVEL`, such as `flow_net=debug`")]
    Invalid {
        /// The part of the filter.
        part: String,
        /// The cause.
        source: ParseError,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Result<&str, &str>) {
        let parsed: Result<LogFilter, _> = text.parse();
        let parsed = parsed.map_err(|error: BadLogFilter| error.to_string());
        match (parsed, expected) {
            (Ok(filter), Ok(expected)) => assert_eq!(filter.as_str(), expected),
            (Err(error), Err(expected)) => assert!(error.contains(expected), "{error}"),
            (parsed, _) => panic!("{text}: {parsed:?}"),
        }
    }

    #[test]
    fn a_filter_is_levels_and_levels_of_modules() {
        check("info", Ok("info"));
        check("WARN, flow_net=debug", Ok("WARN,flow_net=debug"));
        check("off", Ok("off"));
        check(
            "info,flow_net[request]=trace",
            Ok("info,flow_net[request]=trace"),
        );
        check("", Ok(""));
    }

    #[test]
    fn a_misspelt_level_is_an_error_that_names_it() {
        check("debgu", Err("`debgu` is not a log level; expected `error`"));
        check("info,flow_net", Err("or `MODULE=LEVEL` for one module"));
        check("flow_net=loud", Err("`flow_net=loud` is not a log filter"));
    }

    #[test]
    fn formats_and_outputs_have_names() {
        for name in LogFormat::NAMES {
            assert!(name.parse::<LogFormat>().is_ok());
        }
        let error = "xml".parse::<LogFormat>().unwrap_err().to_string();
        assert_eq!(
            error,
            "`xml` is not a log format; expected `text` or `json`"
        );
        assert_eq!("stdout".parse::<LogOutput>().unwrap(), LogOutput::Stdout);
        assert!("file".parse::<LogOutput>().is_err());
    }
}
