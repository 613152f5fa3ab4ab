//! Formats metrics as Prometheus' protobuf messages, each behind its length: the format that has native histograms.

mod messages;

use std::time::SystemTime;

use prost::Message;

use self::messages::{
    Bucket, BucketSpan, Exemplar, Histogram, LabelPair, Metric, MetricFamily, MetricType, Number,
    Summary, Timestamp,
};
use crate::family::{MetricKind, OwnedLabels, Value, Values};
use crate::histogram::{self, Observed, SCHEMA};

/// All metrics.
pub(crate) fn all(values: &[Values]) -> Vec<u8> {
    let messages = values.iter().map(MetricFamily::of);
    messages.fold(Vec::new(), |mut bytes, message| {
        bytes.append(&mut message.encode_length_delimited_to_vec());
        bytes
    })
}

impl MetricFamily {
    fn of(values: &Values) -> Self {
        let kind = match values.kind {
            MetricKind::Counter => MetricType::Counter,
            MetricKind::Gauge => MetricType::Gauge,
            MetricKind::Summary => MetricType::Summary,
            MetricKind::Histogram => MetricType::Histogram,
        };
        let samples = values.samples.iter();
        Self {
            name: values.name.to_string(),
            help: values.help.to_string(),
            kind: Some(kind.into()),
            metric: samples
                .map(|(labels, value)| Metric::of(labels, value, kind))
                .collect(),
        }
    }
}

impl Metric {
    fn of(labels: &OwnedLabels, value: &Value, kind: MetricType) -> Self {
        let labels = labels.iter();
        let metric = Self {
            label: labels.map(|(name, value)| label(name, value)).collect(),
            ..Self::default()
        };
        match value {
            Value::Number(value) => {
                let number = Some(Number {
                    value: Some(*value),
                });
                match kind {
                    MetricType::Counter => Self {
                        counter: number,
                        ..metric
                    },
                    _ => Self {
                        gauge: number,
                        ..metric
                    },
                }
            }
            Value::Summary { count, sum } => Self {
                summary: Some(Summary {
                    sample_count: Some(*count),
                    sample_sum: Some(*sum),
                }),
                ..metric
            },
            Value::Histogram(observed) => Self {
                histogram: Some(Histogram::of(observed)),
                ..metric
            },
        }
    }
}

impl Histogram {
    fn of(observed: &Observed) -> Self {
        let (zero_threshold, zero_count) = observed.zero();
        let native = observed.native();
        Self {
            sample_count: Some(observed.count),
            sample_sum: Some(observed.sum),
            bucket: observed.classic().map(bucket).collect(),
            schema: Some(SCHEMA),
            zero_threshold: Some(zero_threshold),
            zero_count: Some(zero_count),
            positive_span: spans(&native),
            positive_delta: deltas(&native),
        }
    }
}

fn bucket((le, count, exemplar): (f64, u64, Option<(histogram::Exemplar, f64)>)) -> Bucket {
    Bucket {
        cumulative_count: Some(count),
        upper_bound: Some(le),
        exemplar: exemplar.map(|(exemplar, value)| Exemplar {
            label: vec![label("trace_id", &exemplar.trace_id())],
            value: Some(value),
            timestamp: Some(timestamp(exemplar.at)),
        }),
    }
}

/// The rows of native buckets that are not empty.
fn spans(buckets: &[(i32, u64)]) -> Vec<BucketSpan> {
    let mut spans: Vec<BucketSpan> = Vec::new();
    let mut next = 0;
    for (index, _) in buckets {
        let gap = index - next;
        next = index + 1;
        match spans.last_mut().and_then(|span| span.length.as_mut()) {
            Some(length) if gap == 0 => *length += 1,
            _ => spans.push(BucketSpan {
                offset: Some(gap),
                length: Some(1),
            }),
        }
    }
    spans
}

/// The difference between the count of each bucket and that before it.
fn deltas(buckets: &[(i32, u64)]) -> Vec<i64> {
    let mut before = 0;
    let counts = buckets.iter();
    let counts = counts.map(|(_, count)| i64::try_from(*count).unwrap_or(i64::MAX));
    counts
        .map(|count| count - std::mem::replace(&mut before, count))
        .collect()
}

fn timestamp(at: SystemTime) -> Timestamp {
    let since = at
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        nanos: i32::try_from(since.subsec_nanos()).unwrap_or(0),
    }
}

