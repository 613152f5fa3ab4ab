//! Formats metrics in Prometheus' text format, version 0.0.4, which stock Jina uses and every reader knows.

use std::fmt::{self, Write};

use crate::family::{Family, Labels, Metric};

/// `{a="b",c="d"}`, or an empty text if there are no labels.
pub(crate) fn labels(labels: Labels<'_>) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs = labels.iter();
    let pairs = pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

/// All metrics.
pub(crate) fn all(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        family
            .write(&mut text)
            .expect("writing to a string cannot fail");
    }
    text
}

impl Family {
    fn write(&self, text: &mut String) -> fmt::Result {
        let Some((_, first)) = self.members.first() else {
            return Ok(());
        };
        let name = &self.name;
        writeln!(text, "# HELP {name} {}", escaped(&self.help, false))?;
        writeln!(text, "# TYPE {name} {}", first.kind())?;
        for (labels, metric) in &self.members {
            metric.write(text, name, labels)?;
        }
        Ok(())
    }
}

impl Metric {
    fn kind(&self) -> &'static str {
        match self {
            Self::Counter(_) => "counter",
            Self::Gauge(_) => "gauge",
            Self::Durations(_) | Self::Sizes(_) => "summary",
        }
    }

    fn write(&self, text: &mut String, name: &str, labels: &str) -> fmt::Result {
        match self {
            Self::Counter(counter) => writeln!(text, "{name}{labels} {}", counter.get()),
            Self::Gauge(gauge) => writeln!(text, "{name}{labels} {}", gauge.get()),
            Self::Durations(durations) => {
                let (count, sum) = durations.get();
                writeln!(text, "{name}_count{labels} {count}")?;
                writeln!(text, "{name}_sum{labels} {}", sum.as_secs_f64())
            }
            Self::Sizes(sizes) => {
                let (count, sum) = sizes.get();
                writeln!(text, "{name}_count{labels} {count}")?;
                writeln!(text, "{name}_sum{labels} {sum}")
            }
        }
    }
}

fn escaped(text: &str, is_value: bool) -> String {
    let text = text.replace('\\', r"\\").replace('\n', r"\n");
    match is_value {
        true => text.replace('"', "\\\""),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use crate::{Counter, Description, DurationSummary, Gauge, Registry, SizeSummary};

    #[test]
    fn each_kind_is_formatted_as_prometheus_reads_it() {
        let registry = Registry::new();
        let described = |name| Description {
            name,
            help: "What it is.",
        };
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
}
