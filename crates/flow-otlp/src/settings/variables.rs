//! The variables of OpenTelemetry, each with the values that are known here.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::time::Duration;

use super::collector::Collector;

/// What is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    Traces,
    Metrics,
    Logs,
}

/// A variable of OpenTelemetry, or the collector's host, is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is `{value}`; {expected}")]
pub struct BadExportSetting {
    name: String,
    value: String,
    expected: &'static str,
}

/// The variables of OpenTelemetry.
pub(super) struct Variables<'v>(pub(super) &'v BTreeMap<String, String>);

impl Signal {
    /// Its name in variables.
    fn variable(self) -> &'static str {
        match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
            Self::Logs => "LOGS",
        }
    }
}

impl<'v> Variables<'v> {
    /// A variable; an empty one counts as not set, as the standard has it.
    pub(super) fn get(&self, name: &str) -> Option<&'v str> {
        let value = self.0.get(name).map(|value| value.trim());
        value.filter(|value| !value.is_empty())
    }

    /// A variable of the exporter, with its name: that of the signal or, without it, that of all signals.
    pub(super) fn of_exporter(&self, signal: Signal, what: &str) -> Option<(String, &'v str)> {
        let of_signal = format!("OTEL_EXPORTER_OTLP_{}_{what}", signal.variable());
        let of_all = format!("OTEL_EXPORTER_OTLP_{what}");
        let found = [of_signal, of_all].into_iter();
        found
            .filter_map(|name| self.get(&name).map(|value| (name, value)))
            .next()
    }

    /// The collector that a signal is exported to; `None` if it is not exported. The variables can ask for an export that the
    /// options do not ask for, and turn off one that they do.
    pub(super) fn collector(
        &self,
        signal: Signal,
        requested: Option<&Collector>,
    ) -> Result<Option<Collector>, BadExportSetting> {
        Ok(match self.exporter(signal)? {
            Some(false) => None,
            Some(true) => Some(requested.cloned().unwrap_or_default()),
            None => requested.cloned(),
        })
    }

    /// Whether the variables enable the export of a signal; `None` if they do not mention it.
    fn exporter(&self, signal: Signal) -> Result<Option<bool>, BadExportSetting> {
        let disabled = self.get("OTEL_SDK_DISABLED");
        if disabled.is_some_and(|it| it.eq_ignore_ascii_case("true")) {
            return Ok(Some(false));
        }
        let name = format!("OTEL_{}_EXPORTER", signal.variable());
        match self.get(&name) {
            None => Ok(None),
            Some("otlp") => Ok(Some(true)),
            Some("none") => Ok(Some(false)),
            Some(other) => Err(bad(&name, other, "expected `otlp` or `none`")),
        }
    }

    pub(super) fn milliseconds(
        &self,
        name: &str,
        default: u64,
    ) -> Result<Duration, BadExportSetting> {
        Ok(Duration::from_millis(self.parse(name)?.unwrap_or(default)))
    }

    pub(super) fn number(&self, name: &str, default: usize) -> Result<usize, BadExportSetting> {
        Ok(self.parse(name)?.unwrap_or(default))
    }

    fn parse<T: FromStr>(&self, name: &str) -> Result<Option<T>, BadExportSetting> {
        self.get(name).map(|text| parse(name, text)).transpose()
    }
}

/// A whole number.
pub(super) fn parse<T: FromStr>(name: &str, text: &str) -> Result<T, BadExportSetting> {
    let parsed = text.parse().ok();
    parsed.ok_or_else(|| bad(name, text, "expected a whole number"))
}

pub(super) fn bad(name: &str, value: &str, expected: &'static str) -> BadExportSetting {
    BadExportSetting {
        name: name.to_owned(),
        value: value.to_owned(),
        expected,
    }
}
