//! Decides which replica gets a request. Pure: what is known of the replicas is an argument.
//!
//! The replica with the fewest requests in progress wins, and equals take turns. Four things change that:
//!
//! - A replica that recently could not be reached is taken only if no other could be reached either.
//! - A replica whose calls usually take more than three times as long as those of the others counts each request in progress
//!   several times, and an idle one counts as busy. So it gets requests only when the others have many more in progress,
//!   and one from time to time that shows whether it has recovered.
//! - A replica that fails most of its calls, while at least half of the replicas do not, is treated like one that is ten times
//!   too slow. Otherwise a broken replica, which fails at once and so is always idle, would get most requests.
//! - A replica that is new, or came back, has a share from a tenth to one. With a share of a half it gets half as many
//!   requests as with a whole one when the replicas are idle, and has half as many in progress when they are busy. If all
//!   are new, they are equal.
//!
//! Priorities and weights of SRV records add two rules:
//!
//! - Only replicas of the lowest priority with a reachable replica get requests. A replica of a lower priority that could not be
//!   reached is tried with one request at a time until it answers.
//! - Replicas of one priority with different weights get turns and requests in progress in proportion to their weights.
//!
//! Replicas within three times the median are equal. Their response times differ by chance, by the sizes of requests and by what
//! was batched together, and choosing the quickest of them would send all requests there until it is the slowest.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How many times the median a replica may take before it gets fewer requests. With twice the median, equal replicas near
/// their limit were taken for slow ones by chance, and requests took an eighth longer.
const TOLERATED_TIMES: u32 = 3;

/// How many times the median a slow replica may take when it is called slow no longer, so that one near the limit is not
/// reported again and again.
const RECOVERED_TIMES: u32 = 2;

/// Response times below this are never slow: among them, a context switch makes the difference.
const TOLERATED: Duration = Duration::from_millis(5);

/// How many times a request in progress counts at a replica that fails most of its calls.
const FAILING_COST: f64 = 10.0;

/// The share of a replica that has just started. Without any requests it would not become warm.
const SHARE_MIN: f64 = 0.1;

/// Steps in which a share grows, so that replicas that started together are equal.
const SHARE_STEPS: f64 = 20.0;

/// The weight of a replica whose record has a weight of zero. RFC 2782 gives such a replica a very small chance if others have weights.
const WEIGHT_OF_ZERO: f64 = 0.01;

/// The fractional part of the golden ratio, times 2^64.
const GOLDEN_RATIO: u64 = 0x9e37_79b9_7f4a_7c15;

/// What is known of a replica.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    /// It recently could not be reached.
    pub(super) is_backing_off: bool,
    /// Its requests in progress.
    pub(super) in_flight: usize,
    /// How long its calls usually take; `None` if that is not known.
    pub(super) usual: Option<Duration>,
    /// It has got no request for some time, so how slow it is may be out of date.
    pub(super) is_unheard: bool,
    /// How many requests it gets compared with the others, as [`share`] says.
    pub(super) share: f64,
    /// It fails most of its calls.
    pub(super) is_failing: bool,
    /// Whether it could not be reached at the last try.
    pub(super) is_ejected: bool,
    /// Its priority. Replicas with the lowest one are used first.
    pub(super) priority: u16,
    /// Its share of the requests compared with other replicas of the same priority.
    pub(super) weight: u16,
}

/// The share of a replica that has been reachable for this time: it grows in proportion to the time.
pub(super) fn share(reachable: Duration, slow_start: Duration) -> f64 {
    if reachable >= slow_start {
        return 1.0;
    }
    let grown = reachable.div_duration_f64(slow_start);
    ((grown * SHARE_STEPS).floor() / SHARE_STEPS).max(SHARE_MIN)
}