fn label(name: &str, value: &str) -> LabelPair {
    LabelPair {
        name: name.to_owned(),
        value: value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::{
        Counter, Description, DurationHistogram, DurationSummary, ExpositionFormat, Gauge,
        Registry, SizeHistogram,
    };

    fn decoded(registry: &Registry) -> Vec<MetricFamily> {
        let bytes = registry.expose(ExpositionFormat::Protobuf);
        let mut rest = bytes.as_slice();
        let mut families = Vec::new();
        while !rest.is_empty() {
            families.push(MetricFamily::decode_length_delimited(&mut rest).unwrap());
        }
        families
    }

    fn described(name: &str) -> Description<'_> {
        Description { name, help: "h" }
    }

    #[test]
    fn each_kind_has_its_message() {
        let registry = Registry::new();
        let (counter, gauge) = <(Counter, Gauge)>::default();
        let durations = DurationSummary::default();
        counter.add(3);
        gauge.decrement();
        durations.observe(Duration::from_millis(1500));
        registry.register(described("a_total"), &[("l", "v")], counter);
        registry.register(described("b"), &[], gauge);
        registry.register(described("c_seconds"), &[], durations);
        let families = decoded(&registry);
        let [a, b, c] = families.as_slice() else {
            panic!("{families:?}")
        };
        assert_eq!(
            (a.name.as_str(), a.kind()),
            ("a_total", MetricType::Counter)
        );
        assert_eq!(a.metric[0].label, [label("l", "v")]);
        let number = |value: f64| Some(Number { value: Some(value) });
        assert_eq!(a.metric[0].counter, number(3.0));
        assert_eq!(b.metric[0].gauge, number(-1.0));
        let summary = c.metric[0].summary.clone().unwrap();
        assert_eq!(
            (summary.sample_count, summary.sample_sum),
            (Some(1), Some(1.5))
        );
    }

    #[test]
    fn a_native_histogram_has_spans_and_deltas() {
        let registry = Registry::new();
        let sizes = SizeHistogram::default();
        registry.register(described("sizes"), &[], sizes.clone());
        // Of the buckets 0, 8 and 24, and that of zero.
        for size in [0, 1, 1, 2, 8, 8, 8] {
            sizes.observe(size);
        }
        let families = decoded(&registry);
        let histogram = families[0].metric[0].histogram.clone().unwrap();
        assert_eq!(histogram.schema, Some(3));
        assert_eq!(histogram.zero_count, Some(1));
        let span = |offset, length| BucketSpan {
            offset: Some(offset),
            length: Some(length),
        };
        assert_eq!(
            histogram.positive_span,
            [span(0, 1), span(7, 1), span(15, 1)]
        );
        assert_eq!(histogram.positive_delta, [2, -1, 2]);
        assert_eq!(histogram.bucket.len(), 14);
        let last = histogram.bucket.last().unwrap();
        assert_eq!(last.upper_bound, Some(f64::INFINITY));
        assert_eq!(
            (last.cumulative_count, histogram.sample_count),
            (Some(7), Some(7))
        );
    }

    #[test]
    fn an_exemplar_has_its_trace_and_its_time() {
        let registry = Registry::new();
        let took = DurationHistogram::default();
        registry.register(described("took_seconds"), &[], took.clone());
        took.observe_traced(Duration::from_millis(3), Some([1; 16]));
        let families = decoded(&registry);
        let buckets = families[0].metric[0].histogram.clone().unwrap().bucket;
        let exemplars: Vec<_> = buckets.into_iter().filter_map(|it| it.exemplar).collect();
        let [exemplar] = exemplars.as_slice() else {
            panic!("{exemplars:?}")
        };
        assert_eq!(exemplar.label, [label("trace_id", &"01".repeat(16))]);
        assert_eq!(exemplar.value, Some(0.003));
        assert!(exemplar.timestamp.unwrap().seconds > 1_700_000_000);
    }

    proptest! {
        #[test]
        fn spans_and_deltas_give_the_buckets_back(
            buckets in proptest::collection::btree_map(-200_i32..200, 1_u64..1_000, 0..50)
        ) {
            let buckets: Vec<(i32, u64)> = buckets.into_iter().collect();
            let mut deltas = deltas(&buckets).into_iter();
            let (mut index, mut count) = (0, 0);
            let mut found = Vec::new();
            for span in spans(&buckets) {
                index += span.offset.unwrap();
                for _ in 0..span.length.unwrap() {
                    count += deltas.next().unwrap();
                    found.push((index, u64::try_from(count).unwrap()));
                    index += 1;
                }
            }
            prop_assert_eq!(found, buckets);
        }
    }
}
