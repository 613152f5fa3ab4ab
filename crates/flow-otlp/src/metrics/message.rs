//! Converts the values of metrics to messages of OTLP.
//!
//! - A counter is a cumulative sum. Its name is without `_total`, as in Jina: a collector that exports to Prometheus adds it.
//! - A summary without quantiles is a histogram without buckets: OTLP's own summaries are only for data that others left.
//! - A histogram is an exponential one, or has the bounds of Prometheus' classic buckets.
//!
//! The exponential buckets are exactly those of Prometheus' native histograms, with another number: bucket `i` of Prometheus
//! has the values above `base^(i-1)`, up to `base^i`, and OTLP's bucket `i` those above `base^i`, up to `base^(i+1)`.

use std::time::SystemTime;

use flow_metrics::{Exemplar, MetricKind, Observed, OwnedLabels, SCHEMA, Value, Values};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::metrics::v1::exponential_histogram_data_point::Buckets;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point::Value as Number;
use opentelemetry_proto::tonic::metrics::v1::{
    AggregationTemporality, Exemplar as ExemplarMessage, ExponentialHistogram,
    ExponentialHistogramDataPoint, Gauge, Histogram, HistogramDataPoint, Metric, NumberDataPoint,
    Sum, exemplar,
};

use crate::settings::Histograms;
use crate::values::{nanoseconds, text};

const CUMULATIVE: i32 = AggregationTemporality::Cumulative as i32;

/// When the metrics began to count, and when they were read, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    start: u64,
    now: u64,
}

impl Times {
    pub(super) fn new(start: SystemTime, now: SystemTime) -> Self {
        Self {
            start: nanoseconds(start),
            now: nanoseconds(now),
        }
    }
}

/// All metrics of one name.
pub(super) fn metric(values: &Values, times: Times, histograms: Histograms) -> Metric {
    let name = match values.kind {
        MetricKind::Counter => values.name.strip_suffix("_total"),
        MetricKind::Gauge | MetricKind::Summary | MetricKind::Histogram => None,
    };
    let name = name.unwrap_or(&values.name);
    Metric {
        name: name.to_owned(),
        description: values.help.to_string(),
        unit: unit(name).to_owned(),
        data: Some(data(values, times, histograms)),
        ..Default::default()
    }
}

/// The unit, as the standard writes it, of a metric whose name says it as Prometheus has it.
fn unit(name: &str) -> &'static str {
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "",
    }
}

fn data(values: &Values, times: Times, histograms: Histograms) -> Data {
    let samples = values.samples.iter();
    let numbers = samples.clone().filter_map(|(labels, value)| match value {
        Value::Number(value) => Some(number(labels, *value, times)),
        Value::Summary { .. } | Value::Histogram(_) => None,
    });
    match (values.kind, histograms) {
        (MetricKind::Counter, _) => Data::Sum(Sum {
            data_points: numbers.collect(),
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        (MetricKind::Gauge, _) => Data::Gauge(Gauge {
            data_points: numbers.collect(),
        }),
        (MetricKind::Histogram, Histograms::Exponential) => {
            Data::ExponentialHistogram(ExponentialHistogram {
                data_points: samples
                    .filter_map(|(labels, value)| match value {
                        Value::Histogram(observed) => Some(exponential(labels, observed, times)),
                        Value::Number(_) | Value::Summary { .. } => None,
                    })
                    .collect(),
                aggregation_temporality: CUMULATIVE,
            })
        }
        (MetricKind::Summary, _) | (MetricKind::Histogram, Histograms::Explicit) => {
            Data::Histogram(Histogram {
                data_points: samples
                    .filter_map(|(labels, value)| explicit(labels, value, times))
                    .collect(),
                aggregation_temporality: CUMULATIVE,
            })
        }
    }
}

fn number(labels: &OwnedLabels, value: f64, times: Times) -> NumberDataPoint {
    NumberDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        value: Some(Number::AsDouble(value)),
        ..Default::default()
    }
}

/// A summary, or the classic buckets of a histogram.
fn explicit(labels: &OwnedLabels, value: &Value, times: Times) -> Option<HistogramDataPoint> {
    let point = HistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        ..Default::default()
    };
    match value {
        Value::Number(_) => None,
        Value::Summary { count, sum } => Some(HistogramDataPoint {
            count: *count,
            sum: Some(*sum),
            ..point
        }),
        Value::Histogram(observed) => {
            let bounds = observed.classic().map(|(le, ..)| le);
            let mut before = 0;
            let counts = observed.classic();
            let counts =
                counts.map(|(_, within, _)| within - std::mem::replace(&mut before, within));
            Some(HistogramDataPoint {
                count: observed.count,
                sum: Some(observed.sum),
                bucket_counts: counts.collect(),
                explicit_bounds: bounds.filter(|le| le.is_finite()).collect(),
                exemplars: exemplars(observed),
                ..point
            })
        }
    }
}

