//! The beginning of a WebSocket frame (RFC 6455, section 5.2). Pure.

/// Longest header, in bytes.
pub(super) const LEN_MAX: usize = 14;

/// Opcodes.
pub(super) const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;

const FIN: u8 = 0x80;
const MASKED: u8 = 0x80;

/// The reserved bit that marks the first frame of a compressed message (RFC 7692, section 6).
pub(super) const COMPRESSED: u8 = 0x40;

/// The beginning of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FrameHeader {
    /// Whether the frame is the last of its message.
    pub(super) is_last: bool,
    /// The three reserved bits, where they are in the first byte.
    pub(super) reserved: u8,
    pub(super) opcode: u8,
    /// The masking key, which frames of clients have.
    pub(super) mask: Option<[u8; 4]>,
    /// Bytes of the payload.
    pub(super) len: u64,
}

impl FrameHeader {
    /// The header at the beginning of these bytes; `None` if it is not complete.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let (&[first, second], rest) = bytes.split_first_chunk()?;
        let (len, rest) = match second & !MASKED {
            126 => {
                let (len, rest) = rest.split_first_chunk()?;
                (u16::from_be_bytes(*len).into(), rest)
            }
            127 => {
                let (len, rest) = rest.split_first_chunk()?;
                (u64::from_be_bytes(*len), rest)
            }
            len => (len.into(), rest),
        };
        let mask = match second & MASKED {
            0 => None,
            _ => Some(*rest.first_chunk()?),
        };
        Some(Self {
            is_last: first & FIN != 0,
            reserved: first & 0x70,
            opcode: first & 0x0f,
            mask,
            len,
        })
    }

    pub(super) fn write(&self, into: &mut Vec<u8>) {
        let fin = if self.is_last { FIN } else { 0 };
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        into.push(fin | self.reserved | self.opcode);
        match (u8::try_from(self.len), u16::try_from(self.len)) {
            (Ok(len @ ..126), _) => into.push(masked | len),
            (_, Ok(len)) => {
                into.push(masked | 126);
                into.extend(len.to_be_bytes());
            }
            _ => {
                into.push(masked | 127);
                into.extend(self.len.to_be_bytes());
            }
        }
        into.extend(self.mask.iter().flatten());
    }

    /// Whether a message begins with this frame.
    pub(super) fn begins_message(&self) -> bool {
        [TEXT, BINARY].contains(&self.opcode)
    }
}

/// How many of these bytes belong to a payload of which so many bytes are left.
pub(super) fn shorter(left: u64, available: usize) -> usize {
    usize::try_from(left).map_or(available, |left| left.min(available))
}

/// Gathers the bytes of a header, which may come in several pieces.
#[derive(Debug, Default)]
pub(super) struct PartialHeader(Vec<u8>);

impl PartialHeader {
    /// Takes bytes until the header is complete. Returns how many it took.
    pub(super) fn take(&mut self, bytes: &[u8]) -> (usize, Option<FrameHeader>) {
        let mut taken = 0;
        for &byte in bytes.iter().take(LEN_MAX) {
            self.0.push(byte);
            taken += 1;
            if let Some(header) = FrameHeader::parse(&self.0) {
                self.0.clear();
                return (taken, Some(header));
            }
        }
        (taken, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_survive_a_round_trip_and_are_read_byte_by_byte() {
        for len in [0, 1, 125, 126, 127, 65_535, 65_536, u64::MAX] {
            for mask in [None, Some([1, 2, 3, 4])] {
                let header = FrameHeader {
                    is_last: len % 2 == 0,
                    reserved: COMPRESSED,
                    opcode: TEXT,
                    mask,
                    len,
                };
                let mut bytes = Vec::new();
                header.write(&mut bytes);
                assert!(bytes.len() <= LEN_MAX);
                assert_eq!(FrameHeader::parse(&bytes), Some(header));
                assert_eq!(FrameHeader::parse(&bytes[..bytes.len() - 1]), None);
                let mut partial = PartialHeader::default();
                let (last, others) = bytes.split_last().unwrap();
                for byte in others {
                    assert_eq!(partial.take(&[*byte]), (1, None));
                }
                assert_eq!(partial.take(&[*last, 9, 9]), (1, Some(header)));
            }
        }
    }
}
