//! Options of the log, for every process.

use crate::forms;
use crate::keys::{options, row};
use crate::values::LogStyle;

options! {
    /// How a process logs.
    struct LogOptions, LogTable LOG {
        log_config: Option<LogStyle> = row(
            forms::LOG_CONFIG,
            "Format of the log: text (`default`, `plain`, `docker`), JSON objects (`json`), or no log (`quiet`).",
        )
            .default("as `flow up` logs")
            .example("json")
            .jina("also paths of log configurations, `profile` and `remote`");
        quiet: bool = row(forms::FLAG, "Turns the log off.")
            .default("`false`")
            .example("true");
    }
}
