//! What a process does in its flow.

use flow_core::NodeName;

/// What a process does in its flow.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// It runs a node, or a part of one.
    Executor {
        /// The node.
        node: NodeName,
        /// The part.
        part: NodePart,
    },
    /// Clients connect to it.
    Gateway,
}

/// What a process does for its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodePart {
    /// It shares the work of a shard.
    Replica {
        /// The shard's number in its node, from 0.
        shard: u16,
        /// The replica's number in its shard, from 0.
        number: u16,
    },
    /// It is called before the shards (`uses_before`).
    Before,
    /// It is called after the shards (`uses_after`).
    After,
}
