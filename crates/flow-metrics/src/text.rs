//! Formats metrics as text: in Prometheus' format 0.0.4, which stock Jina uses and every reader knows, and in OpenMetrics.
//!
//! OpenMetrics has exemplars, writes bounds as floats, names a counter without its `_total` where it is described, and says
//! where the text ends.

use std::fmt::{self, Write};

use crate::family::{MetricKind, OwnedLabels, Value, Values};
use crate::histogram::{Exemplar, Observed};

/// The end of the name of every counter.
const TOTAL: &str = "_total";

/// All metrics, in Prometheus' text format.
pub(crate) fn all(values: &[Values]) -> String {
    written(values, Dialect::Prometheus)
}

/// All metrics, in OpenMetrics.
pub(crate) fn open_metrics(values: &[Values]) -> String {
    written(values, Dialect::OpenMetrics) + "# EOF\n"
}

fn written(values: &[Values], dialect: Dialect) -> String {
    let mut text = String::new();
    for family in values {
        dialect
            .write(&mut text, family)
            .expect("writing to a string cannot fail");
    }
    text
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    Prometheus,
    OpenMetrics,
}

impl Dialect {
    fn write(self, text: &mut String, family: &Values) -> fmt::Result {
        let (full, kind) = (&*family.name, family.kind);
        let (name, is_quoted) = match self {
            Self::OpenMetrics if kind == MetricKind::Counter => {
                (full.strip_suffix(TOTAL).unwrap_or(full), true)
            }
            Self::OpenMetrics => (full, true),
            Self::Prometheus => (full, false),
        };
        writeln!(text, "# HELP {name} {}", escaped(&family.help, is_quoted))?;
        writeln!(text, "# TYPE {name} {}", kind.name())?;
        for (labels, value) in &family.samples {
            match value {
                Value::Number(number) => {
                    writeln!(text, "{full}{} {number}", formatted(labels, None))?;
                }
                Value::Summary { count, sum } => {
                    let labels = formatted(labels, None);
                    writeln!(text, "{full}_count{labels} {count}")?;
                    writeln!(text, "{full}_sum{labels} {sum}")?;
                }
                Value::Histogram(observed) => self.histogram(text, (full, labels), observed)?,
            }
        }
        Ok(())
    }

    fn histogram(
        self,
        text: &mut String,
        (name, labels): (&str, &OwnedLabels),
        observed: &Observed,
    ) -> fmt::Result {
        for (le, count, exemplar) in observed.classic() {
            let labels = formatted(labels, Some(&self.bound(le)));
            write!(text, "{name}_bucket{labels} {count}")?;
            if let (Self::OpenMetrics, Some((exemplar, value))) = (self, exemplar) {
                write_exemplar(text, exemplar, value)?;
            }
            text.push('\n');
        }
        let labels = formatted(labels, None);
        writeln!(text, "{name}_count{labels} {}", observed.count)?;
        writeln!(text, "{name}_sum{labels} {}", observed.sum)
    }

    fn bound(self, le: f64) -> String {
        match self {
            _ if le.is_infinite() => "+Inf".to_owned(),
            Self::Prometheus => le.to_string(),
            Self::OpenMetrics => format!("{le:?}"),
        }
    }
}

fn write_exemplar(text: &mut String, exemplar: Exemplar, value: f64) -> fmt::Result {
    let (trace, at) = (exemplar.trace_id(), exemplar.unix_seconds());
    write!(text, " # {{trace_id=\"{trace}\"}} {value} {at:.3}")
}

/// `{a="b",c="d"}`, or an empty text if there are no labels. `le` comes last.
fn formatted(labels: &OwnedLabels, le: Option<&str>) -> String {
    let mut text = String::new();
    let own = labels.iter().map(|(name, value)| (&**name, &**value));
    for (name, value) in own.chain(le.map(|le| ("le", le))) {
        text.push(if text.is_empty() { '{' } else { ',' });
        text.push_str(name);
        text.push_str("=\"");
        text.push_str(&escaped(value, true));
        text.push('"');
    }
    if !text.is_empty() {
        text.push('}');
    }
    text
}