fn exponential(
    labels: &OwnedLabels,
    observed: &Observed,
    times: Times,
) -> ExponentialHistogramDataPoint {
    let (zero_threshold, zero_count) = observed.zero();
    ExponentialHistogramDataPoint {
        attributes: attributes(labels),
        start_time_unix_nano: times.start,
        time_unix_nano: times.now,
        count: observed.count,
        sum: Some(observed.sum),
        scale: SCHEMA,
        zero_count,
        zero_threshold,
        positive: Some(buckets(&observed.native())),
        exemplars: exemplars(observed),
        ..Default::default()
    }
}

/// OTLP's buckets, of which the first and the last are not empty.
fn buckets(native: &[(i32, u64)]) -> Buckets {
    let (Some((first, _)), Some((last, _))) = (native.first(), native.last()) else {
        return Buckets::default();
    };
    let place = |index: i32| usize::try_from(index - first).unwrap_or(0);
    let mut bucket_counts = vec![0; place(*last) + 1];
    for (index, count) in native {
        bucket_counts[place(*index)] = *count;
    }
    Buckets {
        offset: first - 1,
        bucket_counts,
    }
}

fn exemplars(observed: &Observed) -> Vec<ExemplarMessage> {
    let all = observed.classic().filter_map(|(.., exemplar)| exemplar);
    all.map(|(exemplar, value): (Exemplar, f64)| ExemplarMessage {
        time_unix_nano: nanoseconds(exemplar.at),
        trace_id: exemplar.trace.to_vec(),
        value: Some(exemplar::Value::AsDouble(value)),
        ..Default::default()
    })
    .collect()
}

