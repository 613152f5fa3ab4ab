//! The records of the log, as bytes. Pure: `log.rs` writes them to files.
//!
//! A record is one request, whole or not at all: a header and the changes one after another. The header has the length of
//! the changes, their checksum, and a checksum of its own. This distinguishes damage from a record that a crash cut short:
//! if a valid header follows one that is not valid, bytes were changed after they were written.
//!
//! Logs that were written before version 2 have headers without a checksum.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use flow_core::DocArrayVersion;
use flow_index::IndexEntry;

/// Length, checksum and the header's own checksum before each record, in bytes.
pub(crate) const HEADER_LEN: usize = 12;

/// The same without the header's own checksum.
const HEADER_V1_LEN: usize = 8;

/// How the records of a log are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RecordFormat {
    V1,
    V2,
}

impl RecordFormat {
    /// Bytes before the changes of a record.
    fn header_len(self) -> usize {
        match self {
            Self::V1 => HEADER_V1_LEN,
            Self::V2 => HEADER_LEN,
        }
    }
}

const PUT: u8 = 1;
const DELETE: u8 = 2;

/// Bytes of a length.
const LEN: usize = size_of::<u32>();

/// Bytes of a change that puts an entry, before its vector and without id and parent: what it is, the version of DocArray, and
/// three lengths.
const PUT_LEN: usize = 2 + 3 * LEN;

/// Bytes of a change that deletes an entry, without its id.
const DELETE_LEN: usize = 1 + LEN;

/// One step from an index to the next.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum IndexChange {
    /// Takes the place of an entry with the same id.
    Put(IndexEntry),
    /// Nothing, if there is no entry with this id.
    Delete(String),
}

/// The next thing in a log.
#[derive(Debug, PartialEq)]
pub(crate) enum Read {
    /// A record, and its length with its header.
    Record(Vec<IndexChange>, usize),
    /// The log ends here, as it should.
    End,
    /// The last record was not written to its end.
    Torn,
    /// A record is not what was written, and others follow.
    Damaged,
}

/// A record of these changes.
pub(crate) fn encode(changes: &[IndexChange]) -> Bytes {
    let mut out = BytesMut::new();
    out.put_bytes(0, HEADER_LEN);
    changes
        .iter()
        .for_each(|change| put_change(&mut out, change));
    let body = &out[HEADER_LEN..];
    // A record is one request, which gRPC already keeps under 4 GiB.
    let len = u32::try_from(body.len()).expect("a request is smaller than 4 GiB");
    let checksum = crc32fast::hash(body);
    out[..4].copy_from_slice(&len.to_le_bytes());
    out[4..HEADER_V1_LEN].copy_from_slice(&checksum.to_le_bytes());
    let own = crc32fast::hash(&out[..HEADER_V1_LEN]);
    out[HEADER_V1_LEN..HEADER_LEN].copy_from_slice(&own.to_le_bytes());
    out.freeze()
}

/// Where the values of each change's vector begin in the record of these changes, in bytes. `None` for a change without a vector.
pub(crate) fn vector_offsets(
    format: RecordFormat,
    changes: &[IndexChange],
) -> impl Iterator<Item = Option<usize>> {
    let mut at = format.header_len();
    changes.iter().map(move |change| match change {
        IndexChange::Put(entry) => {
            let vector = at + PUT_LEN + entry.id.len() + entry.parent.len();
            at = vector + size_of_val(&entry.vector[..]) + LEN + entry.document.len();
            Some(vector)
        }
        IndexChange::Delete(id) => {
            at += DELETE_LEN + id.len();
            None
        }
    })
}

/// What a log goes on with.
pub(crate) fn read(format: RecordFormat, rest: &Bytes) -> Read {
    if rest.is_empty() {
        return Read::End;
    }
    let header_len = format.header_len();
    let Some((header, body)) = rest.split_at_checked(header_len) else {
        return Read::Torn;
    };
    if format == RecordFormat::V2 && !is_header(header) {
        return match has_header(&rest[1..]) {
            true => Read::Damaged,
            false => Read::Torn,
        };
    }
    let mut header = header;
    let (len, checksum) = (header.get_u32_le() as usize, header.get_u32_le());
    let Some(record) = body.get(..len) else {
        return Read::Torn;
    };
    let changes = (crc32fast::hash(record) == checksum && len > 0)
        .then(|| changes(rest.slice_ref(record)))
        .flatten();
    match changes {
        Some(changes) => Read::Record(changes, header_len + len),
        // After a power cut a file may be as long as it was to be, with nothing in it yet.
        None if len == body.len() || rest.iter().all(|&byte| byte == 0) => Read::Torn,
        None => Read::Damaged,
    }
}

/// Whether these bytes are a header as it was written.
fn is_header(bytes: &[u8]) -> bool {
    let (header, mut own) = bytes.split_at(HEADER_V1_LEN);
    own.get_u32_le() == crc32fast::hash(header) && header[..4] != [0; 4]
}

/// Whether a header is anywhere in these bytes.
fn has_header(bytes: &[u8]) -> bool {
    bytes.windows(HEADER_LEN).any(is_header)
}

