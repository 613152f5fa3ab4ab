//! The formats in which metrics are shown, and which of them a reader wants.

/// A format of metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpositionFormat {
    /// Prometheus' text format 0.0.4, which every reader knows.
    Text,
    /// The text format of OpenMetrics, which has exemplars.
    OpenMetrics,
    /// Prometheus' messages, each behind its length. Only these have native histograms.
    Protobuf,
}

/// The message of [`ExpositionFormat::Protobuf`].
const MESSAGE: &str = "io.prometheus.client.MetricFamily";

impl ExpositionFormat {
    /// The format that a reader wants most, by its `accept` header. One that knows none of them gets text.
    #[must_use]
    pub fn wanted(accept: &str) -> Self {
        let ranges = accept.split(',').filter_map(wanted);
        let best = ranges.reduce(|best, next| if next.1 > best.1 { next } else { best });
        best.map_or(Self::Text, |(format, _)| format)
    }

    /// The value of `content-type`.
    #[must_use]
    pub fn content_type(self) -> &'static str {
        match self {
            Self::Text => "text/plain; version=0.0.4; charset=utf-8",
            Self::OpenMetrics => "application/openmetrics-text; version=1.0.0; charset=utf-8",
            Self::Protobuf => {
                "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
            }
        }
    }
}

/// The format of a media range, and how much it is wanted; `None` if it is none of ours, or not wanted at all.
fn wanted(range: &str) -> Option<(ExpositionFormat, f32)> {
    let mut parts = range.split(';').map(str::trim);
    let kind = parts.next()?;
    let parameters: Vec<(&str, &str)> = parts.filter_map(|it| it.split_once('=')).collect();
    let get = |name: &str| {
        let found = parameters
            .iter()
            .find(|(it, _)| it.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.trim_matches('"'))
    };
    let format = match kind.to_ascii_lowercase().as_str() {
        "application/vnd.google.protobuf" => {
            let is_ours = get("proto") == Some(MESSAGE) && get("encoding") == Some("delimited");
            is_ours.then_some(ExpositionFormat::Protobuf)?
        }
        "application/openmetrics-text" => {
            let is_known = matches!(get("version"), None | Some("0.0.1" | "1.0.0"));
            is_known.then_some(ExpositionFormat::OpenMetrics)?
        }
        "text/plain" | "text/*" | "*/*" => ExpositionFormat::Text,
        _ => return None,
    };
    let weight = get("q").map_or(Some(1.0), |it| it.parse().ok())?;
    (weight > 0.0).then_some((format, weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_gets_its_preferred_format() {
        let check = |accept: &str, expected: ExpositionFormat| {
            assert_eq!(ExpositionFormat::wanted(accept), expected, "{accept}");
        };
        let native = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited;q=0.6,\
                      application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,text/plain;version=0.0.4;q=0.3,\
                      */*;q=0.2";
        check(native, ExpositionFormat::Protobuf);
        let usual = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,\
                     application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,*/*;q=0.2";
        check(usual, ExpositionFormat::OpenMetrics);
        let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
        check(browser, ExpositionFormat::Text);
        check("", ExpositionFormat::Text);
        check("*/*", ExpositionFormat::Text);
        check("image/png", ExpositionFormat::Text);
        check("text/plain;version=0.0.4", ExpositionFormat::Text);
        check(
            "application/openmetrics-text; version=2.0.0",
            ExpositionFormat::Text,
        );
        check("application/openmetrics-text;q=0", ExpositionFormat::Text);
        check("application/vnd.google.protobuf", ExpositionFormat::Text);
        check(
            "APPLICATION/OpenMetrics-Text; Version=\"1.0.0\"",
            ExpositionFormat::OpenMetrics,
        );
    }
}
