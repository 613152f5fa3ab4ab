//! The banner of `flow up`: the addresses and executors of a flow that is ready, for a terminal of any width.

use std::time::Duration;

use crate::escape::escape;
use crate::layout::{width, wrap, wrap_indented};
use crate::output::{Colour, Painter};
use crate::table::{GAP, INDENT, Table};

/// The content of the banner.
#[derive(Debug, Clone, Default)]
pub(crate) struct Banner {
    /// Protocol of the gateway.
    pub(crate) protocol: String,
    /// Addresses for programs on this machine.
    pub(crate) local: Vec<String>,
    /// Addresses for other machines.
    pub(crate) private: Vec<String>,
    /// Address of the gateway's metrics, if it serves any.
    pub(crate) metrics: Option<String>,
    /// The folders in which the flow and its executors store data.
    pub(crate) workspaces: Vec<String>,
    /// The processes of executors.
    pub(crate) executors: Vec<Row>,
    /// Whether any program on another machine can use the flow, without a key and in plain text.
    pub(crate) is_open: bool,
    /// Time from the command to the banner.
    pub(crate) took: Duration,
}

/// One executor process.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) address: String,
    /// Properties that it reports, such as its device and its model.
    pub(crate) facts: Vec<(String, String)>,
}

/// Minimum width of the rule above the banner. A wider table makes it longer, a narrow terminal shorter.
const RULE_WIDTH_MIN: usize = 60;

/// Minimum columns for the facts beside an executor's name. With fewer, they are below the name.
const FACTS_WIDTH_MIN: usize = 30;

/// The warning about a port that is open to other machines.
const OPEN: &str = "  other machines can use this flow: it has neither TLS nor API keys";

impl Banner {
    /// The banner as lines of text, none wider than `columns` if that is given.
    pub(crate) fn text(&self, painter: Painter, columns: Option<usize>) -> String {
        let endpoint = Table {
            head: None,
            rows: self.endpoint_rows(),
        };
        let executors = Table {
            head: Some(self.heads()),
            rows: self.executor_rows(),
        };
        let wanted = endpoint.width().max(executors.width()) + INDENT;
        let rule_width = wanted.max(RULE_WIDTH_MIN);
        let executors = match columns {
            Some(columns) if executors.width() > columns => self.executor_list(painter, columns),
            _ => executors.text(painter, None),
        };
        let blocks = [
            rule(
                rule_width.min(columns.unwrap_or(usize::MAX)),
                "flow is ready to serve",
                painter,
            ),
            endpoint.text(painter, columns),
            executors,
            self.warning(painter, columns),
            self.end(columns),
        ];
        let shown = blocks.iter().filter(|block| !block.is_empty());
        shown.map(|block| format!("{block}\n")).collect()
    }

    fn warning(&self, painter: Painter, columns: Option<usize>) -> String {
        if !self.is_open {
            return String::new();
        }
        let text = wrap_indented(OPEN, columns.unwrap_or(usize::MAX), INDENT);
        painter.paint(Colour::Yellow, &text) + "\n"
    }

    fn end(&self, columns: Option<usize>) -> String {
        let end = format!("  ready after {}; stop with Ctrl-C", seconds(self.took));
        wrap_indented(&end, columns.unwrap_or(usize::MAX), INDENT) + "\n"
    }

    /// The executors as a list, for a terminal that is narrower than their table.
    fn executor_list(&self, painter: Painter, columns: usize) -> String {
        let names = self.executors.iter().map(|row| width(&row.name));
        let indent = INDENT + names.max().unwrap_or(0) + GAP;
        let indent = match indent + FACTS_WIDTH_MIN <= columns {
            true => indent,
            false => 2 * INDENT,
        };
        let rows = self.executors.iter();
        rows.map(|row| row.listed(painter, columns, indent))
            .collect()
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

    /// The names of all facts, each once.
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
    /// The name, and from column `indent` on, beside or below it, the address and all facts.
    fn listed(&self, painter: Painter, columns: usize, indent: usize) -> String {
        let blanks = |count: usize| " ".repeat(count);
        let bold = |text: &str| painter.paint(Colour::Bold, text);
        let has_name_beside = INDENT + width(&self.name) + GAP <= indent;
        let mut lines = Vec::new();
        if !has_name_beside {
            let names = wrap(&self.name, columns.saturating_sub(INDENT).max(1));
            lines.extend(names.iter().map(|name| blanks(INDENT) + &bold(name)));
        }
        let available = columns.saturating_sub(indent).max(1);
        for (number, piece) in self.described(painter, available).into_iter().enumerate() {
            let before = if has_name_beside && number == 0 {
                let padding = indent - INDENT - width(&self.name);
                blanks(INDENT) + &bold(&self.name) + &blanks(padding)
            } else {
                blanks(indent)
            };
            lines.push(before + &piece);
        }
        lines.join("\n") + "\n"
    }

    /// The address and the facts, on lines of at most `columns` columns.
    fn described(&self, painter: Painter, columns: usize) -> Vec<String> {
        let address = wrap(&escape(&self.address), columns).into_iter();
        let address = address.map(|piece| painter.paint(Colour::Cyan, &piece));
        let facts = self
            .facts
            .iter()
            .map(|(key, value)| format!("{key} {value}"));
        let facts: Vec<String> = facts.collect();
        let facts = wrap(&escape(&facts.join(", ")), columns).into_iter();
        address
            .chain(facts.filter(|line| !line.is_empty()))
            .collect()
    }

    fn fact(&self, key: &str) -> String {
        let found = self.facts.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.clone()).unwrap_or_default()
    }
}

