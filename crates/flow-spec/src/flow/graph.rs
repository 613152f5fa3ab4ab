//! Which node reads from which: order, cycles, and what the reply depends on.
//!
//! Nodes are numbers here, in the order of the file.

/// Where a node's documents come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parent {
    Gateway,
    Node(usize),
}

impl Parent {
    pub(crate) fn node(self) -> Option<usize> {
        match self {
            Self::Gateway => None,
            Self::Node(node) => Some(node),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Graph {
    /// Of each node, in the order of its `needs`.
    pub(crate) parents: Vec<Vec<Parent>>,
    /// What the reply is made of, in the order in which branches are merged; never empty.
    pub(crate) exit: Vec<Parent>,
}

impl Graph {
    /// Nodes with parents before children, otherwise as written. Nodes on a cycle, and those
    /// behind one, are left out.
    pub(crate) fn order(&self) -> Vec<usize> {
        let mut order = Vec::with_capacity(self.parents.len());
        let mut placed = vec![false; self.parents.len()];
        while let Some(next) = self.next_ready(&placed) {
            placed[next] = true;
            order.push(next);
        }
        order
    }

    /// Cycles, each as its nodes in the order of the documents; every cycle shares no node with another.
    pub(crate) fn cycles(&self) -> Vec<Vec<usize>> {
        let mut placed = vec![false; self.parents.len()];
        let mut cycles = Vec::new();
        loop {
            while let Some(next) = self.next_ready(&placed) {
                placed[next] = true;
            }
            let Some(stuck) = placed.iter().position(|placed| !placed) else {
                return cycles;
            };
            let cycle = self.cycle_above(stuck, &placed);
            // Taken as placed, so that what is behind this cycle is not reported with it.
            cycle.iter().for_each(|node| placed[*node] = true);
            cycles.push(cycle);
        }
    }

    /// For each node, whether the reply depends on it.
    pub(crate) fn awaited(&self) -> Vec<bool> {
        let mut awaited = vec![false; self.parents.len()];
        let mut open = self.exit.clone();
        while let Some(parent) = open.pop() {
            let Parent::Node(node) = parent else { continue };
            if !awaited[node] {
                awaited[node] = true;
                open.extend(&self.parents[node]);
            }
        }
        awaited
    }

    fn next_ready(&self, placed: &[bool]) -> Option<usize> {
        let is_placed = |parent: &Parent| match *parent {
            Parent::Gateway => true,
            Parent::Node(node) => placed[node],
        };
        (0..placed.len()).find(|node| !placed[*node] && self.parents[*node].iter().all(is_placed))
    }

    /// Follows parents that are not placed until one comes again; `stuck` has such a parent, and
    /// so has each that is reached from it.
    fn cycle_above(&self, stuck: usize, placed: &[bool]) -> Vec<usize> {
        let mut walk = vec![stuck];
        loop {
            let parents = &self.parents[walk[walk.len() - 1]];
            let unplaced = parents.iter().find_map(|parent| match parent {
                Parent::Node(node) if !placed[*node] => Some(*node),
                _ => None,
            });
            let Some(parent) = unplaced else { return walk };
            if let Some(start) = walk.iter().position(|node| *node == parent) {
                let mut cycle = walk.split_off(start);
                cycle.reverse();
                // The walk went against the documents; it begins with the node written first.
                let first = (0..cycle.len()).min_by_key(|at| cycle[*at]).unwrap_or(0);
                cycle.rotate_left(first);
                return cycle;
            }
            walk.push(parent);
        }
    }
}

#[cfg(test)]
mod tests;
