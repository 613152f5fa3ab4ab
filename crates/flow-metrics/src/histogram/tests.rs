use std::sync::atomic::AtomicBool;

use proptest::prelude::*;

use super::*;

const TRACE: TraceId = [0xab; 16];

proptest! {
    #[test]
    fn count_and_sum_are_those_of_the_values(values in proptest::collection::vec(0_usize..1_000_000, 0..100)) {
        let histogram = SizeHistogram::default();
        values.iter().for_each(|value| histogram.observe(*value));
        let observed = histogram.read();
        prop_assert_eq!(observed.count, values.len() as u64);
        prop_assert_eq!(observed.sum, values.iter().sum::<usize>() as f64);
        let (_, zeros) = observed.zero();
        prop_assert_eq!(zeros, values.iter().filter(|value| **value == 0).count() as u64);
        let native: u64 = observed.native().iter().map(|(_, count)| count).sum();
        prop_assert_eq!(native + zeros, observed.count);
        for (le, count, _) in observed.classic() {
            let within = values.iter().filter(|value| **value as f64 <= le).count();
            prop_assert_eq!(count, within as u64, "{}", le);
        }
    }
}

#[test]
fn a_snapshot_during_observations_is_consistent() {
    let histogram = DurationHistogram::default();
    let is_done = AtomicBool::new(false);
    let threads = 4_u64;
    let each = 20_000_u64;
    std::thread::scope(|scope| {
        let observers = (0..threads).map(|thread| {
            let histogram = histogram.clone();
            scope.spawn(move || {
                (0..each).for_each(|it| histogram.observe(Duration::from_nanos(it * (thread + 1))));
            })
        });
        let observers: Vec<_> = observers.collect();
        scope.spawn(|| {
            let mut before = 0;
            while !is_done.load(Relaxed) {
                let observed = histogram.read();
                let native: u64 = observed.native().iter().map(|(_, count)| count).sum();
                assert_eq!(native + observed.zero().1, observed.count);
                let (_, all, _) = observed.classic().last().unwrap();
                assert_eq!(all, observed.count);
                let counts: Vec<u64> = observed.classic().map(|(_, count, _)| count).collect();
                assert!(counts.is_sorted());
                assert!(before <= observed.count);
                before = observed.count;
            }
        });
        observers.into_iter().for_each(|it| it.join().unwrap());
        is_done.store(true, Relaxed);
    });
    assert_eq!(histogram.count(), threads * each);
}

#[test]
fn the_newest_example_of_a_bucket_stays() {
    let histogram = DurationHistogram::default();
    histogram.observe(Duration::from_millis(3));
    let none = |observed: Observed| observed.classic().all(|(.., exemplar)| exemplar.is_none());
    assert!(none(histogram.read()), "nothing is traced");
    for ms in [3, 4, 70_000] {
        histogram.observe_traced(Duration::from_millis(ms), Some(TRACE));
    }
    let observed = histogram.read();
    let examples: Vec<(f64, f64)> = observed
        .classic()
        .filter_map(|(le, _, exemplar)| Some((le, exemplar?.1)))
        .collect();
    assert_eq!(examples, [(0.005, 0.004), (f64::INFINITY, 70.0)]);
}

#[test]
fn buckets_are_counted_by_their_upper_bounds() {
    let histogram = DurationHistogram::default();
    assert_eq!(histogram.buckets(), []);
    for nanos in [0, 500, 1_000_000_000, 999_999_999, 2_000_000_000] {
        histogram.observe(Duration::from_nanos(nanos));
    }
    // Up to a microsecond, up to 2^0 s and up to 2^1 s.
    assert_eq!(histogram.buckets(), [(-160, 2), (0, 2), (8, 1)]);
}

#[test]
fn numbers_keep_their_fractions_and_what_is_no_number_is_ignored() {
    let histogram = ValueHistogram::default();
    for number in [0.0, 0.25, 0.3, 9_999.5, 1e12, -1.0, f64::NAN] {
        histogram.observe(number);
    }
    let observed = histogram.read();
    assert_eq!(observed.count, 5);
    assert_eq!(observed.sum, 0.25 + 0.3 + 9_999.5 + 1e12);
    let within = |le: f64| observed.classic().find(|it| it.0 == le).unwrap().1;
    assert_eq!((within(0.1), within(0.25), within(0.5)), (1, 2, 3));
    assert_eq!((within(10_000.0), within(f64::INFINITY)), (4, 5));
}
