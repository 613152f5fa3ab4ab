//! `flow hub list` and `flow hub info`: describe executors in a hub without pulling their images.

use clap::Args;
use flow_docker::labels::{IMAGE_DEVICES, IMAGE_EXECUTOR, IMAGE_KEYWORDS, IMAGE_WIRE};
use flow_hub::{ImageDetails, Registry};
use serde_json::{Value, json};

use super::labels::{DESCRIPTION, Labels, TITLE, URL, VERSION};
use super::location::{self, HubLocation, LocationOptions};
use crate::escape::escape_json;
use crate::exit::Exit;
use crate::output::{self, Painter};
use crate::shell::Shell;
use crate::table::Table;

/// The tag that represents an executor, if it has this tag.
const TAG_DEFAULT: &str = "latest";

const LIST_EXAMPLES: &str = "\
EXAMPLES:
  flow hub list
  flow hub list encoder --hub registry.example.com/team
  flow hub list --json

Exit codes: 0 success, 1 failure, 2 bad usage.";

const INFO_EXAMPLES: &str = "\
EXAMPLES:
  flow hub info TransformerTorchEncoder
  flow hub info TransformerTorchEncoder:gpu --json

Exit codes: 0 success, 1 failure, 2 bad usage.";

/// Options of `flow hub list`.
#[derive(Debug, Args)]
#[command(after_help = LIST_EXAMPLES)]
pub(crate) struct List {
    /// List only executors whose name, keywords or description contain WORD
    #[arg(value_name = "WORD")]
    word: Option<String>,
    /// Include images that are not executors
    #[arg(long)]
    all: bool,
    /// Print a JSON array instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    location: LocationOptions,
}

/// Options of `flow hub info`.
#[derive(Debug, Args)]
#[command(after_help = INFO_EXAMPLES)]
pub(crate) struct Info {
    /// Name of the executor, optionally with a tag
    #[arg(value_name = "NAME[:TAG]")]
    name: String,
    /// Print a JSON object instead of a table
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    location: LocationOptions,
}

/// An executor of a hub.
struct HubExecutor {
    /// Its path below the hub.
    name: String,
    tags: Vec<String>,
    labels: Labels,
}

pub(super) fn list(list: &List, shell: &Shell) -> anyhow::Result<Exit> {
    let location = list.location.resolve(shell)?;
    let registry = location.registry(shell)?;
    let mut entries = entries(&registry, &location)?;
    entries.retain(|entry| (list.all || entry.is_executor()) && entry.has(list.word.as_deref()));
    if list.json {
        let all: Vec<Value> = entries.iter().map(HubExecutor::json).collect();
        output::line(&escape_json(&json!(all).to_string()))?;
        return Ok(Exit::Fine);
    }
    if entries.is_empty() {
        output::error_line(&format!("no such executors in {}", location.hub));
    }
    let head = ["NAME", "TAGS", "VERSION", "DEVICES", "DESCRIPTION"];
    let table = Table {
        head: Some(head.map(str::to_owned).into()),
        rows: entries.iter().map(HubExecutor::row).collect(),
    };
    let columns = output::columns(std::io::stdout());
    output::bytes(table.text(Painter::stdout(shell), columns).as_bytes())?;
    Ok(Exit::Fine)
}

fn entries(registry: &Registry, location: &HubLocation) -> anyhow::Result<Vec<HubExecutor>> {
    let mut entries = Vec::new();
    for repository in registry.repositories()? {
        let Some(name) = repository.strip_prefix(&location.folder) else {
            continue;
        };
        let tags = registry.tags(&repository)?;
        // The name stays when all tags are deleted.
        let Some(tag) = representative(&tags) else {
            continue;
        };
        let config = registry.image(&repository, tag)?.config;
        entries.push(HubExecutor {
            name: name.to_owned(),
            labels: Labels(config.labels),
            tags,
        });
    }
    Ok(entries)
}

fn representative(tags: &[String]) -> Option<&str> {
    let latest = tags.iter().find(|tag| *tag == TAG_DEFAULT);
    latest.or(tags.last()).map(String::as_str)
}

