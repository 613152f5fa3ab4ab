//! What `flow up` shows when everything is ready: where to connect, what runs, how to stop.
//!
//! Only the looks are decided here. `cmd/up.rs` knows the facts.

use std::time::Duration;

use crate::output::{Colour, Painter};
use crate::table::{GAP, Table, len};

/// What the banner tells.
#[derive(Debug, Clone, Default)]
pub(crate) struct Banner {
    /// What the gateway speaks.
    pub(crate) protocol: String,
    /// Where programs on this machine reach it.
    pub(crate) local: Vec<String>,
    /// Where other machines reach it.
    pub(crate) private: Vec<String>,
    /// Where the gateway's metrics are read, if it shows any.
    pub(crate) metrics: Option<String>,
    /// The folders that hold what the flow and its executors keep.
    pub(crate) workspaces: Vec<String>,
    /// Every process that works on documents.
    pub(crate) executors: Vec<Row>,
    /// From the command to here.
    pub(crate) took: Duration,
}

/// One executor process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) address: String,
    /// What it tells about itself, such as its device and its model.
    pub(crate) facts: Vec<(String, String)>,
}

/// A rule at least this long frames the banner; a wider table makes it longer.
const RULE_LEN_MIN: usize = 60;

impl Banner {
    /// The banner as lines of text.
    pub(crate) fn text(&self, painter: Painter) -> String {
        let endpoint = Table {
            head: None,
            rows: self.endpoint_rows(),
        };
        let executors = Table {
            head: Some(self.heads()),
            rows: self.executor_rows(),
        };
        let width = endpoint.width().max(executors.width()) + 2 * GAP;
        let blocks = [
            rule(width.max(RULE_LEN_MIN), "flow is ready to serve", painter),
            endpoint.text(painter),
            executors.text(painter),
            format!("  ready after {}; stop with Ctrl-C\n", seconds(self.took)),
        ];
        let shown = blocks.iter().filter(|block| !block.is_empty());
        shown.map(|block| format!("{block}\n")).collect()
    }

    fn endpoint_rows(&self) -> Vec<Vec<String>> {
        let mut rows = vec![vec!["Protocol".to_owned(), self.protocol.clone()]];
        rows.extend(titled("Local", &self.local));
        rows.extend(titled("Private", &self.private));
        let metrics = self.metrics.iter();
        rows.extend(metrics.map(|url| vec!["Metrics".to_owned(), url.clone()]));
        rows.extend(titled("Workspace", &self.workspaces));
        rows
    }

    fn heads(&self) -> Vec<String> {
        let fixed = ["Executor", "Address"].map(str::to_owned);
        fixed
            .into_iter()
            .chain(self.keys().into_iter().map(title))
            .collect()
    }

    fn executor_rows(&self) -> Vec<Vec<String>> {
        let keys = self.keys();
        let row = |row: &Row| {
            let facts = keys.iter().map(|key| row.fact(key));
            [row.name.clone(), row.address.clone()]
                .into_iter()
                .chain(facts)
                .collect()
        };
        self.executors.iter().map(row).collect()
    }

    /// What executors tell about themselves, each key once.
    fn keys(&self) -> Vec<&str> {
        let mut keys: Vec<&str> = Vec::new();
        for (key, _) in self.executors.iter().flat_map(|row| &row.facts) {
            if !keys.contains(&key.as_str()) {
                keys.push(key);
            }
        }
        keys
    }
}

impl Row {
    fn fact(&self, key: &str) -> String {
        let found = self.facts.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

/// A row for each value, the first of which has the title.
fn titled<'v>(title: &'v str, values: &'v [String]) -> impl Iterator<Item = Vec<String>> + 'v {
    let titles = std::iter::once(title).chain(std::iter::repeat(""));
    let rows = titles.zip(values);
    rows.map(|(title, value)| vec![title.to_owned(), value.clone()])
}

fn rule(width: usize, title: &str, painter: Painter) -> String {
    let dashes = width.saturating_sub(len(title) + 2);
    let (left, right) = (dashes / 2, dashes - dashes / 2);
    let bar = |len| painter.paint(Colour::Dim, &"─".repeat(len));
    format!(
        "{} {} {}\n",
        bar(left),
        painter.paint(Colour::Green, title),
        bar(right)
    )
}

/// A key as the head of a column.
fn title(key: &str) -> String {
    let mut letters = key.chars();
    let first = letters.next().map(|it| it.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

fn seconds(took: Duration) -> String {
    format!("{:.2} s", took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(name: &str, address: &str, facts: &[(&str, &str)]) -> Row {
        let owned = |&(key, value): &(&str, &str)| (key.to_owned(), value.to_owned());
        Row {
            name: name.to_owned(),
            address: address.to_owned(),
            facts: facts.iter().map(owned).collect(),
        }
    }

    fn check(banner: &Banner, expected: &str) {
        let text = banner.text(Painter::off());
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn it_shows_where_to_connect_and_what_runs() {
        let banner = Banner {
            protocol: "GRPC".to_owned(),
            local: vec!["127.0.0.1:54321".to_owned()],
            private: vec!["10.1.2.3:54321".to_owned(), "[fd00::7]:54321".to_owned()],
            metrics: Some("http://127.0.0.1:9090/metrics".to_owned()),
            workspaces: vec!["/srv/flows/data".to_owned()],
            executors: vec![
                row(
                    "encoder",
                    "127.0.0.1:41233",
                    &[("device", "cpu"), ("model", "all-MiniLM-L6-v2")],
                ),
                row("logger/rep-0", "127.0.0.1:41234", &[]),
                row("far", "https://far:9 (external)", &[]),
            ],
            took: Duration::from_millis(417),
        };
        check(
            &banner,
            "\
────────────────────────── flow is ready to serve ──────────────────────────

  Protocol    GRPC
  Local       127.0.0.1:54321
  Private     10.1.2.3:54321
              [fd00::7]:54321
  Metrics     http://127.0.0.1:9090/metrics
  Workspace   /srv/flows/data

  Executor       Address                    Device   Model
  encoder        127.0.0.1:41233            cpu      all-MiniLM-L6-v2
  logger/rep-0   127.0.0.1:41234
  far            https://far:9 (external)

  ready after 0.42 s; stop with Ctrl-C

",
        );
    }

    #[test]
    fn a_flow_without_executors_has_no_table_of_them() {
        let banner = Banner {
            protocol: "GRPC".to_owned(),
            local: vec!["127.0.0.1:54321".to_owned()],
            ..Banner::default()
        };
        check(
            &banner,
            "\
────────────────── flow is ready to serve ──────────────────

  Protocol   GRPC
  Local      127.0.0.1:54321

  ready after 0.00 s; stop with Ctrl-C

",
        );
    }
}
