use std::collections::BTreeSet;

use super::*;

fn load(in_flight: usize, usual_ms: u64) -> Load {
    Load {
        is_backing_off: false,
        in_flight,
        usual: (usual_ms > 0).then(|| Duration::from_millis(usual_ms)),
        is_unheard: false,
    }
}

/// Which replicas are chosen, in turn.
#[track_caller]
fn check(loads: &[Load], expected: &[usize]) {
    let chosen: BTreeSet<usize> = (0..12).filter_map(|turn| choose(loads, turn)).collect();
    assert!(chosen.iter().eq(expected), "{chosen:?}");
}

#[test]
fn the_replica_with_the_fewest_requests_in_progress_is_chosen() {
    assert_eq!(choose(&[], 3), None);
    check(&[load(2, 0), load(1, 0), load(3, 0)], &[1]);
}

#[test]
fn equally_busy_replicas_take_turns() {
    let equal = [load(1, 0), load(1, 0), load(1, 0)];
    let chosen: Vec<_> = (0..6).map(|turn| choose(&equal, turn).unwrap()).collect();
    assert_eq!(chosen, [0, 1, 2, 0, 1, 2]);
}

#[test]
fn replicas_within_three_times_the_median_are_equal() {
    check(&[load(0, 50), load(0, 150)], &[0, 1]);
    check(&[load(0, 50), load(0, 151)], &[0]);
    check(&[load(1, 50), load(0, 150)], &[1]);
}

#[test]
fn response_times_of_a_few_milliseconds_are_never_slow() {
    check(&[load(0, 1), load(0, 5)], &[0, 1]);
    check(&[load(0, 1), load(0, 6)], &[0]);
}

#[test]
fn a_slow_replica_gets_requests_when_the_others_have_many_more() {
    // Fifteen times as slow, of which three times are tolerated: it counts five for each of its own.
    check(&[load(3, 10), load(3, 10), load(0, 150)], &[0, 1]);
    check(&[load(6, 10), load(6, 10), load(0, 150)], &[2]);
    check(&[load(6, 10), load(6, 10), load(1, 150)], &[0, 1]);
}

#[test]
fn a_slow_replica_that_has_got_no_request_for_some_time_is_tried() {
    let unheard = |in_flight| Load {
        is_unheard: true,
        ..load(in_flight, 100)
    };
    check(&[load(0, 10), unheard(0)], &[0, 1]);
    check(&[load(1, 10), unheard(0)], &[1]);
    check(&[load(1, 10), unheard(1)], &[0]);
}

#[test]
fn a_replica_is_not_slow_when_as_many_others_are() {
    check(&[load(0, 100), load(0, 100), load(0, 1)], &[0, 1, 2]);
    check(
        &[load(0, 100), load(0, 100), load(0, 1), load(0, 1)],
        &[2, 3],
    );
}

#[test]
fn replicas_that_cannot_be_reached_come_last_and_are_not_compared() {
    let gone = Load {
        is_backing_off: true,
        ..load(0, 1)
    };
    check(&[gone, load(9, 100)], &[1]);
    check(&[gone, load(9, 100), load(9, 100)], &[1, 2]);
    check(&[gone, gone], &[0, 1]);
}
