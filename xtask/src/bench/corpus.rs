//! Texts that measurements share.

use std::fs;
use std::io::Write;
use std::path::Path;

/// The tutorial's sentence: 14 tokens with the two special ones.
pub(super) const SENTENCE: &str = "Using a GPU allows you to significantly speed up encoding.";

/// Writes the tutorial's documents as JSON lines.
pub(super) fn write_tutorial(path: &Path, docs: usize) -> anyhow::Result<()> {
    let mut file = std::io::BufWriter::new(fs::File::create(path)?);
    let line = serde_json::json!({ "text": SENTENCE });
    for _ in 0..docs {
        writeln!(file, "{line}")?;
    }
    Ok(file.flush()?)
}
