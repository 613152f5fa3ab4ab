//! What a key's value may look like, as the schema tells it to editors.
//!
//! `read.rs` has the last word on values: a shape says no more than a schema can.

/// The form of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    /// One text or a list of them.
    Texts,
    /// A name of an executor.
    Name,
    Flag,
    /// A whole number from 1.
    Count,
    /// A whole number from 0.
    Window,
    /// A whole number from 1, or `auto`.
    Workers,
    /// A whole number from -1.
    Retries,
    /// Milliseconds or a text with a unit.
    Time,
    /// One port or a list of them; 0 takes any.
    Ports,
    /// One of these words, in capitals or not.
    Word(&'static [&'static str]),
    /// One of these words or a list of them.
    Words(&'static [&'static str]),
    /// `1`, as text or number.
    Version,
    /// A mapping that others understand.
    Mapping,
    /// A mapping of single values.
    Values,
    /// Endpoint → name of a method.
    Requests,
    /// Endpoint or method → how requests share calls.
    Batching,
    /// `ANY`, `ALL`, or endpoint → one of them.
    Polling,
    /// A condition on documents.
    Query,
    /// GPUs, as Docker reads them.
    Gpus,
    /// Options of a container.
    Docker,
    /// One volume or a list of them.
    Volumes,
    /// A program, a path, an image, or an executor's config in place.
    Uses,
    /// The other mappings of the dialect.
    With,
    Gateway,
    Executors,
    DeploymentOptions,
}
