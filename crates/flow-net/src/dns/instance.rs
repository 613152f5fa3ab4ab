//! Decides which records of an answer count, and how long the answer is valid. Pure.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use hickory_resolver::proto::rr::Name;

/// Minimum time for which an answer is used. Without it, a time to live of zero would repeat the lookup without a pause.
const VALID_MIN: Duration = Duration::from_secs(1);

/// Maximum time for which an answer is used. A wrong answer with a time to live of years is used for one minute only. One query in a
/// minute is little load for a name server.
const VALID_MAX: Duration = Duration::from_secs(60);

/// Maximum number of instances of a service. Each one has a connection, and each request considers all of them.
const INSTANCES_MAX: usize = 256;

/// The data of an SRV record.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Target {
    pub(super) priority: u16,
    pub(super) weight: u16,
    pub(super) host: Name,
    pub(super) port: u16,
}

/// An instance of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Instance {
    /// The target of its SRV record, without the dot at the end.
    pub(crate) host: String,
    /// One address, or one of each family.
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) priority: u16,
    pub(crate) weight: u16,
}

/// Returns how long an answer is used whose records have these times to live in seconds.
pub(crate) fn valid_for(ttls: impl IntoIterator<Item = u32>) -> Duration {
    let shortest = ttls.into_iter().min().unwrap_or(0);
    Duration::from_secs(shortest.into()).clamp(VALID_MIN, VALID_MAX)
}

/// Returns the valid targets, and the number of targets beyond the limit. Targets are sorted by ascending priority and then by
/// descending weight. A target `.` means that the service does not exist.
pub(super) fn targets(records: impl Iterator<Item = Target>) -> (Vec<Target>, usize) {
    let mut targets: Vec<Target> = records
        .filter(|it| !it.host.is_root() && it.port > 0)
        .collect();
    let order = |it: &Target| {
        let place = (it.priority, u16::MAX - it.weight);
        (place, it.host.clone(), it.port)
    };
    targets.sort_by_cached_key(order);
    let mut known = BTreeSet::new();
    targets.retain(|it| known.insert((it.host.clone(), it.port)));
    let left_out = targets.len().saturating_sub(INSTANCES_MAX);
    targets.truncate(INSTANCES_MAX);
    (targets, left_out)
}

/// Returns the instances at these targets, and the number of instances beyond the limit. A host with several addresses of one family
/// is several instances. A host with at most one address of each family is a single instance.
pub(super) fn instances(
    targets: &[Target],
    addresses: &BTreeMap<Name, Vec<IpAddr>>,
) -> (Vec<Instance>, usize) {
    let mut known = BTreeSet::new();
    let mut instances = Vec::new();
    for target in targets {
        let found = addresses.get(&target.host).into_iter().flatten();
        let found = found.map(|it| SocketAddr::new(*it, target.port));
        for addresses in machines(found.collect()) {
            if !known.insert(addresses.clone()) {
                continue;
            }
            instances.push(Instance {
                host: target.host.to_utf8().trim_end_matches('.').to_owned(),
                addresses,
                priority: target.priority,
                weight: target.weight,
            });
        }
    }
    let left_out = instances.len().saturating_sub(INSTANCES_MAX);
    instances.truncate(INSTANCES_MAX);
    (instances, left_out)
}

