//! What is logged, and how it looks. Logs go to stderr, for stdout belongs to results; in a container, where
//! nothing but a service runs, they may go there too.

use clap::Args;
use flow_executor::{Log as Format, LogTo};
use serde_json::{Map, Value};

/// Options about logging, the same for every command.
#[derive(Debug, Clone, Args)]
pub(crate) struct LogArgs {
    /// Format of log lines: text or json
    // `flow executor` has an option of this name too; clap takes the two for one, so the types must agree.
    #[arg(long, global = true, value_name = "FORMAT", help_heading = "Logging")]
    #[arg(value_enum, default_value_t = Format::Text, hide_possible_values = true)]
    log: Format,
    /// Lowest level to log: error, warn, info, debug or trace; or a filter such as `warn,flow_net=debug`
    /// [default: $FLOW_LOG, or info]
    #[arg(long, global = true, value_name = "LEVEL", help_heading = "Logging")]
    log_level: Option<String>,
}

/// What is logged, and how.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    /// How a line looks.
    pub(crate) format: Format,
    /// A filter as in `RUST_LOG`.
    pub(crate) filter: String,
    /// Where lines go.
    pub(crate) to: LogTo,
}

impl LogArgs {
    /// The option wins over the environment.
    pub(crate) fn resolve(self, variable: Option<&str>, to: LogTo) -> Log {
        let filter = self.log_level.or_else(|| variable.map(str::to_owned));
        Log {
            format: self.log,
            filter: filter.unwrap_or_else(|| "info".to_owned()),
            to,
        }
    }
}

impl Log {
    /// From here on, events of this process are written.
    pub(crate) fn start(&self, wants_colour: bool) {
        flow_executor::start_log(self.format, self.to, &self.filter, wants_colour);
    }

    /// The same for a process that may be a launcher's child: the launcher reads more than lines on stdout.
    pub(crate) fn start_service(&self, has_launcher: bool, wants_colour: bool) {
        let to = match has_launcher {
            true => LogTo::Stderr,
            false => self.to,
        };
        flow_executor::start_log(self.format, to, &self.filter, wants_colour);
    }
}

/// A line of a process as a JSON object that names the process: the line itself, if it is one.
pub(crate) fn object(process: &str, line: &str) -> Map<String, Value> {
    let own: Option<Map<String, Value>> = serde_json::from_str(line).ok();
    let mut fields = own.unwrap_or_else(|| Map::from_iter([("message".to_owned(), line.into())]));
    fields.insert("process".to_owned(), process.into());
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_option_wins_over_the_environment() {
        let args = |level: Option<&str>| LogArgs {
            log: Format::Text,
            log_level: level.map(str::to_owned),
        };
        let check = |level, variable, wanted| {
            assert_eq!(args(level).resolve(variable, LogTo::Stderr).filter, wanted);
        };
        check(Some("debug"), Some("warn"), "debug");
        check(None, Some("warn"), "warn");
        check(None, None, "info");
    }
}
