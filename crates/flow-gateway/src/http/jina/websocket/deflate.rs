//! Compresses the messages of the server: its frames as bytes in, frames of compressed messages out. Pure.

use std::io;

use flate2::{Compress, Compression, FlushCompress};

use super::extension::Deflate;
use super::frame_header::{COMPRESSED, CONTINUATION, FrameHeader, PartialHeader, shorter};
use super::inflate::TAIL;

/// Shortest message that is compressed, in bytes.
const COMPRESSED_MIN: u64 = 1024;

/// Most bytes that one step compresses.
const INPUT_MAX: usize = 64 << 10;

/// Compressed bytes that are gathered before they become a frame.
const FRAME_MIN: usize = 16 << 10;

/// Memory of a message that is being compressed, in bytes: 368 KiB of the compressor, and the output that is not a frame yet.
pub(super) const MEMORY: usize = 512 << 10;

/// The frames of the server, which it sends whole and without a mask.
#[derive(Debug)]
pub(super) struct ServerFrames {
    deflate: Deflate,
    header: PartialHeader,
    state: State,
}

/// Where in a frame the next byte is.
#[derive(Debug)]
enum State {
    Header,
    /// In a payload that stays as it is.
    Unchanged {
        left: u64,
    },
    /// In the payload of a message that is compressed.
    Compressed {
        left: u64,
        message: Box<Message>,
    },
}

#[derive(Debug)]
struct Message {
    compress: Compress,
    /// The opcode and the reserved bits of the next frame.
    opcode: u8,
    reserved: u8,
    output: Vec<u8>,
}

impl ServerFrames {
    pub(super) fn new(deflate: Deflate) -> Self {
        Self {
            deflate,
            header: PartialHeader::default(),
            state: State::Header,
        }
    }

    /// Whether a message has begun that is being compressed.
    pub(super) fn is_compressing(&self) -> bool {
        matches!(self.state, State::Compressed { .. })
    }

    /// Takes some of the input, and appends what it becomes. Returns how many bytes it took.
    ///
    /// # Errors
    ///
    /// If the compressor fails.
    pub(super) fn step(&mut self, input: &[u8], into: &mut Vec<u8>) -> io::Result<usize> {
        match &mut self.state {
            State::Header => {
                let (taken, header) = self.header.take(input);
                if let Some(header) = header {
                    self.begin(header, into);
                }
                Ok(taken)
            }
            State::Unchanged { left } => {
                let taken = shorter(*left, input.len());
                into.extend_from_slice(&input[..taken]);
                *left -= taken as u64;
                if *left == 0 {
                    self.state = State::Header;
                }
                Ok(taken)
            }
            State::Compressed { left, message } => {
                let taken = shorter(*left, input.len().min(INPUT_MAX));
                *left -= taken as u64;
                let is_last = *left == 0;
                message.add(&input[..taken], is_last)?;
                message.write(is_last, into);
                if is_last {
                    self.state = State::Header;
                }
                Ok(taken)
            }
        }
    }

    fn begin(&mut self, header: FrameHeader, into: &mut Vec<u8>) {
        let is_whole = header.is_last && header.begins_message() && header.reserved == 0;
        if is_whole && header.len >= COMPRESSED_MIN {
            let message = Box::new(Message::new(self.deflate, header.opcode));
            let left = header.len;
            self.state = State::Compressed { left, message };
            return;
        }
        header.write(into);
        if header.len > 0 {
            self.state = State::Unchanged { left: header.len };
        }
    }
}

impl Message {
    fn new(deflate: Deflate, opcode: u8) -> Self {
        let level = Compression::fast();
        Self {
            compress: Compress::new_with_window_bits(level, false, deflate.window_bits()),
            opcode,
            reserved: COMPRESSED,
            output: Vec::new(),
        }
    }

    /// Compresses a part of the payload.
    fn add(&mut self, input: &[u8], is_last: bool) -> io::Result<()> {
        let flush = if is_last {
            FlushCompress::Sync
        } else {
            FlushCompress::None
        };
        let mut taken = 0;
        loop {
            self.output.reserve(FRAME_MIN);
            let before = self.compress.total_in();
            self.compress
                .compress_vec(&input[taken..], &mut self.output, flush)
                .map_err(io::Error::other)?;
            let read = self.compress.total_in() - before;
            taken += usize::try_from(read).unwrap_or(input.len());
            // With room left in the output, the compressor has no more.
            if taken >= input.len() && self.output.len() < self.output.capacity() {
                return Ok(());
            }
        }
    }

    /// Appends a frame, if there is enough for one or the message ends. The last bytes wait: those at the end of the message are
    /// left out.
    fn write(&mut self, is_last: bool, into: &mut Vec<u8>) {
        let end = self.output.len().saturating_sub(TAIL.len());
        if !is_last && end < FRAME_MIN {
            return;
        }
        let header = FrameHeader {
            is_last,
            reserved: std::mem::take(&mut self.reserved),
            opcode: std::mem::replace(&mut self.opcode, CONTINUATION),
            mask: None,
            len: end as u64,
        };
        header.write(into);
        into.extend(self.output.drain(..end));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(input: &[u8]) -> Vec<u8> {
        let mut server = ServerFrames::new(Deflate { server_bits: None });
        let (mut rest, mut out) = (input, Vec::new());
        while !rest.is_empty() {
            let taken = server.step(rest, &mut out).unwrap();
            rest = &rest[taken..];
        }
        out
    }

    #[test]
    fn short_messages_and_control_frames_stay_as_they_are() {
        let text = b"\x81\x05Hello\x8a\x00\x88\x02\x03\xe8";
        assert_eq!(frames(text), text);
    }

    #[test]
    fn a_long_message_is_marked_once_and_becomes_shorter() {
        let mut plain = Vec::new();
        let header = FrameHeader {
            is_last: true,
            reserved: 0,
            opcode: 1,
            mask: None,
            len: 1 << 20,
        };
        header.write(&mut plain);
        plain.extend(vec![b'a'; 1 << 20]);
        let sent = frames(&plain);
        assert!(sent.len() < 1 << 15, "{}", sent.len());
        assert_eq!(sent[0], 0x80 | COMPRESSED | 1);
    }
}
