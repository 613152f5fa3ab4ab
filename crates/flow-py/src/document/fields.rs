//! The attributes of documents.

/// The attributes in the order in which DocArray lists them.
pub(super) const FIELDS: &[&str] = &[
    "id",
    "parent_id",
    "granularity",
    "adjacency",
    "blob",
    "tensor",
    "mime_type",
    "text",
    "weight",
    "uri",
    "tags",
    "offset",
    "location",
    "embedding",
    "modality",
    "evaluations",
    "scores",
    "chunks",
    "matches",
];

/// The attributes with an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ArrayField {
    Embedding,
    Tensor,
}

/// The attributes with nested documents.
#[derive(Debug, Clone, Copy)]
pub(super) enum Nested {
    Chunks,
    Matches,
}

/// The attributes with scores.
#[derive(Debug, Clone, Copy)]
pub(super) enum Scores {
    Scores,
    Evaluations,
}

/// What documents of an array are of another document. It is written into those that are added.
#[derive(Debug, Clone, Default)]
pub(super) enum Relation {
    #[default]
    Nothing,
    ChunksOf {
        id: String,
        granularity: u32,
    },
    MatchesOf {
        adjacency: u32,
    },
}

impl ArrayField {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Embedding => "embedding",
            Self::Tensor => "tensor",
        }
    }
}

impl Scores {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Scores => "scores",
            Self::Evaluations => "evaluations",
        }
    }
}
