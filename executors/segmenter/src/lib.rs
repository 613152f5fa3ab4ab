//! Cuts the texts of documents into chunks: sentences, or windows of words.
//!
//! `cut.rs` decides where to cut; this file writes what was cut as chunks of the documents, in either
//! version.

mod cut;

use flow_executor::{
    AccessPaths, CallError, Chain, DocArrayVersion, Document, Endpoints, Executor, LoadContext,
    LoadError, Parameters,
};
use serde::Deserialize;

use cut::{Cut, Piece};

pub use cut::{BadCut, SplitUnit};

/// What a request may say in place of the options of the same names.
const PARAMETERS: [&str; 3] = ["by", "max_words", "overlap"];

/// Bytes of tags that the chunks of one call get from their documents.
const COPIED_TAGS_MAX: usize = 64 << 20;

/// Gives each document with a text its parts as chunks; see its `README.md`.
#[derive(Debug, Clone)]
pub struct Segmenter {
    cut: Cut,
    access_paths: AccessPaths,
    copy_tags: bool,
}

/// The options of the segmenter.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct With {
    /// What chunks are made of; sentences if not given.
    pub by: SplitUnit,
    /// Most words of a chunk. With sentences, as many as fit become one chunk; not given: one sentence a
    /// chunk, or 128 words.
    pub max_words: Option<usize>,
    /// How many sentences, or words, of a chunk are repeated at the beginning of the next.
    pub overlap: usize,
    /// Which documents are cut, in DocArray's notation.
    #[serde(alias = "traversal_paths")]
    pub access_paths: AccessPaths,
    /// Chunks get their document's tags.
    pub copy_tags: bool,
}

impl Default for With {
    fn default() -> Self {
        Self {
            by: SplitUnit::default(),
            max_words: None,
            overlap: 0,
            access_paths: AccessPaths::default(),
            // A search finds chunks, and its user wants to know what was noted of their document.
            copy_tags: true,
        }
    }
}

impl Executor for Segmenter {
    type With = With;

    fn check(with: &With) -> Result<(), LoadError> {
        Cut::new(with.by, with.max_words, with.overlap)?;
        Ok(())
    }

    fn load(with: With, _: &LoadContext) -> Result<Self, LoadError> {
        Ok(Self {
            cut: Cut::new(with.by, with.max_words, with.overlap)?,
            access_paths: with.access_paths,
            copy_tags: with.copy_tags,
        })
    }

    /// No default: queries pass as they are.
    fn endpoints() -> Endpoints<Self> {
        Endpoints::new()
            .on_batch("/segment", Self::segment)
            .on_batch("/index", Self::segment)
            .accepts("/segment", PARAMETERS)
            .accepts("/index", PARAMETERS)
    }

    fn fork(&self) -> Option<flow_executor::Fork<Self>> {
        Some(flow_executor::Fork::of(self.clone()))
    }
}

impl Segmenter {
    fn segment(&mut self, docs: &mut [Document], parameters: &Parameters) -> Result<(), CallError> {
        let cut = self.cut_for(parameters)?;
        let (mut outcome, mut tags_left) = (Ok(()), COPIED_TAGS_MAX);
        self.access_paths.visit(docs, &mut |doc| {
            if doc.has_text() && outcome.is_ok() {
                outcome = self.cut_up(doc, &cut, &mut tags_left);
            }
        })?;
        outcome
    }

    /// `by`, `max_words` and `overlap` may be given with a request too.
    fn cut_for(&self, parameters: &Parameters) -> Result<Cut, CallError> {
        let bad = |error: &(dyn std::error::Error + 'static)| {
            CallError::bad_request(Chain(error).to_string())
        };
        let by = parameters.get("by").map_err(|error| bad(&error))?;
        let max_words = parameters.get("max_words").map_err(|error| bad(&error))?;
        let overlap = parameters.get("overlap").map_err(|error| bad(&error))?;
        self.cut
            .with(by, max_words, overlap)
            .map_err(|error| bad(&error))
    }

    /// A document that is cut again loses its chunks to the new ones. `tags_left` is the length of the tags that this call
    /// may still copy.
    fn cut_up(
        &self,
        doc: &mut Document,
        cut: &Cut,
        tags_left: &mut usize,
    ) -> Result<(), CallError> {
        let text = doc.text();
        let pieces = cut
            .pieces(&text)
            .map_err(|error| CallError::bad_request(Chain(&error).to_string()))?;
        if self.copy_tags {
            let copied = doc.tags_len().saturating_mul(pieces.len());
            *tags_left = tags_left.checked_sub(copied).ok_or_else(|| {
                CallError::bad_request(format!(
                    "the chunks of one call would repeat more than {COPIED_TAGS_MAX} bytes of tags; send fewer documents, \
                     or set `copy_tags` to false"
                ))
            })?;
        }
        let pieces = pieces.iter().enumerate();
        let chunks = pieces.map(|(place, piece)| self.chunk(doc, &text, (place, piece)));
        let chunks: Vec<Document> = chunks.collect();
        *doc.chunks_mut()? = chunks;
        Ok(())
    }

    fn chunk(&self, doc: &Document, text: &str, (place, piece): (usize, &Piece)) -> Document {
        let mut chunk = Document::of_version(doc.version());
        let parent = doc.id();
        if !parent.is_empty() {
            // The same text gives the same ids, so indexing it again adds nothing.
            chunk.set_id(&format!("{parent}-{place}"));
            chunk.set_parent_id(&parent);
        }
        chunk.set_text(&text[piece.bytes.clone()]);
        chunk.set_offset(place);
        chunk.set_location(piece.chars.start, piece.chars.end);
        if doc.version() == DocArrayVersion::V1 {
            chunk.set_granularity(doc.granularity() + 1);
        }
        if self.copy_tags {
            let tags = doc.tags();
            // A document of DocArray v2 without tags may be of a class that has no such field.
            if !tags.is_empty() {
                chunk.set_tags(&tags);
            }
        }
        chunk
    }
}

#[cfg(test)]
mod tests;