fn attributes(labels: &OwnedLabels) -> Vec<KeyValue> {
    let labels = labels.iter();
    labels
        .map(|(name, value)| text(name, value.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use flow_metrics::{
        Counter, Description, DurationHistogram, DurationSummary, Registry, SizeHistogram,
    };
    use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;

    use super::*;

    fn described(name: &str) -> Description<'_> {
        Description { name, help: "h" }
    }

    /// The metrics of a registry, as they are exported.
    fn exported(registry: &Registry, histograms: Histograms) -> Vec<Metric> {
        let times = Times { start: 1, now: 2 };
        let values = registry.values();
        let values = values.iter();
        values.map(|it| metric(it, times, histograms)).collect()
    }

    fn only<T: Clone>(points: &[T]) -> T {
        let [point] = points else {
            panic!("not one point")
        };
        point.clone()
    }

    #[test]
    fn a_counter_is_a_sum_and_a_gauge_is_a_gauge() {
        let registry = Registry::new();
        let counter = Counter::default();
        counter.add(3);
        registry.register(described("a_total"), &[("l", "v")], counter);
        registry.collect(|values| values.gauge(described("b_bytes"), &[], -0.5));
        let all = exported(&registry, Histograms::Exponential);
        let [a, b] = all.as_slice() else {
            panic!("{all:?}")
        };
        assert_eq!((a.name.as_str(), a.unit.as_str()), ("a", ""));
        assert_eq!((b.name.as_str(), b.unit.as_str()), ("b_bytes", "By"));
        let (Some(Data::Sum(a)), Some(Data::Gauge(b))) = (&a.data, &b.data) else {
            panic!("{all:?}")
        };
        assert!(a.is_monotonic);
        assert_eq!(a.aggregation_temporality, CUMULATIVE);
        let point = only(&a.data_points);
        assert_eq!(point.value, Some(Number::AsDouble(3.0)));
        assert_eq!((point.start_time_unix_nano, point.time_unix_nano), (1, 2));
        let label = only(&point.attributes);
        let value = label.value.unwrap().value.unwrap();
        assert_eq!(
            (label.key.as_str(), value),
            ("l", Any::StringValue("v".to_owned()))
        );
        let value = only(&b.data_points).value;
        assert_eq!(value, Some(Number::AsDouble(-0.5)));
    }

    #[test]
    fn a_summary_is_a_histogram_without_buckets() {
        let registry = Registry::new();
        let took = DurationSummary::default();
        took.observe(Duration::from_millis(1500));
        registry.register(described("took_seconds"), &[], took);
        let all = exported(&registry, Histograms::Exponential);
        assert_eq!(all[0].unit, "s");
        let Some(Data::Histogram(histogram)) = &all[0].data else {
            panic!("{all:?}")
        };
        let point = only(&histogram.data_points);
        assert_eq!((point.count, point.sum), (1, Some(1.5)));
        assert!(point.bucket_counts.is_empty() && point.explicit_bounds.is_empty());
    }

    /// The bucket of OTLP that a value belongs to, as OTLP defines it: above `base^i`, up to `base^(i+1)`.
    fn bucket_of(value: f64) -> i32 {
        let exact = value.log2() * f64::from(1 << SCHEMA);
        exact.ceil() as i32 - 1
    }

    fn exponential_of(registry: &Registry) -> ExponentialHistogramDataPoint {
        let all = exported(registry, Histograms::Exponential);
        let Some(Data::ExponentialHistogram(histogram)) = &all[0].data else {
            panic!("{all:?}")
        };
        only(&histogram.data_points)
    }

    #[test]
    fn a_native_histogram_is_the_same_exponential_one() {
        let registry = Registry::new();
        let sizes = SizeHistogram::default();
        registry.register(described("sizes"), &[], sizes.clone());
        for size in [0, 1, 1, 2, 8, 8, 8] {
            sizes.observe(size);
        }
        let point = exponential_of(&registry);
        assert_eq!((point.scale, point.count, point.sum), (3, 7, Some(28.0)));
        assert_eq!(point.zero_count, 1);
        let positive = point.positive.unwrap();
        // 1 is the last value of the bucket that ends at 1, which begins above 2^(-1/8).
        assert_eq!((positive.offset, bucket_of(1.0)), (-1, -1));
        let found: Vec<(i32, u64)> = (positive.offset..)
            .zip(positive.bucket_counts)
            .filter(|(_, count)| *count > 0)
            .collect();
        let expected = [
            (bucket_of(1.0), 2),
            (bucket_of(2.0), 1),
            (bucket_of(8.0), 3),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn durations_are_in_the_buckets_that_otlp_defines() {
        for micros in [2, 3, 10, 999, 1_000, 1_001, 123_456, 60_000_000] {
            let registry = Registry::new();
            let took = DurationHistogram::default();
            registry.register(described("took_seconds"), &[], took.clone());
            let value = Duration::from_micros(micros);
            took.observe(value);
            let positive = exponential_of(&registry).positive.unwrap();
            let found = (positive.offset, positive.bucket_counts);
            assert_eq!(
                found,
                (bucket_of(value.as_secs_f64()), vec![1]),
                "{value:?}"
            );
        }
    }

    #[test]
    fn classic_buckets_have_the_values_of_each_alone() {
        let registry = Registry::new();
        let sizes = SizeHistogram::default();
        registry.register(described("sizes"), &[], sizes.clone());
        for size in [1, 2, 2, 3, 9_999] {
            sizes.observe(size);
        }
        let all = exported(&registry, Histograms::Explicit);
        let Some(Data::Histogram(histogram)) = &all[0].data else {
            panic!("{all:?}")
        };
        let point = only(&histogram.data_points);
        assert_eq!(point.explicit_bounds[..3], [1.0, 2.0, 4.0]);
        assert_eq!(point.bucket_counts[..3], [1, 2, 1]);
        assert_eq!(point.bucket_counts.last(), Some(&1));
        assert_eq!(point.bucket_counts.len(), point.explicit_bounds.len() + 1);
        assert_eq!(point.bucket_counts.iter().sum::<u64>(), point.count);
    }

    #[test]
    fn an_exemplar_has_its_trace_and_its_value() {
        let registry = Registry::new();
        let took = DurationHistogram::default();
        registry.register(described("took_seconds"), &[], took.clone());
        took.observe_traced(Duration::from_millis(3), Some([7; 16]));
        let exemplar = only(&exponential_of(&registry).exemplars);
        assert_eq!(exemplar.trace_id, [7; 16]);
        assert_eq!(exemplar.value, Some(exemplar::Value::AsDouble(0.003)));
        assert!(exemplar.time_unix_nano > 1_700_000_000_000_000_000);
    }
}
