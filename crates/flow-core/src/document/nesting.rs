//! Limits on how deep documents are nested and how many a request has, checked before they are decoded.
//!
//! The bytes are read once, with a stack on the heap: no input can exhaust the stack of the thread. Bytes that are not
//! valid are not reported here, but where they are decoded.

use flow_proto::DATA_DOCS;

use super::wire::Fields;
use super::{BadDocument, DocArrayVersion, v1, v2};

/// Most levels of nesting that [`Document`](super::Document) decodes, whatever a program's own limit is. Merging,
/// encoding and dropping documents are recursive, and this many levels fit into the stack of any thread.
pub(super) const DEPTH_MAX: u8 = 128;

/// The only field of an array of documents.
const DOCS: u32 = 1;

/// Limits on the documents of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentLimits {
    /// Levels of chunks and matches; a document without any has one level.
    pub depth_max: usize,
    /// Documents, nested ones included.
    pub documents_max: usize,
}

impl Default for DocumentLimits {
    fn default() -> Self {
        Self {
            // DocArray's own readers stop at 100 nested messages.
            depth_max: 64,
            // A document takes about 150 bytes of memory and as few as two on the wire: 40 MB.
            documents_max: 250_000,
        }
    }
}

impl DocumentLimits {
    /// The number of documents in the `data` field of a request.
    ///
    /// # Errors
    ///
    /// If they are nested too deep, or there are too many.
    pub fn check(&self, data: &[u8]) -> Result<usize, BadDocument> {
        let data = Frame::new(Level::Data, 0, data);
        Walk::new(*self).run(data)
    }

    /// The same for a single encoded document.
    ///
    /// # Errors
    ///
    /// As [`check`](Self::check).
    pub fn check_document(&self, document: &[u8]) -> Result<usize, BadDocument> {
        let mut walk = Walk::new(*self);
        let document = walk.document(1, document)?;
        walk.run(document)
    }
}

/// What a message is.
#[derive(Debug, Clone, Copy)]
enum Level {
    /// The `data` field of a request.
    Data,
    /// An array of documents.
    Array,
    Document,
    /// A field of a document, and its value; only in the second version.
    Entry,
    Node,
}

/// A message that has been read in part.
struct Frame<'a> {
    level: Level,
    /// Documents around its content.
    depth: usize,
    fields: Fields<'a>,
}

impl<'a> Frame<'a> {
    fn new(level: Level, depth: usize, message: &'a [u8]) -> Self {
        Self {
            level,
            depth,
            fields: Fields::of(message),
        }
    }
}

struct Walk {
    limits: DocumentLimits,
    documents: usize,
    /// That of the first document that is not empty, which is the version of all.
    version: Option<DocArrayVersion>,
}

impl Walk {
    fn new(limits: DocumentLimits) -> Self {
        Self {
            limits,
            documents: 0,
            version: None,
        }
    }

    fn run(mut self, first: Frame<'_>) -> Result<usize, BadDocument> {
        let mut stack = vec![first];
        while let Some(frame) = stack.last_mut() {
            match frame.fields.next() {
                Some(Ok(field)) if field.is_message => {
                    let (level, depth) = (frame.level, frame.depth);
                    let inside = self.inside(level, field.number);
                    if let Some(inside) = inside {
                        let next = match inside {
                            Level::Document => self.document(depth + 1, field.content)?,
                            other => Frame::new(other, depth, field.content),
                        };
                        stack.push(next);
                    }
                }
                Some(Ok(_number)) => {}
                // Decoding reports bytes that are not valid.
                Some(Err(_)) | None => drop(stack.pop()),
            }
        }
        Ok(self.documents)
    }

    /// What field `number` of a message contains, if documents can be in it.
    fn inside(&self, level: Level, number: u32) -> Option<Level> {
        match (level, number) {
            (Level::Data, DATA_DOCS) => Some(Level::Array),
            (Level::Array, DOCS) => Some(Level::Document),
            (Level::Document, number) => match self.version.unwrap_or_default() {
                DocArrayVersion::V1 => v1::is_nested(number).then_some(Level::Document),
                DocArrayVersion::V2 => (number == v2::DATA).then_some(Level::Entry),
            },
            (Level::Entry, v2::ENTRY_VALUE) => Some(Level::Node),
            (Level::Node, v2::NODE_DOC) => Some(Level::Document),
            (Level::Node, v2::NODE_DOC_ARRAY) => Some(Level::Array),
            _ => None,
        }
    }