/// The index of the replica that gets the next request; `None` if there are none. The turn is another number each time.
pub(super) fn choose(loads: &[Load], median: Option<Duration>, turn: usize) -> Option<usize> {
    let used = used_priority(loads);
    let first = loads.iter().map(|load| tier(load, used)).min()?;
    let is_candidate = |at: &usize| tier(&loads[*at], used) == first;
    let candidates = (0..loads.len()).filter(is_candidate);
    let (is_backing_off, _) = first;
    if !is_backing_off && has_different_weights(candidates.clone().map(|at| &loads[at])) {
        return choose_by_weight(loads, candidates, median, turn);
    }
    let largest = match is_backing_off {
        true => SHARE_MIN,
        false => largest(candidates.clone().map(|at| loads[at].share)),
    };
    let cost = |at: usize| {
        let share = (loads[at].share / largest).min(1.0);
        let place = if share < 1.0 {
            chance(turn, at)
        } else {
            place_in_turn(at, loads.len(), turn)
        };
        cost(loads[at], median, place) / share
    };
    least(candidates, cost)
}

/// Does the same as [`choose`] for replicas with different weights. Among idle replicas, the one whose turn it is comes first. The
/// larger the weight of a replica, the less its requests in progress count.
fn choose_by_weight(
    loads: &[Load],
    candidates: impl Iterator<Item = usize> + Clone,
    median: Option<Duration>,
    turn: usize,
) -> Option<usize> {
    let amount = |at: usize| loads[at].share * weight(&loads[at]);
    let largest = largest(candidates.clone().map(amount));
    let its_turn = turn_by_amount(candidates.clone().map(|at| (at, amount(at))), turn)?;
    let cost = |at: usize| {
        // The others rank between an idle replica whose turn it is and a replica with one request in progress.
        let place = match at == its_turn {
            true => 0.0,
            false => f64::midpoint(1.0, place_in_turn(at, loads.len(), turn)),
        };
        cost(loads[at], median, place) / (amount(at) / largest)
    };
    least(candidates, cost)
}

/// Returns the candidate with the lowest cost. If several have it, returns the first of them.
fn least(candidates: impl Iterator<Item = usize>, cost: impl Fn(usize) -> f64) -> Option<usize> {
    let costs = candidates.map(|at| (at, cost(at)));
    let least = costs.min_by(|(_, a), (_, b)| a.total_cmp(b));
    least.map(|(at, _)| at)
}

fn largest(of: impl Iterator<Item = f64>) -> f64 {
    of.fold(f64::MIN_POSITIVE, f64::max)
}

/// Returns the lowest priority of the replicas that could be reached at the last try.
fn used_priority(loads: &[Load]) -> Option<u16> {
    let reached = loads
        .iter()
        .filter(|it| !it.is_ejected && !it.is_backing_off);
    reached.map(|load| load.priority).min()
}

/// Returns the tier of a replica. Only replicas of the lowest tier are candidates. If others can be reached, a replica that is being
/// tried again gets no further request before it answers.
fn tier(load: &Load, used: Option<u16>) -> (bool, u32) {
    let is_tried = used.is_some_and(|used| load.priority < used) && load.in_flight > 0;
    let priority = match is_tried {
        true => u32::MAX,
        false => load.priority.into(),
    };
    (load.is_backing_off, priority)
}

fn has_different_weights<'l>(mut loads: impl Iterator<Item = &'l Load>) -> bool {
    let first = loads.next().map(|load| load.weight);
    loads.any(|load| Some(load.weight) != first)
}

fn weight(load: &Load) -> f64 {
    match load.weight {
        0 => WEIGHT_OF_ZERO,
        weight => weight.into(),
    }
}

/// Returns the replica whose turn it is. Each has turns in proportion to its amount. Multiples of the golden ratio spread them evenly.
fn turn_by_amount(
    amounts: impl Iterator<Item = (usize, f64)> + Clone,
    turn: usize,
) -> Option<usize> {
    let sum: f64 = amounts.clone().map(|(_, amount)| amount).sum();
    let mut rest = fraction((turn as u64).wrapping_mul(GOLDEN_RATIO)) * sum;
    let mut last = None;
    for (at, amount) in amounts {
        last = Some(at);
        if rest < amount {
            break;
        }
        rest -= amount;
    }
    last
}

