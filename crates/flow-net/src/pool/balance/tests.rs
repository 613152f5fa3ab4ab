use std::collections::BTreeSet;

use super::*;

fn load(in_flight: usize, usual_ms: u64) -> Load {
    Load {
        is_backing_off: false,
        in_flight,
        usual: (usual_ms > 0).then(|| Duration::from_millis(usual_ms)),
        is_unheard: false,
        share: 1.0,
        is_failing: false,
        is_ejected: false,
        priority: 0,
        weight: 1,
    }
}

/// The replica that is chosen of these.
fn choose(loads: &[Load], turn: usize) -> Option<usize> {
    super::choose(loads, median(loads), turn)
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

#[test]
fn the_share_of_a_new_replica_grows_with_time() {
    let after = |ms| share(Duration::from_millis(ms), Duration::from_secs(10));
    let shares = [0, 1000, 2499, 2500, 5000, 9499, 9999, 10_000, 60_000].map(after);
    assert_eq!(shares, [0.1, 0.1, 0.2, 0.25, 0.5, 0.9, 0.95, 1.0, 1.0]);
    assert_eq!(share(Duration::ZERO, Duration::ZERO), 1.0);
}

fn new(in_flight: usize, share: f64) -> Load {
    Load {
        share,
        ..load(in_flight, 0)
    }
}

/// Of 10,000 turns, those in which the last replica is chosen.
fn turns_of_last(loads: &[Load]) -> usize {
    let last = |turn: &usize| choose(loads, *turn) == Some(loads.len() - 1);
    (0..10_000).filter(last).count()
}

#[test]
fn an_idle_node_sends_a_new_replica_its_share_of_the_requests() {
    for (share, expected) in [(0.1, 250), (0.5, 1250), (0.9, 2250)] {
        let idle = [load(0, 0), load(0, 0), load(0, 0), new(0, share)];
        let turns = turns_of_last(&idle);
        let expected = expected * 8 / 10..expected * 12 / 10;
        assert!(expected.contains(&turns), "{share}: {turns}");
    }
}

#[test]
fn a_busy_node_leaves_a_new_replica_its_share_in_progress() {
    let busy = |in_progress| [load(20, 0), load(20, 0), new(in_progress, 0.25)];
    assert_eq!(turns_of_last(&busy(4)), 10_000);
    assert_eq!(turns_of_last(&busy(6)), 0);
}

#[test]
fn replicas_that_are_all_new_are_equal() {
    let equal = [new(0, 0.1), new(0, 0.1)];
    let chosen: Vec<_> = (0..4).map(|turn| choose(&equal, turn).unwrap()).collect();
    assert_eq!(chosen, [0, 1, 0, 1]);
    check(&[new(1, 0.1), new(0, 0.1)], &[1]);
}

#[test]
fn a_new_replica_gets_everything_if_no_other_can_be_reached() {
    let gone = Load {
        is_backing_off: true,
        ..load(0, 0)
    };
    check(&[gone, new(3, 0.1)], &[1]);
}

#[test]
fn a_replica_is_called_slow_from_three_times_the_median_down_to_twice() {
    let slow = |was_slow, usual| {
        let median = Some(Duration::from_millis(50));
        is_slow(was_slow, Some(Duration::from_millis(usual)), median)
    };
    assert!(!slow(false, 150) && slow(false, 151));
    assert!(slow(true, 101) && !slow(true, 100));
    assert!(!is_slow(true, Some(Duration::from_secs(9)), None));
}

fn ranked(priority: u16, weight: u16, in_flight: usize) -> Load {
    Load {
        priority,
        weight,
        ..load(in_flight, 0)
    }
}

#[test]
fn only_the_lowest_priority_that_can_be_reached_is_used() {
    let away = |load: Load| Load {
        is_backing_off: true,
        is_ejected: true,
        ..load
    };
    check(&[ranked(2, 9, 0), ranked(1, 0, 50)], &[1]);
    check(
        &[ranked(2, 0, 0), ranked(1, 0, 5), ranked(1, 0, 5)],
        &[1, 2],
    );
    check(&[away(ranked(1, 0, 0)), ranked(2, 0, 5)], &[1]);
    check(
        &[away(ranked(1, 0, 0)), ranked(3, 0, 0), ranked(2, 0, 5)],
        &[2],
    );
    check(&[away(ranked(2, 0, 0)), away(ranked(1, 0, 0))], &[1]);
}

#[test]
fn a_replica_of_a_lower_priority_that_may_be_back_is_tried_with_one_request_at_a_time() {
    let perhaps_back = |priority, in_flight| Load {
        is_ejected: true,
        ..ranked(priority, 0, in_flight)
    };
    check(&[perhaps_back(1, 0), ranked(2, 0, 5)], &[0]);
    check(&[perhaps_back(1, 1), ranked(2, 0, 5)], &[1]);
    // If no other replica can be reached, requests do not wait for the answer.
    check(&[perhaps_back(1, 1)], &[0]);
    check(&[perhaps_back(1, 1), perhaps_back(2, 0)], &[0]);
    check(&[perhaps_back(2, 0), ranked(1, 0, 5)], &[1]);
}

/// Returns the number of turns out of 1000 that each of these replicas gets.
fn turns(loads: &[Load]) -> Vec<usize> {
    let mut turns = vec![0; loads.len()];
    (0..1000).for_each(|turn| turns[choose(loads, turn).unwrap()] += 1);
    turns
}

#[test]
fn idle_replicas_have_turns_in_proportion_to_their_weights() {
    let check = |weights: &[u16], expected: &[usize]| {
        let idle: Vec<Load> = weights.iter().map(|it| ranked(0, *it, 0)).collect();
        let turns = turns(&idle);
        let is_near = |(found, expected): (&usize, &usize)| found.abs_diff(*expected) <= 3;
        assert!(
            turns.iter().zip(expected).all(is_near),
            "{weights:?}: {turns:?}"
        );
    };
    check(&[1, 3], &[250, 750]);
    check(&[50, 30, 20], &[500, 300, 200]);
    check(&[1, 1, 2], &[250, 250, 500]);
    check(&[0, 0], &[500, 500]);
    check(&[0, 1], &[10, 990]);
    check(&[65_535, 1, 0], &[1000, 0, 0]);
}

#[test]
fn busy_replicas_have_requests_in_progress_in_proportion_to_their_weights() {
    let check = |light, heavy, expected: &[usize]| {
        let of = [ranked(0, 10, light), ranked(0, 30, heavy)];
        super::tests::check(&of, expected);
    };
    check(4, 9, &[1]);
    check(2, 9, &[0]);
    check(0, 3, &[0]);
}

#[test]
fn a_new_replica_with_a_weight_gets_its_share_of_it() {
    let new = Load {
        share: 0.1,
        ..ranked(0, 30, 0)
    };
    let turns = turns(&[ranked(0, 10, 0), new]);
    assert!(turns[1].abs_diff(1000 * 3 / 13) <= 3, "{turns:?}");
}

#[test]
fn a_slow_replica_gets_few_requests_whatever_its_weight_is() {
    let slow = Load {
        usual: Some(Duration::from_millis(500)),
        ..ranked(0, 3, 0)
    };
    let quick = Load {
        usual: Some(Duration::from_millis(10)),
        ..ranked(0, 1, 0)
    };
    check(&[slow, quick], &[1]);
}

#[test]
fn a_replica_that_fails_gets_few_requests_unless_most_fail() {
    let check = |failing: &[usize], in_flight: &[usize], expected: &[usize]| {
        let load = |(at, in_flight): (usize, &usize)| Load {
            is_failing: failing.contains(&at),
            ..load(*in_flight, 0)
        };
        let mut loads: Vec<Load> = in_flight.iter().enumerate().map(load).collect();
        forgive_common_failures(&mut loads);
        super::tests::check(&loads, expected);
    };
    check(&[0], &[0, 5], &[1]);
    check(&[0], &[0, 11], &[0]);
    check(&[0, 1], &[0, 0, 5, 5], &[2, 3]);
    check(&[0, 1, 2], &[5, 0, 5, 5], &[1]);
    check(&[0, 1], &[0, 5], &[0]);
}

#[test]
fn a_replica_that_fails_is_tried_from_time_to_time() {
    let failing = Load {
        is_failing: true,
        is_unheard: true,
        ..load(0, 0)
    };
    check(&[failing, load(1, 0)], &[0]);
}
