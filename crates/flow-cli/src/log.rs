//! The configuration of the log. Logs go to stderr, because stdout is for results; in a container they may go to stdout.

use anyhow::Context;
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use flow_process::{LogFilter, LogFormat, LogOutput, LogSettings};

use crate::exit::BadUsage;

/// Options for logging, which every command has.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogArgs {
    /// Format of log lines: text or json
    // `flow executor` has an option of this name too. clap treats both as one, so that the types must be equal.
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Logging")]
    #[arg(value_parser = log_formats(), default_value = "text", hide_possible_values = true)]
    log: LogFormat,
    /// Lowest level to log: error, warn, info, debug or trace; or a filter such as `warn,flow_net=debug`
    /// [default: $FLOW_LOG, or info]
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Logging")]
    log_level: Option<String>,
}

/// The configuration of the log.
#[derive(Debug, Clone)]
pub(crate) struct LogConfig {
    /// The format of lines.
    pub(crate) format: LogFormat,
    /// Which events are logged.
    pub(crate) filter: LogFilter,
    /// The output.
    pub(crate) to: LogOutput,
}

/// Parses the name of a log format.
pub(crate) fn log_formats() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LogFormat::NAMES).try_map(|name| name.parse::<LogFormat>())
}

impl LogArgs {
    /// The configuration of the option or of the variable `FLOW_LOG`. The option wins.
    pub(crate) fn resolve(
        self,
        variable: Option<&str>,
        to: LogOutput,
    ) -> anyhow::Result<LogConfig> {
        let option = self
            .log_level
            .as_deref()
            .map(|text| ("option `--log-level`", text));
        let variable = variable.map(|text| ("variable `FLOW_LOG`", text));
        let filter = match option.or(variable).filter(|(_, text)| !text.is_empty()) {
            Some((origin, text)) => text
                .parse()
                .with_context(|| BadUsage(format!("the {origin} is invalid")))?,
            None => LogFilter::default(),
        };
        Ok(LogConfig {
            format: self.log,
            filter,
            to,
        })
    }
}

impl LogConfig {
    /// Starts the log of this process.
    pub(crate) fn start(&self, wants_colour: bool) {
        self.settings(self.to, wants_colour).start();
    }

    /// Starts the log of this process, which goes to `writer`.
    pub(crate) fn start_with<W: std::io::Write + 'static>(
        &self,
        wants_colour: bool,
        writer: impl Fn() -> W + Send + Sync + 'static,
    ) {
        self.settings(self.to, wants_colour).start_with(writer);
    }

    /// Starts the log of a process that may have a launcher, which reads events on stdout. The lines of a target may be
    /// buffered.
    pub(crate) fn start_service(
        &self,
        has_launcher: bool,
        wants_colour: bool,
        buffered_target: Option<&'static str>,
    ) {
        let to = match has_launcher {
            true => LogOutput::Stderr,
            false => self.to,
        };
        let settings = LogSettings {
            buffered_target,
            ..self.settings(to, wants_colour)
        };
        settings.start();
    }

    fn settings(&self, output: LogOutput, color: bool) -> LogSettings {
        LogSettings {
            format: self.format,
            filter: self.filter.clone(),
            output,
            color,
            buffered_target: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_wins_over_the_environment() {
        let args = |level: Option<&str>| LogArgs {
            log: LogFormat::Text,
            log_level: level.map(str::to_owned),
        };
        let check = |level, variable, wanted| {
            let log = args(level).resolve(variable, LogOutput::Stderr).unwrap();
            assert_eq!(log.filter.as_str(), wanted);
        };
        check(Some("debug"), Some("warn"), "debug");
        check(None, Some("warn"), "warn");
        let default = LogFilter::default();
        check(None, None, default.as_str());
        check(None, Some(""), default.as_str());
    }

    #[test]
    fn a_filter_that_is_wrong_is_reported_with_its_origin() {
        let check = |level: Option<&str>, variable, expected: &str| {
            let args = LogArgs {
                log: LogFormat::Text,
                log_level: level.map(str::to_owned),
            };
            let error = args.resolve(variable, LogOutput::Stderr).unwrap_err();
            let error = format!("{error:#}");
            assert!(error.starts_with(expected), "{error}");
        };
        let rest = "is invalid: `debgu` is not a log level; expected `error`";
        check(
            Some("debgu"),
            None,
            &format!("the option `--log-level` {rest}"),
        );
        check(
            None,
            Some("debgu"),
            &format!("the variable `FLOW_LOG` {rest}"),
        );
    }
}