fn escaped(text: &str, is_quoted: bool) -> String {
    let text = text.replace('\\', r"\\").replace('\n', r"\n");
    match is_quoted {
        true => text.replace('"', "\\\""),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{
        Counter, Description, DurationHistogram, DurationSummary, ExpositionFormat, Gauge,
        Registry, SizeSummary,
    };

    fn described(name: &str) -> Description<'_> {
        Description {
            name,
            help: "What it is.",
        }
    }

    #[test]
    fn each_kind_is_formatted_as_prometheus_reads_it() {
        let registry = Registry::new();
        let (done, waiting, took, bytes) =
            <(Counter, Gauge, DurationSummary, SizeSummary)>::default();
        let labels: &[_] = &[("runtime_name", "a/rep-0")];
        registry.register(described("done_total"), labels, done.clone());
        registry.register(described("waiting"), labels, waiting.clone());
        registry.register(described("took_seconds"), labels, took.clone());
        registry.register(described("sent_bytes"), labels, bytes.clone());
        registry.register(described("sent_bytes"), &[], bytes.clone());
        done.add(3);
        waiting.increment();
        took.observe(Duration::from_micros(1_500));
        bytes.observe(70_000);
        assert_eq!(
            registry.text(),
            r#"# HELP done_total What it is.
# TYPE done_total counter
done_total{runtime_name="a/rep-0"} 3
# HELP waiting What it is.
# TYPE waiting gauge
waiting{runtime_name="a/rep-0"} 1
# HELP took_seconds What it is.
# TYPE took_seconds summary
took_seconds_count{runtime_name="a/rep-0"} 1
took_seconds_sum{runtime_name="a/rep-0"} 0.0015
# HELP sent_bytes What it is.
# TYPE sent_bytes summary
sent_bytes_count{runtime_name="a/rep-0"} 1
sent_bytes_sum{runtime_name="a/rep-0"} 70000
sent_bytes_count 1
sent_bytes_sum 70000
"#
        );
    }

    #[test]
    fn labels_and_help_texts_are_escaped() {
        let registry = Registry::new();
        let title = Description {
            name: "x",
            help: "one\\two\nthree \"four\"",
        };
        registry.register(title, &[("l", "a\"b\\c\nd")], Counter::default());
        let expected =
            "# HELP x one\\\\two\\nthree \"four\"\n# TYPE x counter\nx{l=\"a\\\"b\\\\c\\nd\"} 0\n";
        assert_eq!(registry.text(), expected);
    }

    #[test]
    fn a_histogram_has_its_classic_buckets() {
        let registry = Registry::new();
        let took = DurationHistogram::default();
        registry.register(described("took_seconds"), &[("a", "b")], took.clone());
        took.observe(Duration::from_micros(300));
        took.observe(Duration::from_secs(100));
        let text = registry.text();
        let expected = "# TYPE took_seconds histogram\n\
                        took_seconds_bucket{a=\"b\",le=\"0.0001\"} 0\n\
                        took_seconds_bucket{a=\"b\",le=\"0.00025\"} 0\n\
                        took_seconds_bucket{a=\"b\",le=\"0.0005\"} 1\n";
        assert!(text.contains(expected), "{text}");
        let expected = "took_seconds_bucket{a=\"b\",le=\"60\"} 1\n\
                        took_seconds_bucket{a=\"b\",le=\"+Inf\"} 2\n\
                        took_seconds_count{a=\"b\"} 2\n\
                        took_seconds_sum{a=\"b\"} 100.0003\n";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn open_metrics_has_exemplars_floats_and_an_end() {
        let registry = Registry::new();
        let took = DurationHistogram::default();
        registry.register(described("done_total"), &[], Counter::default());
        registry.register(described("took_seconds"), &[], took.clone());
        took.observe_traced(Duration::from_millis(700), Some([0xab; 16]));
        let text = String::from_utf8(registry.expose(ExpositionFormat::OpenMetrics)).unwrap();
        let expected = "# HELP done What it is.\n# TYPE done counter\ndone_total 0\n";
        assert!(text.starts_with(expected), "{text}");
        let trace = "ab".repeat(16);
        let expected =
            format!("took_seconds_bucket{{le=\"1.0\"}} 1 # {{trace_id=\"{trace}\"}} 0.7 ");
        assert!(text.contains(&expected), "{text}");
        assert!(text.ends_with("took_seconds_sum 0.7\n# EOF\n"), "{text}");
        assert!(!registry.text().contains("trace_id"));
    }
}
