//! Lines of processes as JSON objects.

use serde_json::{Map, Value};

/// A line as a JSON object that names its process. A line that is a JSON object keeps its fields; any other line becomes
/// the field `message`.
pub(super) fn json_line(process: &str, line: &str) -> Map<String, Value> {
    let own: Option<Map<String, Value>> = serde_json::from_str(line).ok();
    let mut fields = own.unwrap_or_else(|| Map::from_iter([("message".to_owned(), line.into())]));
    fields.insert("process".to_owned(), process.into());
    fields
}