/// A row for each value. The first row has the title.
fn titled<'v>(title: &'v str, values: &'v [String]) -> impl Iterator<Item = Vec<String>> + 'v {
    let titles = std::iter::once(title).chain(std::iter::repeat(""));
    let rows = titles.zip(values);
    rows.map(|(title, value)| vec![title.to_owned(), value.clone()])
}

/// A horizontal line with a title in the middle, or the title alone if there is no room.
fn rule(columns: usize, title: &str, painter: Painter) -> String {
    let dashes = columns.saturating_sub(width(title) + 2);
    if dashes < 2 {
        return format!("{}\n", painter.paint(Colour::Green, title));
    }
    let (left, right) = (dashes / 2, dashes - dashes / 2);
    let bar = |len| painter.paint(Colour::Dim, &"─".repeat(len));
    format!(
        "{} {} {}\n",
        bar(left),
        painter.paint(Colour::Green, title),
        bar(right)
    )
}

/// The title of a column.
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
        let text = banner.text(Painter::off(), None);
        assert_eq!(text, expected, "\n{text}");
    }

    /// As the sentence encoder describes itself.
    fn encoders() -> Banner {
        let facts = [
            ("back_end", "avx512-bf16"),
            ("device", "cpu"),
            ("dimensions", "384"),
            ("engine", "flow"),
            ("model", "sentence-transformers/all-MiniLM-L6-v2"),
            ("precision", "f32"),
            ("threads", "2"),
        ];
        Banner {
            protocol: "GRPC".to_owned(),
            local: vec!["127.0.0.1:54321".to_owned()],
            private: vec!["[2001:db8:85a3:8d3:1319:8a2e:370:7348]:54321".to_owned()],
            metrics: Some("http://127.0.0.1:9090/metrics".to_owned()),
            executors: vec![
                row("encoder/rep-0", "127.0.0.1:41233", &facts),
                row("far", "https://models.example.com:443 (external)", &[]),
            ],
            workspaces: Vec::new(),
            is_open: false,
            took: Duration::from_millis(417),
        }
    }

    #[test]
    fn on_a_narrow_terminal_the_executors_are_a_list() {
        let text = encoders().text(Painter::off(), Some(80));
        let expected = "\
──────────────────────────── flow is ready to serve ────────────────────────────

  Protocol   GRPC
  Local      127.0.0.1:54321
  Private    [2001:db8:85a3:8d3:1319:8a2e:370:7348]:54321
  Metrics    http://127.0.0.1:9090/metrics

  encoder/rep-0   127.0.0.1:41233
                  back_end avx512-bf16, device cpu, dimensions 384, engine flow,
                  model sentence-transformers/all-MiniLM-L6-v2, precision f32,
                  threads 2
  far             https://models.example.com:443 (external)

  ready after 0.42 s; stop with Ctrl-C

";
        assert_eq!(text, expected, "\n{text}");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in 25..220 {
            let text = encoders().text(Painter::off(), Some(columns));
            for line in text.lines() {
                assert!(width(line) <= columns, "{columns}: {line:?}");
            }
            let text = text.to_lowercase();
            for part in ["127.0.0.1:41233", "threads"] {
                assert!(text.contains(part), "{columns}:\n{text}");
            }
        }
    }

    #[test]
    fn a_wide_terminal_shows_the_same_as_a_pipe() {
        let banner = encoders();
        assert_eq!(
            banner.text(Painter::off(), Some(300)),
            banner.text(Painter::off(), None)
        );
    }

    #[test]
    fn it_shows_addresses_and_executors() {
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
            is_open: true,
            took: Duration::from_millis(417),
        };
        check(
            &banner,
            "\
─────────────────────── flow is ready to serve ────────────────────────

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

  other machines can use this flow: it has neither TLS nor API keys

  ready after 0.42 s; stop with Ctrl-C

",
        );
    }

    #[test]
    fn without_executors_there_is_no_table() {
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
