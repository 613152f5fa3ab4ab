//! Sums up the hops of many requests: of each hop its median, its slowest hundredth, and its share of the whole time.

use super::histogram::Histogram;
use super::hops::Hop;
use super::waterfall::time;
use crate::output::Painter;
use crate::table::Table;

/// Maximum number of different hops. A flow has dozens; the server's replies name them, so their number is limited.
const HOPS_MAX: usize = 1000;

/// The hops of many requests.
#[derive(Debug, Default)]
pub(crate) struct HopSummary {
    /// In the order of the tree.
    root: Option<Node>,
    len: usize,
}

/// A hop of all requests that had it.
#[derive(Debug, Default)]
struct Node {
    name: String,
    times: Histogram,
    children: Vec<Node>,
}

impl HopSummary {
    /// Adds the hops of a request.
    pub(crate) fn add(&mut self, hop: &Hop) {
        self.root.get_or_insert_default().add(hop, &mut self.len);
    }

    /// The table of all hops; empty without requests.
    pub(crate) fn text(&self, painter: Painter, columns: Option<usize>) -> String {
        let Some(root) = &self.root else {
            return String::new();
        };
        let mut rows = Vec::new();
        root.rows(0, root, &mut rows);
        let heads = ["Hop", "Median", "p99", "Share", "Requests"];
        let table = Table {
            head: Some(heads.map(str::to_owned).to_vec()),
            rows,
        };
        table.text(painter, columns)
    }
}

impl Node {
    fn add(&mut self, hop: &Hop, len: &mut usize) {
        self.name.clone_from(&hop.name);
        self.times.add(hop.took());
        for child in &hop.children {
            let known = self.children.iter().position(|it| it.name == child.name);
            let at = match known {
                Some(at) => at,
                None if *len >= HOPS_MAX => continue,
                None => {
                    *len += 1;
                    self.children.push(Self::default());
                    self.children.len() - 1
                }
            };
            self.children[at].add(child, len);
        }
    }

    fn rows(&self, depth: usize, root: &Self, rows: &mut Vec<Vec<String>>) {
        let whole = root.times.sum().as_secs_f64().max(f64::MIN_POSITIVE);
        let share = self.times.sum().as_secs_f64() / whole * 100.0;
        rows.push(vec![
            // A table removes blanks at the beginning of a cell when it wraps it; a figure space stays.
            format!("{}{}", "\u{2007}\u{2007}".repeat(depth), self.name),
            time(self.times.percentile(50)),
            time(self.times.percentile(99)),
            format!("{share:.1} %"),
            self.times.count().to_string(),
        ]);
        for child in &self.children {
            child.rows(depth + 1, root, rows);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use flow_proto::jina::RouteProto;

    use super::super::hops::{Sent, hops};
    use super::*;

    #[test]
    fn each_hop_has_its_median_and_its_share() {
        let start = SystemTime::UNIX_EPOCH;
        let route = |name: &str, from: u64, to: u64| RouteProto {
            executor: name.to_owned(),
            start_time: Some((start + Duration::from_millis(from)).into()),
            end_time: Some((start + Duration::from_millis(to)).into()),
            status: None,
        };
        let mut summary = HopSummary::default();
        assert_eq!(summary.text(Painter::off(), None), "");
        for _ in 0..3 {
            let sent = Sent {
                at: start,
                took: Duration::from_millis(16),
            };
            let routes = [route("gateway", 4, 12), route("a", 6, 10)];
            summary.add(&hops(sent, &routes));
        }
        let text = summary.text(Painter::off(), None);
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|it| it.split_whitespace().collect())
            .collect();
        assert_eq!(words[0], ["Hop", "Median", "p99", "Share", "Requests"]);
        assert_eq!(words[1][0], "client");
        assert_eq!(words[1][5..], ["100.0", "%", "3"]);
        let find = |name: &str| text.lines().find(|it| it.contains(name)).unwrap();
        assert!(find("network").contains("50.0 %"), "{text}");
        assert!(find("itself").contains("25.0 %"), "{text}");
        assert!(find("\u{2007}a ").contains("25.0 %"), "{text}");
    }
}
