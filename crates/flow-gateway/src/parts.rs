//! Documents on their way between nodes: mostly one array, several if they are not merged.

use bytes::Bytes;
use flow_spec::DocumentSource;

/// Documents, and the node that made them.
#[derive(Debug, Clone)]
pub(crate) struct Part {
    pub(crate) data: Option<Bytes>,
    pub(crate) from: DocumentSource,
}

/// What a node gets or makes: at least one part.
#[derive(Debug, Clone)]
pub(crate) struct Parts {
    first: Part,
    /// Empty on linear flows, where it allocates nothing.
    more: Vec<Part>,
}

impl Parts {
    pub(crate) fn one(data: Option<Bytes>, from: DocumentSource) -> Self {
        Self {
            first: Part { data, from },
            more: Vec::new(),
        }
    }

    /// The parts of all of them, in order; `None` if there are none.
    pub(crate) fn joined(all: impl IntoIterator<Item = Self>) -> Option<Self> {
        let mut all = all.into_iter();
        let mut joined = all.next()?;
        for next in all {
            joined.more.push(next.first);
            joined.more.extend(next.more);
        }
        Some(joined)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Part> {
        std::iter::once(&self.first).chain(&self.more)
    }

    pub(crate) fn is_one(&self) -> bool {
        self.more.is_empty()
    }

    /// Bytes of all parts.
    pub(crate) fn len(&self) -> usize {
        let len = |part: &Part| part.data.as_ref().map_or(0, Bytes::len);
        self.iter().map(len).sum()
    }

    /// The documents of each part.
    pub(crate) fn data(&self) -> Vec<Option<Bytes>> {
        self.iter().map(|part| part.data.clone()).collect()
    }

    pub(crate) fn first(&self) -> &Part {
        &self.first
    }

    /// Changes the documents of each part.
    pub(crate) fn try_map<E>(
        self,
        mut change: impl FnMut(Option<Bytes>) -> Result<Option<Bytes>, E>,
    ) -> Result<Self, E> {
        let mut change = |part: Part| -> Result<Part, E> {
            Ok(Part {
                data: change(part.data)?,
                from: part.from,
            })
        };
        Ok(Self {
            first: change(self.first)?,
            more: self
                .more
                .into_iter()
                .map(change)
                .collect::<Result<_, _>>()?,
        })
    }
}
