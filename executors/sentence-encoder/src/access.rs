//! Which documents are meant: the roots, their chunks, their matches, and so on down.
//!
//! The notation is DocArray's: `@r` the documents of the request, `@c` their chunks, `@m` their
//! matches, `@cc` the chunks of their chunks, `@r,c` both. Jina 2 wrote the same without `@`, as a list.

use flow_core::{BadDocument, Document};
use serde::Deserialize;

/// Ways from the documents of a request to those that are meant.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct AccessPaths(Vec<Vec<Step>>);

/// One step down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Chunks,
    Matches,
}

/// The text is no access path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no access path: `@r` means the documents, `@c` their chunks, `@m` their matches, `@cc` chunks of chunks, `@r,c` both; slices and selectors are not built"
)]
pub struct BadAccessPath(String);

/// As DocArray writes it, or as Jina 2 did.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    List(Vec<String>),
}

impl TryFrom<Written> for AccessPaths {
    type Error = BadAccessPath;

    fn try_from(written: Written) -> Result<Self, BadAccessPath> {
        match written {
            Written::Text(text) => text.parse(),
            Written::List(list) => list.join(",").parse(),
        }
    }
}

impl std::str::FromStr for AccessPaths {
    type Err = BadAccessPath;

    fn from_str(text: &str) -> Result<Self, BadAccessPath> {
        let mut paths = Vec::new();
        for part in text.split(',') {
            let part = part.trim();
            let steps = part.strip_prefix('@').unwrap_or(part);
            let path = parse(steps).ok_or_else(|| BadAccessPath(text.to_owned()))?;
            if !paths.contains(&path) {
                paths.push(path);
            }
        }
        Ok(Self(paths))
    }
}

impl Default for AccessPaths {
    /// The documents themselves.
    fn default() -> Self {
        Self(vec![Vec::new()])
    }
}

impl AccessPaths {
    /// Calls `visit` with each document that is meant, always in the same order.
    ///
    /// # Errors
    ///
    /// If the chunks or matches of a document cannot be read.
    pub fn visit(
        &self,
        documents: &mut [Document],
        visit: &mut dyn FnMut(&mut Document),
    ) -> Result<(), BadDocument> {
        self.0
            .iter()
            .try_for_each(|path| walk(path, documents, visit))
    }
}

fn parse(steps: &str) -> Option<Vec<Step>> {
    // `r` stands for where one is, so it can only come first.
    let below = steps.strip_prefix('r').unwrap_or(steps);
    let step = |letter| match letter {
        'c' => Some(Step::Chunks),
        'm' => Some(Step::Matches),
        _ => None,
    };
    if steps.is_empty() {
        None
    } else {
        below.chars().map(step).collect()
    }
}

fn walk(
    path: &[Step],
    documents: &mut [Document],
    visit: &mut dyn FnMut(&mut Document),
) -> Result<(), BadDocument> {
    let Some((step, rest)) = path.split_first() else {
        documents.iter_mut().for_each(visit);
        return Ok(());
    };
    for document in documents {
        let below = match step {
            Step::Chunks => document.chunks_mut()?,
            Step::Matches => document.matches_mut()?,
        };
        walk(rest, below, visit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(paths: &str) -> Vec<String> {
        let mut root = Document::from_text("root");
        let mut chunk = Document::from_text("chunk");
        chunk
            .chunks_mut()
            .unwrap()
            .push(Document::from_text("chunk of chunk"));
        root.chunks_mut().unwrap().push(chunk);
        root.matches_mut()
            .unwrap()
            .push(Document::from_text("match"));
        let mut texts = Vec::new();
        let paths: AccessPaths = paths.parse().unwrap();
        paths
            .visit(&mut [root], &mut |document| texts.push(document.text()))
            .unwrap();
        texts
    }

    #[test]
    fn paths_lead_where_docarray_leads() {
        for (paths, wanted) in [
            ("@r", &["root"][..]),
            ("r", &["root"]),
            ("@c", &["chunk"]),
            ("@rc", &["chunk"]),
            ("@m", &["match"]),
            ("@cc", &["chunk of chunk"]),
            ("@r,c", &["root", "chunk"]),
            ("@r, @m", &["root", "match"]),
            ("@r,r", &["root"]),
            ("@mc", &[]),
        ] {
            assert_eq!(texts(paths), wanted, "{paths}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for bad in ["", "@", "@x", "@cr", "@r[0]", "@r,,c", "text"] {
            assert!(bad.parse::<AccessPaths>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn jina_2_wrote_a_list() {
        let paths: AccessPaths = serde_json::from_str(r#"["r", "c"]"#).unwrap();
        assert_eq!(paths, "@r,c".parse().unwrap());
    }
}
