//! Reads protobuf messages field by field, without decoding them.
//!
//! [`Fields`] yields each field's number, its content, and all of its bytes. So a document can be checked, searched,
//! and copied without the fields that change, and unknown fields are kept.

use bytes::{BufMut, BytesMut};
use prost::encoding::{WireType, decode_varint, encode_varint, encoded_len_varint};

/// The wire type of texts, bytes and messages, in the lowest three bits of a tag.
const LENGTH_DELIMITED: u8 = WireType::LengthDelimited as u8;

/// One field of a message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Field<'a> {
    pub(super) number: u32,
    /// The content of a length-delimited field; empty for numbers.
    pub(super) content: &'a [u8],
    pub(super) is_message: bool,
    /// Tag, length and content.
    pub(super) whole: &'a [u8],
}

/// The fields of a message, in their order.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    #[inline]
    fn read(&mut self) -> Option<Field<'a>> {
        // Most fields have a tag and a length of one byte each.
        match *self.rest {
            [tag, len, ..] if tag < 0x80 && len < 0x80 && tag & 7 == LENGTH_DELIMITED => {
                self.read_short(u32::from(tag >> 3), usize::from(len))
            }
            _ => self.read_any(),
        }
    }

    /// Reads a length-delimited field whose tag and length have a byte each.
    #[inline]
    fn read_short(&mut self, number: u32, len: usize) -> Option<Field<'a>> {
        let (whole, rest) = self.rest.split_at_checked(2 + len)?;
        self.rest = rest;
        (number != 0).then_some(Field {
            number,
            content: &whole[2..],
            is_message: true,
            whole,
        })
    }

    fn read_any(&mut self) -> Option<Field<'a>> {
        let start = self.rest;
        let tag = decode_varint(&mut self.rest).ok()?;
        let number = u32::try_from(tag >> 3).ok().filter(|&number| number != 0)?;
        let wire_type = WireType::try_from(tag & 7).ok()?;
        let content = self.content(wire_type)?;
        let whole = &start[..start.len() - self.rest.len()];
        let is_message = wire_type == WireType::LengthDelimited;
        Some(Field {
            number,
            content,
            is_message,
            whole,
        })
    }

    fn content(&mut self, wire_type: WireType) -> Option<&'a [u8]> {
        let length = match wire_type {
            WireType::Varint => return decode_varint(&mut self.rest).ok().map(|_| &[][..]),
            WireType::SixtyFourBit => return self.take(8).map(|_| &[][..]),
            WireType::ThirtyTwoBit => return self.take(4).map(|_| &[][..]),
            WireType::LengthDelimited => decode_varint(&mut self.rest).ok()?,
            // These messages have no groups.
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        self.take(usize::try_from(length).ok()?)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(taken)
    }
}

impl<'a> Iterator for Fields<'a> {
    /// Yields one `Err` where the bytes are not valid, and then ends.
    type Item = Result<Field<'a>, NotAMessage>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.read().ok_or(NotAMessage);
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

/// The bytes are not a protobuf message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotAMessage;

/// The content of the last length-delimited field `number`; protobuf defines that the last one counts.
pub(super) fn last(message: &[u8], number: u32) -> Option<&[u8]> {
    Fields::of(message)
        .filter_map(Result::ok)
        .filter(|field| field.number == number && field.is_message)
        .last()
        .map(|field| field.content)
}

/// Writes a length-delimited field.
pub(super) fn put(out: &mut BytesMut, number: u32, content: &[u8]) {
    put_header(out, number, content.len());
    out.put_slice(content);
}

/// Writes the tag and the length of a field whose content follows.
pub(super) fn put_header(out: &mut BytesMut, number: u32, length: usize) {
    encode_varint(u64::from(number) << 3 | 2, out);
    encode_varint(length as u64, out);
}

/// The encoded size of a length-delimited field.
pub(super) fn field_len(number: u32, length: usize) -> usize {
    encoded_len_varint(u64::from(number) << 3) + encoded_len_varint(length as u64) + length
}

/// The message with some of its fields before the others. Within both groups the order stays.
pub(super) fn with_first(message: &[u8], is_first: impl Fn(&Field<'_>) -> bool) -> BytesMut {
    let fields = || Fields::of(message).filter_map(Result::ok);
    let others = fields().filter(|field| !is_first(field));
    let mut out = BytesMut::with_capacity(message.len());
    for field in fields().filter(|field| is_first(field)).chain(others) {
        out.extend_from_slice(field.whole);
    }
    out
}