/// Whether a replica is to be called slow, which says that it gets fewer requests.
pub(super) fn is_slow(was_slow: bool, usual: Option<Duration>, median: Option<Duration>) -> bool {
    let (Some(usual), Some(median)) = (usual, median) else {
        return false;
    };
    let times = if was_slow {
        RECOVERED_TIMES
    } else {
        TOLERATED_TIMES
    };
    usual > (median * times).max(TOLERATED)
}

/// How many times longer than tolerated a replica takes; 1 if it is not slow.
fn slowness(usual: Option<Duration>, median: Option<Duration>) -> f64 {
    let (Some(usual), Some(median)) = (usual, median) else {
        return 1.0;
    };
    let tolerated = (median * TOLERATED_TIMES).max(TOLERATED);
    usual.div_duration_f64(tolerated).max(1.0)
}

/// Does not hold failures against replicas if more than half of those that can be reached fail: then the requests are the
/// more likely cause.
pub(super) fn forgive_common_failures(loads: &mut [Load]) {
    let reachable = loads.iter().filter(|load| !load.is_backing_off);
    let (all, failing) = reachable.fold((0, 0), |(all, failing), load| {
        (all + 1, failing + usize::from(load.is_failing))
    });
    if failing * 2 > all {
        loads.iter_mut().for_each(|load| load.is_failing = false);
    }
}

/// The median when a replica was last chosen, so that the end of each call need not look at all replicas.
#[derive(Debug, Default)]
pub(super) struct LastMedian(AtomicU64);

impl LastMedian {
    pub(super) fn set(&self, median: Option<Duration>) {
        let nanos = median.map_or(0, |it| u64::try_from(it.as_nanos()).unwrap_or(u64::MAX));
        self.0.store(nanos, Ordering::Relaxed);
    }

    pub(super) fn get(&self) -> Option<Duration> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }
}

/// The median of what is usual for the replicas that can be reached; of two, the shorter time.
pub(super) fn median(loads: &[Load]) -> Option<Duration> {
    let reachable = loads.iter().filter(|load| !load.is_backing_off);
    let mut usual: Vec<Duration> = reachable.filter_map(|load| load.usual).collect();
    // Usually all replicas are within what is tolerated, and nothing needs to be sorted.
    if usual.iter().all(|time| *time <= TOLERATED) {
        return None;
    }
    let middle = usual.len().checked_sub(1)? / 2;
    let (_, median, _) = usual.select_nth_unstable(middle);
    Some(*median)
}

/// Of replicas with equally many requests in progress, the one with the smallest place from 0 to 1 has its turn.
fn cost(load: Load, median: Option<Duration>, place: f64) -> f64 {
    let in_flight = count(load.in_flight);
    let slowness = match load.is_failing {
        true => FAILING_COST,
        false => slowness(load.usual, median),
    };
    let is_trial = load.is_unheard && load.in_flight == 0;
    if slowness > 1.0 && !is_trial {
        (in_flight + 1.0) * slowness
    } else {
        in_flight + place
    }
}

/// Each replica has each of these places in turn. They are such that one with a small share, whose place is a number by chance
/// divided by the share, comes first in its share of all turns.
fn place_in_turn(at: usize, replicas: usize, turn: usize) -> f64 {
    let place = (at + replicas - turn % replicas) % replicas;
    (count(place) + 1.0 - 1.0 / count(replicas)) / count(replicas)
}

/// A number from 0 to 1 that is another one for each turn and replica (splitmix64). In their turns, replicas with a small
/// share would get all requests or none.
fn chance(turn: usize, at: usize) -> f64 {
    let mut mixed = (turn as u64 ^ (at as u64) << 48).wrapping_mul(GOLDEN_RATIO);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^= mixed >> 31;
    fraction(mixed)
}

/// Converts bits into a number from 0 to 1. It uses as many of the upper bits as the fraction of an `f64` has.
fn fraction(bits: u64) -> f64 {
    f64::from_bits(bits >> 12 | 1_f64.to_bits()) - 1.0
}

#[allow(
    clippy::cast_precision_loss,
    reason = "requests in progress are far fewer than 2^52"
)]
pub(super) fn count(number: usize) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
