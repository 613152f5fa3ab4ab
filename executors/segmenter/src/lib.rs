//! Cuts the texts of documents into chunks: sentences, or windows of words.
//!
//! `cut.rs` decides where to cut; this file writes what was cut as chunks of the documents, in either
//! version. `output_budget.rs` limits the bytes of what one call makes.

#![warn(missing_docs)]

mod cut;
mod output_budget;

use flow_executor::{
    AccessPaths, BadDocument, CallError, Chain, DocArrayVersion, Document, Endpoints, Executor,
    LoadContext, LoadError, Parameters,
};
use serde::Deserialize;

use cut::{Cut, Piece};
use output_budget::OutputBudget;

pub use cut::{BadCut, SplitUnit};

/// What a request may say in place of the options of the same names.
const PARAMETERS: [&str; 3] = ["by", "max_words", "overlap"];

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
        let mut budget = OutputBudget::for_input(docs);
        self.access_paths
            .try_visit(docs, &mut |doc| match doc.has_text() {
                true => self.cut_up(doc, &cut, &mut budget),
                false => Ok(()),
            })
    }

    /// `by`, `max_words` and `overlap` may be given with a request too.
    fn cut_for(&self, parameters: &Parameters) -> Result<Cut, CallError> {
        let [by, max_words, overlap] = PARAMETERS;
        let cut = self.cut.with(
            parameters.get(by)?,
            parameters.get(max_words)?,
            parameters.get(overlap)?,
        );
        cut.map_err(|error| CallError::bad_request(Chain(&error).to_string()))
    }

    /// A document that is cut again loses its chunks to the new ones.
    fn cut_up(
        &self,
        doc: &mut Document,
        cut: &Cut,
        budget: &mut OutputBudget,
    ) -> Result<(), CallError> {
        let (text, copied) = (doc.text(), self.copied_len(doc));
        let pieces = match cut.pieces(&text, budget.chunks_max(copied)) {
            Err(BadCut::TooManyChunks(_)) => return Err(budget.exceeded()),
            pieces => pieces.map_err(|error| CallError::bad_request(Chain(&error).to_string()))?,
        };
        let bytes = pieces.iter().map(|piece| piece.bytes.len()).sum();
        budget.take(pieces.len(), copied, bytes)?;
        let pieces = pieces.iter().enumerate();
        let chunks = pieces.map(|(place, piece)| self.chunk(doc, &text, (place, piece)));
        let chunks: Result<Vec<Document>, _> = chunks.collect();
        doc.set_chunks(chunks?);
        Ok(())
    }

    /// Bytes that each chunk copies from its document: its id twice, as the parent's and in its own, and its tags.
    fn copied_len(&self, doc: &Document) -> usize {
        let tags = if self.copy_tags { doc.tags_len() } else { 0 };
        tags.saturating_add(2 * doc.id().len())
    }

    fn chunk(
        &self,
        doc: &Document,
        text: &str,
        (place, piece): (usize, &Piece),
    ) -> Result<Document, BadDocument> {
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
        // A document takes much less memory once it is encoded than as a list of changes.
        Document::decode(chunk.version(), chunk.encode())
    }
}

#[cfg(test)]
mod tests;