fn put_change(out: &mut BytesMut, change: &IndexChange) {
    match change {
        IndexChange::Put(entry) => {
            out.put_u8(PUT);
            out.put_u8(match entry.version {
                DocArrayVersion::V1 => 1,
                DocArrayVersion::V2 => 2,
            });
            put_bytes(out, entry.id.as_bytes());
            put_bytes(out, entry.parent.as_bytes());
            put_len(out, entry.vector.len());
            entry.vector.iter().for_each(|&value| out.put_f32_le(value));
            put_bytes(out, &entry.document);
        }
        IndexChange::Delete(id) => {
            out.put_u8(DELETE);
            put_bytes(out, id.as_bytes());
        }
    }
}

fn put_bytes(out: &mut BytesMut, bytes: &[u8]) {
    put_len(out, bytes.len());
    out.put_slice(bytes);
}

fn put_len(out: &mut BytesMut, len: usize) {
    out.put_u32_le(u32::try_from(len).expect("a part of a request is smaller than 4 GiB"));
}

fn changes(mut record: Bytes) -> Option<Vec<IndexChange>> {
    let mut changes = Vec::new();
    while record.has_remaining() {
        changes.push(change(&mut record)?);
    }
    Some(changes)
}

fn change(record: &mut Bytes) -> Option<IndexChange> {
    match record.try_get_u8().ok()? {
        PUT => {
            let version = match record.try_get_u8().ok()? {
                1 => DocArrayVersion::V1,
                2 => DocArrayVersion::V2,
                _ => return None,
            };
            Some(IndexChange::Put(IndexEntry {
                version,
                id: text(record)?,
                parent: text(record)?,
                vector: vector(record)?,
                // A part of the log's bytes would keep all of them in memory.
                document: Bytes::copy_from_slice(&bytes(record)?),
            }))
        }
        DELETE => text(record).map(IndexChange::Delete),
        _ => None,
    }
}

fn bytes(record: &mut Bytes) -> Option<Bytes> {
    let len = record.try_get_u32_le().ok()? as usize;
    (len <= record.len()).then(|| record.split_to(len))
}

fn text(record: &mut Bytes) -> Option<String> {
    String::from_utf8(bytes(record)?.to_vec()).ok()
}

fn vector(record: &mut Bytes) -> Option<Vec<f32>> {
    let len = record.try_get_u32_le().ok()? as usize;
    let bytes = len.checked_mul(size_of::<f32>())?;
    if bytes > record.len() {
        return None;
    }
    Some(floats(&record.split_to(bytes)))
}

/// The values of a vector.
pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    let values = bytes.as_chunks().0.iter();
    values.map(|bytes| f32::from_le_bytes(*bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record() -> Vec<IndexChange> {
        let entry = IndexEntry {
            id: "a-0".to_owned(),
            parent: "a".to_owned(),
            vector: vec![0.5, -1.0],
            version: DocArrayVersion::V2,
            document: Bytes::from_static(b"doc"),
        };
        vec![
            IndexChange::Delete("old".to_owned()),
            IndexChange::Put(entry),
        ]
    }

    fn read(rest: &Bytes) -> Read {
        super::read(RecordFormat::V2, rest)
    }

    #[test]
    fn a_record_survives_a_round_trip() {
        let bytes = encode(&record());
        assert_eq!(read(&bytes), Read::Record(record(), bytes.len()));
        assert_eq!(read(&Bytes::new()), Read::End);
        let mut first_version = bytes.to_vec();
        first_version.drain(HEADER_V1_LEN..HEADER_LEN);
        let len = first_version.len();
        let found = super::read(RecordFormat::V1, &first_version.into());
        assert_eq!(found, Read::Record(record(), len));
    }

    #[test]
    fn vectors_are_where_their_offsets_say() {
        let mut changes = record();
        changes.extend(record());
        let bytes = encode(&changes);
        for (change, offset) in changes
            .iter()
            .zip(vector_offsets(RecordFormat::V2, &changes))
        {
            match (change, offset) {
                (IndexChange::Put(entry), Some(offset)) => {
                    let len = size_of_val(&entry.vector[..]);
                    assert_eq!(floats(&bytes[offset..][..len]), entry.vector);
                }
                (IndexChange::Delete(_), None) => {}
                found => panic!("{found:?}"),
            }
        }
    }

    #[test]
    fn a_truncated_record_is_detected_at_every_length() {
        let whole = encode(&record());
        for len in 1..whole.len() {
            assert_eq!(read(&whole.slice(..len)), Read::Torn, "{len} bytes");
        }
        assert_eq!(read(&Bytes::from(vec![0; 100])), Read::Torn);
    }

    #[test]
    fn a_changed_byte_is_torn_at_the_end_and_damage_before_it() {
        let whole = encode(&record());
        for place in 0..whole.len() {
            let mut bytes = whole.to_vec();
            bytes[place] ^= 1;
            assert_eq!(read(&bytes.clone().into()), Read::Torn, "byte {place}");
            bytes.extend_from_slice(&whole);
            assert_eq!(read(&bytes.into()), Read::Damaged, "byte {place}");
        }
    }
}