/// Groups the addresses of a host by machine.
fn machines(addresses: BTreeSet<SocketAddr>) -> Vec<Vec<SocketAddr>> {
    let (v4, v6): (Vec<_>, Vec<_>) = addresses.into_iter().partition(SocketAddr::is_ipv4);
    if v4.len() <= 1 && v6.len() <= 1 {
        let of_one: Vec<_> = v4.into_iter().chain(v6).collect();
        return match of_one.is_empty() {
            true => Vec::new(),
            false => vec![of_one],
        };
    }
    let larger = if v6.len() > v4.len() { v6 } else { v4 };
    larger.into_iter().map(|it| vec![it]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target((priority, weight, host, port): (u16, u16, &str, u16)) -> Target {
        let host = Name::from_utf8(host).unwrap();
        Target {
            priority,
            weight,
            host,
            port,
        }
    }

    #[test]
    fn an_answer_is_used_for_its_shortest_time_to_live_within_bounds() {
        let check = |ttls: &[u32], seconds| {
            let expected = Duration::from_secs(seconds);
            assert_eq!(valid_for(ttls.iter().copied()), expected, "{ttls:?}");
        };
        check(&[], 1);
        check(&[0], 1);
        check(&[1], 1);
        check(&[2], 2);
        check(&[30, 5, 20], 5);
        check(&[59], 59);
        check(&[60], 60);
        check(&[61], 60);
        check(&[1 << 31], 60);
        check(&[u32::MAX, 0], 1);
    }

    /// Asserts which of the records count, in which order.
    #[track_caller]
    fn check(records: &[(u16, u16, &str, u16)], expected: &[usize]) {
        let (found, left_out) = targets(records.iter().copied().map(target));
        let expected: Vec<_> = expected.iter().map(|at| target(records[*at])).collect();
        assert_eq!((found, left_out), (expected, 0));
    }

    #[test]
    fn records_are_sorted_by_priority_and_then_by_weight() {
        check(&[], &[]);
        check(
            &[(2, 9, "a.", 1), (1, 0, "b.", 1), (1, 5, "c.", 1)],
            &[2, 1, 0],
        );
        check(
            &[(0, 0, "b.", 1), (0, 0, "a.", 2), (0, 0, "a.", 1)],
            &[2, 1, 0],
        );
    }

    #[test]
    fn records_without_a_host_or_a_port_do_not_count() {
        check(&[(0, 0, ".", 0)], &[]);
        check(&[(0, 0, ".", 1), (0, 0, "a.", 0), (0, 0, "a.", 1)], &[2]);
    }

    #[test]
    fn of_records_of_one_host_and_port_the_first_counts() {
        check(&[(3, 9, "a.", 1), (2, 1, "a.", 1), (2, 0, "A.", 1)], &[1]);
    }

    #[test]
    fn of_ten_thousand_records_those_with_the_lowest_priority_count() {
        let records = (0..10_000_u16).rev();
        let of = |at| target((at, 0, &format!("t{at}."), 1));
        let (found, left_out) = targets(records.map(of));
        assert_eq!((found.len(), left_out), (256, 10_000 - 256));
        assert!(found.iter().map(|it| it.priority).eq(0..256));
    }

    /// Asserts which instances a target with these addresses has.
    #[track_caller]
    fn check_addresses(addresses: &[&str], expected: &[&[&str]]) {
        let target = target((1, 2, "a.example.", 5));
        let found = addresses.iter().map(|it| it.parse().unwrap()).collect();
        let found = BTreeMap::from([(target.host.clone(), found)]);
        let (found, left_out) = instances(&[target], &found);
        let texts = |of: &Instance| of.addresses.iter().map(ToString::to_string).collect();
        let texts: Vec<Vec<String>> = found.iter().map(texts).collect();
        assert_eq!(texts, expected);
        assert_eq!(left_out, 0);
        let is_of_target =
            |it: &Instance| (&*it.host, it.priority, it.weight) == ("a.example", 1, 2);
        assert!(found.iter().all(is_of_target), "{found:?}");
    }

    #[test]
    fn one_address_of_each_family_belongs_to_one_instance_and_several_to_several() {
        check_addresses(&[], &[]);
        check_addresses(&["10.0.0.1"], &[&["10.0.0.1:5"]]);
        check_addresses(&["::1"], &[&["[::1]:5"]]);
        check_addresses(&["::1", "10.0.0.1"], &[&["10.0.0.1:5", "[::1]:5"]]);
        check_addresses(
            &["10.0.0.2", "10.0.0.1", "::1", "10.0.0.2"],
            &[&["10.0.0.1:5"], &["10.0.0.2:5"]],
        );
    }

    #[test]
    fn an_address_that_two_records_lead_to_is_one_instance() {
        let both = [(1, 0, "a.", 5), (2, 0, "b.", 5)].map(target);
        let at = vec!["10.0.0.1".parse().unwrap()];
        let addresses = both.iter().map(|it| (it.host.clone(), at.clone()));
        let (found, _) = instances(&both, &addresses.collect());
        assert_eq!(found.len(), 1);
        assert_eq!((&*found[0].host, found[0].priority), ("a", 1));
    }

    #[test]
    fn a_host_with_thousands_of_addresses_has_at_most_256_instances() {
        let target = target((0, 0, "a.", 5));
        let address = |at: u32| IpAddr::from(at.to_be_bytes());
        let addresses = BTreeMap::from([(target.host.clone(), (1..=1000).map(address).collect())]);
        let (found, left_out) = instances(&[target], &addresses);
        assert_eq!((found.len(), left_out), (256, 744));
    }
}
