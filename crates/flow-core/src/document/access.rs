//! Access paths: select documents of a request, their chunks, their matches, and so on.
//!
//! The notation is DocArray's: `@r` selects the documents of the request, `@c` their chunks, `@m` their matches, `@cc`
//! the chunks of their chunks, `@r,c` both. Jina 2 has the same without `@`, as a list.
//!
//! `@leaf` is an extension: it selects the smallest parts of a document, which is the document itself if it has no
//! chunks. So one node can serve documents that are indexed in parts and queries that are whole.

use std::slice;

use serde::Deserialize;

use super::{BadDocument, Document};

/// Selects documents of a request, or documents nested in them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct AccessPaths(Vec<Vec<Step>>);

/// One step of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Chunks,
    Matches,
    /// The smallest parts; always the last step.
    Leaves,
}

/// The path to the smallest parts.
const LEAF: &str = "leaf";

/// Longest text, in bytes. Clients send access paths, and each path visits all documents.
const TEXT_LEN_MAX: usize = 256;

/// What an error shows of a text that is too long, in characters.
const EXCERPT_CHARS: usize = 32;

/// The text is not an access path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an access path: `@r` means the documents, `@c` their chunks, `@m` their matches, `@cc` chunks of chunks, `@r,c` both, `@leaf` the smallest parts; slices and selectors are not supported"
)]
pub struct BadAccessPath(String);

/// In the notation of DocArray, or in that of Jina 2.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "must be a text such as `@r` or `@c`, or a list of them"
)]
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
        if text.len() > TEXT_LEN_MAX {
            let start = text.char_indices().nth(EXCERPT_CHARS);
            let start = &text[..start.map_or(text.len(), |(end, _)| end)];
            return Err(BadAccessPath(format!("{start}…")));
        }
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
    /// The documents of the request.
    fn default() -> Self {
        Self(vec![Vec::new()])
    }
}

impl AccessPaths {
    /// Calls `visit` with each selected document: with those of the first document, path by path, then with those of the second, and so
    /// on. The order is the same as when each document is visited alone.
    ///
    /// # Errors
    ///
    /// If the chunks or matches of a document cannot be read.
    pub fn visit(
        &self,
        documents: &mut [Document],
        visit: &mut dyn FnMut(&mut Document),
    ) -> Result<(), BadDocument> {
        self.try_visit(documents, &mut |document| {
            visit(document);
            Ok(())
        })
    }

    /// Calls `visit` with each selected document, in the order of [`visit`](Self::visit), and stops at the first error.
    ///
    /// # Errors
    ///
    /// If the chunks or matches of a document cannot be read, or `visit` fails.
    pub fn try_visit<E: From<BadDocument>>(
        &self,
        documents: &mut [Document],
        visit: &mut dyn FnMut(&mut Document) -> Result<(), E>,
    ) -> Result<(), E> {
        for document in documents {
            for path in &self.0 {
                walk(path, slice::from_mut(document), visit)?;
            }
        }
        Ok(())
    }
}

fn parse(steps: &str) -> Option<Vec<Step>> {
    if steps == LEAF {
        return Some(vec![Step::Leaves]);
    }
    // `r` means the documents themselves, so only the first step can be one.
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

fn walk<E: From<BadDocument>>(
    path: &[Step],
    documents: &mut [Document],
    visit: &mut dyn FnMut(&mut Document) -> Result<(), E>,
) -> Result<(), E> {
    let Some((step, rest)) = path.split_first() else {
        return documents.iter_mut().try_for_each(visit);
    };
    for document in documents {
        match step {
            Step::Chunks => walk(rest, document.chunks_mut()?, visit)?,
            Step::Matches => walk(rest, document.matches_mut()?, visit)?,
            Step::Leaves if document.has_chunks() => walk(path, document.chunks_mut()?, visit)?,
            Step::Leaves => visit(document)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::format::malformed;
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
    fn paths_select_the_documents_that_docarray_selects() {
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
            ("@leaf", &["chunk of chunk"]),
            ("@r,leaf", &["root", "chunk of chunk"]),
        ] {
            assert_eq!(texts(paths), wanted, "{paths}");
        }
    }

    #[test]
    fn a_document_without_chunks_is_its_own_smallest_part() {
        let mut whole = [Document::from_text("whole")];
        let before = whole.clone();
        let mut texts = Vec::new();
        let paths: AccessPaths = "@leaf".parse().unwrap();
        let mut visit = |document: &mut Document| texts.push(document.text());
        paths.visit(&mut whole, &mut visit).unwrap();
        assert_eq!(texts, ["whole"]);
        assert_eq!(whole, before);
    }

    #[test]
    fn documents_are_visited_one_after_another() {
        let mut documents = ["a", "b"].map(|text| {
            let mut document = Document::from_text(text);
            document.set_chunks(vec![Document::from_text(&format!("part of {text}"))]);
            document
        });
        let mut texts = Vec::new();
        let paths: AccessPaths = "@c,r".parse().unwrap();
        let mut visit = |document: &mut Document| texts.push(document.text());
        paths.visit(&mut documents, &mut visit).unwrap();
        assert_eq!(texts, ["part of a", "a", "part of b", "b"]);
    }

    #[test]
    fn the_first_error_ends_a_visit() {
        let mut documents = ["a", "b", "c"].map(Document::from_text);
        let mut seen = Vec::new();
        let outcome = AccessPaths::default().try_visit(&mut documents, &mut |document| {
            seen.push(document.text());
            match seen.len() {
                2 => Err(malformed("b")),
                _ => Ok(()),
            }
        });
        assert_eq!(outcome, Err(malformed("b")));
        assert_eq!(seen, ["a", "b"]);
    }

    #[test]
    fn an_invalid_path_is_an_error() {
        for bad in ["", "@", "@x", "@cr", "@r[0]", "@r,,c", "text", "@cleaf"] {
            assert!(bad.parse::<AccessPaths>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_long_path_is_an_error_that_shows_its_beginning() {
        let error = "c".repeat(100_000).parse::<AccessPaths>().unwrap_err();
        assert_eq!(error.0, format!("{}…", "c".repeat(32)));
    }

    #[test]
    fn the_notation_of_jina_2_is_a_list() {
        let paths: AccessPaths = serde_json::from_str(r#"["r", "c"]"#).unwrap();
        assert_eq!(paths, "@r,c".parse().unwrap());
    }
}
