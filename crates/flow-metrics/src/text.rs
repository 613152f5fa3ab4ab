//! Numbers in Prometheus' text format, version 0.0.4: what stock Jina speaks, and every reader reads.

use std::fmt::{self, Write};

use crate::{Family, Handle, Labels};

/// `{a="b",c="d"}`, or nothing.
pub(crate) fn labels(labels: Labels<'_>) -> String {
    if labels.is_empty() {
        return String::new();
    }
    let pairs = labels.iter();
    let pairs = pairs.map(|(name, value)| format!("{name}=\"{}\"", escaped(value, true)));
    format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
}

pub(crate) fn all(families: &[Family]) -> String {
    let mut text = String::new();
    for family in families {
        family.write(&mut text).expect("a string takes every text");
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
        for (labels, handle) in &self.members {
            handle.write(text, name, labels)?;
        }
        Ok(())
    }
}

impl Handle {
    fn kind(&self) -> &'static str {
        match self {
            Self::Counter(_) => "counter",
            Self::Gauge(_) => "gauge",
            Self::Seconds(_) | Self::Lengths(_) => "summary",
        }
    }

    fn write(&self, text: &mut String, name: &str, labels: &str) -> fmt::Result {
        match self {
            Self::Counter(counter) => writeln!(text, "{name}{labels} {}", counter.get()),
            Self::Gauge(gauge) => writeln!(text, "{name}{labels} {}", gauge.get()),
            Self::Seconds(seconds) => {
                let (count, sum) = seconds.get();
                writeln!(text, "{name}_count{labels} {count}")?;
                writeln!(text, "{name}_sum{labels} {}", sum.as_secs_f64())
            }
            Self::Lengths(lengths) => {
                let (count, sum) = lengths.get();
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

    use crate::{Counter, Gauge, Lengths, Metrics, Seconds, Title};

    #[test]
    fn each_kind_is_written_as_prometheus_reads_it() {
        let metrics = Metrics::new();
        let title = |name| Title {
            name,
            help: "What it is.",
        };
        let (done, waiting, took, bytes) = <(Counter, Gauge, Seconds, Lengths)>::default();
        let labels: &[_] = &[("runtime_name", "a/rep-0")];
        metrics.show(title("done_total"), labels, done.clone());
        metrics.show(title("waiting"), labels, waiting.clone());
        metrics.show(title("took_seconds"), labels, took.clone());
        metrics.show(title("sent_bytes"), labels, bytes.clone());
        metrics.show(title("sent_bytes"), &[], bytes.clone());
        done.add(3);
        waiting.up();
        took.observe(Duration::from_micros(1_500));
        bytes.observe(70_000);
        assert_eq!(
            metrics.text(),
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
    fn what_would_end_a_label_or_a_line_is_escaped() {
        let metrics = Metrics::new();
        let title = Title {
            name: "x",
            help: "one\\two\nthree \"four\"",
        };
        metrics.show(title, &[("l", "a\"b\\c\nd")], Counter::default());
        let expected =
            "# HELP x one\\\\two\\nthree \"four\"\n# TYPE x counter\nx{l=\"a\\\"b\\\\c\\nd\"} 0\n";
        assert_eq!(metrics.text(), expected);
    }
}
