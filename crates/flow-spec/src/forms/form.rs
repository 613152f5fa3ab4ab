//! The form of a value: how it is read from the file, and what editors and the reference page say about it.

use crate::diagnostics::Diagnostics;
use crate::yaml::YamlNode;

/// How the value of a key is written, and how it becomes a `T`.
#[derive(Debug)]
pub(crate) struct ValueForm<T> {
    pub(crate) shape: Shape,
    /// Reads a value that is not `null`; `None` if it was reported or asks for nothing.
    pub(crate) read: fn(&YamlNode, &mut Diagnostics) -> Option<T>,
}

impl<T> ValueForm<T> {
    pub(crate) const fn new(
        shape: Shape,
        read: fn(&YamlNode, &mut Diagnostics) -> Option<T>,
    ) -> Self {
        Self { shape, read }
    }
}

/// What a schema can say about a value. The reader has the last word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    Text,
    /// One text or a list of them.
    Texts,
    /// A name of an executor.
    Name,
    Flag,
    /// A truth value or this word.
    FlagOr(&'static str),
    /// A truth value, an origin, or a list of origins.
    Origins,
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
    /// A time or a percentage of calls.
    Hedge,
    /// One port or a list of them; 0 takes any.
    Ports,
    /// One of these words, in capitals or not.
    Word(&'static [&'static str]),
    /// One of these words or a list of them.
    Words(&'static [&'static str]),
    /// `1`, as text or number.
    Version,
    /// A mapping whose keys flow does not know.
    Mapping,
    /// A mapping of single values.
    Values,
    /// A truth value, or one name of a variable or a list of them.
    Variables,
    /// Endpoint → name of a method.
    Requests,
    /// Endpoint or method → how requests share calls.
    Batching,
    /// A number of bytes, or a number with a unit.
    Bytes,
    /// A number of processors.
    Cpus,
    /// Limits of an executor's processes.
    Sandbox,
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
    /// The other mappings of a flow file.
    With,
    Gateway,
    Executors,
    DeploymentOptions,
}