impl HubExecutor {
    fn is_executor(&self) -> bool {
        let is_said = |label| !self.labels.get(label).is_empty();
        is_said(IMAGE_EXECUTOR) || is_said(IMAGE_WIRE)
    }

    fn has(&self, word: Option<&str>) -> bool {
        let labels = [TITLE, DESCRIPTION, IMAGE_KEYWORDS].map(|label| self.labels.get(label));
        let texts = labels.into_iter().chain([self.name.as_str()]);
        let mut texts = texts.map(str::to_lowercase);
        word.is_none_or(|word| texts.any(|text| text.contains(&word.to_lowercase())))
    }

    fn row(&self) -> Vec<String> {
        let label = |name| self.labels.get(name).to_owned();
        vec![
            self.name.clone(),
            self.tags.join(", "),
            label(VERSION),
            label(IMAGE_DEVICES),
            label(DESCRIPTION),
        ]
    }

    fn json(&self) -> Value {
        json!({"name": self.name, "tags": self.tags, "labels": self.labels.0})
    }
}

pub(super) fn info(info: &Info, shell: &Shell) -> anyhow::Result<Exit> {
    let location = info.location.resolve(shell)?;
    let name = location::parse_name(&info.name)?;
    let registry = location.registry(shell)?;
    let repository = location.repository(&name);
    let tags = registry.tags(&repository)?;
    let details = registry.image(&repository, name.tag())?;
    let uses = format!("hub://{}:{}", name.repository(), name.tag());
    let image = name.image(&location.hub);
    if info.json {
        let all = json!({
            "uses": uses, "image": image, "digest": details.digest, "tags": tags,
            "platform": details.config.platform, "created": details.config.created,
            "bytes": details.bytes, "labels": details.config.labels,
        });
        output::line(&escape_json(&all.to_string()))?;
        return Ok(Exit::Fine);
    }
    let mut rows = described(&details);
    let row = |name: &str, value: &str| vec![name.to_owned(), value.to_owned()];
    rows.extend([
        row("tags", &tags.join(", ")),
        row("image", &image),
        row("digest", &details.digest),
        row("uses", &uses),
    ]);
    rows.retain(|row| !row[1].is_empty());
    let table = Table { head: None, rows };
    // Digests and names are copied from here, so they are not wrapped.
    output::bytes(table.text(Painter::stdout(shell), None).as_bytes())?;
    Ok(Exit::Fine)
}

/// The labels and properties of an image, as names and values.
fn described(details: &ImageDetails) -> Vec<Vec<String>> {
    let labels = Labels(details.config.labels.clone());
    let size = format!("{:.1} MB to download", megabytes(details.bytes));
    let rows = [
        ("name", labels.get(TITLE)),
        ("description", labels.get(DESCRIPTION)),
        ("keywords", labels.get(IMAGE_KEYWORDS)),
        ("version", labels.get(VERSION)),
        ("project", labels.get(URL)),
        ("devices", labels.get(IMAGE_DEVICES)),
        ("wire", labels.get(IMAGE_WIRE)),
        ("platform", &details.config.platform),
        ("size", &size),
        ("created", &details.config.created),
    ];
    let row = |(name, value): (&str, &str)| vec![name.to_owned(), value.to_owned()];
    rows.map(row).into()
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a size is read by people, to one place"
)]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_tag_represents_an_executor_or_else_the_last() {
        let check = |tags: &[&str], expected: Option<&str>| {
            let tags: Vec<String> = tags.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(representative(&tags), expected);
        };
        check(&["gpu", "latest", "v1"], Some("latest"));
        check(&["gpu", "v1"], Some("v1"));
        check(&[], None);
    }

    #[test]
    fn a_word_is_searched_in_name_description_and_keywords() {
        let mut labels = Labels::default();
        labels.put(DESCRIPTION, Some("Upper-cases every text."));
        labels.put(IMAGE_KEYWORDS, Some("loud,text"));
        let entry = HubExecutor {
            name: "shout".to_owned(),
            tags: Vec::new(),
            labels,
        };
        for word in ["SHOUT", "upper", "loud"] {
            assert!(entry.has(Some(word)), "{word}");
        }
        assert!(entry.has(None) && !entry.has(Some("encoder")));
    }
}
