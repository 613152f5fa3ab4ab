//! The addresses of a node's processes, for the gateway. Pure.

use flow_core::NodeName;
use flow_process::ListenAddress;
use flow_spec::{Address, NodeAddresses};

use crate::spec::role::{NodePart, Role};

/// The addresses of the processes of a node. An absent process is left out where its shard has others.
pub(crate) fn addresses(
    processes: &[(Role, ListenAddress)],
    of: &NodeName,
    absent: Option<&Role>,
) -> NodeAddresses {
    let parts = processes.iter().filter_map(|(role, address)| match role {
        Role::Executor { node, part } if node == of => {
            Some((*part, placed(address), absent == Some(role)))
        }
        _ => None,
    });
    let mut addresses = NodeAddresses::default();
    let mut left_out = Vec::new();
    for (part, address, is_absent) in parts {
        match part {
            NodePart::Before => addresses.before = Some(address),
            NodePart::After => addresses.after = Some(address),
            NodePart::Replica { shard, .. } => {
                let shard = usize::from(shard);
                let len = addresses.shards.len().max(shard + 1);
                addresses.shards.resize_with(len, Vec::new);
                if is_absent {
                    left_out.push((shard, address));
                } else {
                    addresses.shards[shard].push(address);
                }
            }
        }
    }
    // A shard without any replica could not be called at all.
    for (shard, address) in left_out {
        if addresses.shards[shard].is_empty() {
            addresses.shards[shard].push(address);
        }
    }
    addresses
}

/// Where the gateway reaches a process that listens there.
pub(crate) fn placed(at: &ListenAddress) -> Address {
    match at {
        ListenAddress::Tcp(address) => (*address).into(),
        ListenAddress::Unix(path) => Address::Unix { unix: path.clone() },
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;

    fn replica(shard: u16, number: u16, port: u16) -> (Role, ListenAddress) {
        process(NodePart::Replica { shard, number }, port)
    }

    fn process(part: NodePart, port: u16) -> (Role, ListenAddress) {
        let node = "a".parse().unwrap();
        let role = Role::Executor { node, part };
        (role, SocketAddr::from(([127, 0, 0, 1], port)).into())
    }

    fn port(address: &Address) -> u16 {
        address.tcp().unwrap().port
    }

    fn check(processes: &[(Role, ListenAddress)], absent: Option<&Role>, expected: &[&[u16]]) {
        let found = addresses(processes, &"a".parse().unwrap(), absent);
        let shards = found.shards.iter();
        let ports: Vec<Vec<u16>> = shards
            .map(|shard| shard.iter().map(port).collect())
            .collect();
        assert_eq!(ports, expected);
    }

    #[test]
    fn replicas_are_listed_by_shard() {
        let processes = [replica(0, 0, 1), replica(0, 1, 2), replica(1, 0, 3)];
        check(&processes, None, &[&[1, 2], &[3]]);
        check(&[], None, &[]);
    }

    #[test]
    fn an_absent_process_is_left_out_unless_it_is_the_only_one() {
        let processes = [replica(0, 0, 1), replica(0, 1, 2), replica(1, 0, 3)];
        check(&processes, Some(&processes[0].0), &[&[2], &[3]]);
        check(&processes, Some(&processes[2].0), &[&[1, 2], &[3]]);
    }

    #[test]
    fn uses_before_and_uses_after_have_their_own_addresses() {
        let processes = [
            replica(0, 0, 1),
            process(NodePart::Before, 8),
            process(NodePart::After, 9),
        ];
        let found = addresses(&processes, &"a".parse().unwrap(), None);
        assert_eq!(port(&found.before.unwrap()), 8);
        assert_eq!(port(&found.after.unwrap()), 9);
    }
}