    /// Counts a document.
    fn document<'a>(&mut self, depth: usize, document: &'a [u8]) -> Result<Frame<'a>, BadDocument> {
        let DocumentLimits {
            depth_max,
            documents_max,
        } = self.limits;
        self.documents += 1;
        if self.documents > documents_max {
            return Err(BadDocument::TooMany { max: documents_max });
        }
        if depth > depth_max {
            return Err(BadDocument::TooDeep { max: depth_max });
        }
        if self.version.is_none() {
            self.version = DocArrayVersion::of(document);
        }
        Ok(Frame::new(Level::Document, depth, document))
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};

    use super::super::{AccessPaths, Document, DocumentArray, wire};
    use super::*;

    /// The `data` of a request with one document in which `depth` documents are nested, all with the same id.
    fn nested(version: DocArrayVersion, depth: usize) -> Bytes {
        let mut id = Document::of_version(version);
        id.set_id("same");
        let id = id.encode();
        let mut document = id.clone();
        for _ in 1..depth {
            let mut outer = BytesMut::from(&id[..]);
            put_chunk(version, &mut outer, &document);
            document = outer.freeze();
        }
        let mut array = BytesMut::new();
        wire::put(&mut array, DOCS, &document);
        let mut data = BytesMut::new();
        wire::put(&mut data, DATA_DOCS, &array);
        data.freeze()
    }

    fn put_chunk(version: DocArrayVersion, out: &mut BytesMut, chunk: &Bytes) {
        let message = |fields: &[(u32, &[u8])]| {
            let mut message = BytesMut::new();
            for (number, content) in fields {
                wire::put(&mut message, *number, content);
            }
            message
        };
        match version {
            DocArrayVersion::V1 => wire::put(out, 14, chunk),
            DocArrayVersion::V2 => {
                let array = message(&[(DOCS, chunk)]);
                let node = message(&[(v2::NODE_DOC_ARRAY, &array)]);
                let entry = message(&[(1, b"chunks"), (v2::ENTRY_VALUE, &node)]);
                wire::put(out, v2::DATA, &entry);
            }
        }
    }

    const BOTH: [DocArrayVersion; 2] = [DocArrayVersion::V1, DocArrayVersion::V2];

    #[test]
    fn documents_are_counted_up_to_the_limits() {
        for version in BOTH {
            let limits = DocumentLimits {
                depth_max: 5,
                documents_max: 5,
            };
            assert_eq!(limits.check(&nested(version, 5)), Ok(5));
            let deep = limits.check(&nested(version, 6));
            assert_eq!(deep, Err(BadDocument::TooMany { max: 5 }));
            let limits = DocumentLimits {
                documents_max: 100,
                ..limits
            };
            let deep = limits.check(&nested(version, 6));
            assert_eq!(deep, Err(BadDocument::TooDeep { max: 5 }), "{version:?}");
        }
    }

    #[test]
    fn bytes_that_are_not_documents_are_not_reported_here() {
        for bytes in [&b"\xff\xff"[..], b"", b"\x0a\x04\x0a\x20xx", b"\x12\x01x"] {
            assert!(DocumentLimits::default().check(bytes).is_ok(), "{bytes:?}");
        }
    }

    /// Runs on a stack as small as tokio's threads have.
    fn on_small_stack(test: fn()) {
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        thread.spawn(test).unwrap().join().unwrap();
    }

    #[test]
    fn deep_nesting_is_an_error_for_access_paths_and_merges() {
        on_small_stack(|| {
            for version in BOTH {
                let data = nested(version, 3_000);
                let mut one = DocumentArray::decode(&data).unwrap();
                let leaves: AccessPaths = "@leaf".parse().unwrap();
                let too_deep = Err(BadDocument::TooDeep {
                    max: usize::from(DEPTH_MAX),
                });
                assert_eq!(leaves.visit(&mut one, &mut |_| ()), too_deep);
                // Chunks are merged with chunks of the same id, level by level.
                let mut first = DocumentArray::decode(&data).unwrap();
                let second = DocumentArray::decode(&nested(version, 2_999)).unwrap();
                assert_eq!(first.merge(second), too_deep, "{version:?}");
            }
        });
    }

    #[test]
    fn the_deepest_documents_are_merged_and_encoded_on_a_small_stack() {
        on_small_stack(|| {
            for version in BOTH {
                let data = nested(version, usize::from(DEPTH_MAX));
                let leaf = |text: &str| {
                    let mut array = DocumentArray::decode(&data).unwrap();
                    let leaves: AccessPaths = "@leaf".parse().unwrap();
                    leaves
                        .visit(&mut array, &mut |it| it.set_text(text))
                        .unwrap();
                    DocumentArray::decode(&array.encode()).unwrap()
                };
                let mut merged = leaf("one");
                merged.merge(leaf("two")).unwrap();
                let depth = DocumentLimits {
                    depth_max: usize::from(DEPTH_MAX),
                    ..DocumentLimits::default()
                };
                let count = depth.check(&merged.encode());
                assert_eq!(count, Ok(usize::from(DEPTH_MAX)));
            }
        });
    }
}
