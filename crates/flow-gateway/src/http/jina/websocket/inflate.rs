//! Decompresses the messages of a client: its frames as bytes in, frames of the same messages that are not compressed out. Pure.
//!
//! The payload of a frame becomes one or more frames, which belong to the same message. So a message is decompressed in small
//! pieces, and the reader of the frames can stop after any of them.

use flate2::{Decompress, FlushDecompress, Status};

use super::frame_header::{COMPRESSED, CONTINUATION, FrameHeader, PartialHeader, shorter};

/// Most bytes that one step decompresses into.
const OUTPUT_MAX: usize = 16 << 10;

/// Most bytes that one step decompresses.
const INPUT_MAX: usize = 4 << 10;

/// Memory of a message that is being decompressed, in bytes: the last 32 KiB of it, tables, and the buffers of a step.
pub(super) const MEMORY: usize = 64 << 10;

/// What senders leave out at the end of a message (RFC 7692, section 7.2.1).
pub(super) const TAIL: [u8; 4] = [0, 0, 0xff, 0xff];

const NOT_BEGUN: MessageError = MessageError::Invalid("no compressed message has begun");

const BAD_DATA: MessageError = MessageError::Invalid("its compressed data is not valid");

/// A masking key that changes nothing, because frames of clients must have one.
const NO_MASK: Option<[u8; 4]> = Some([0; 4]);

/// A message of a client cannot be decompressed.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("a WebSocket message cannot be read: {0}")]
    Invalid(&'static str),
    #[error("a compressed WebSocket message has more than {0} bytes, the limit")]
    TooLarge(usize),
}

/// The frames of a client.
#[derive(Debug)]
pub(super) struct ClientFrames {
    /// Most bytes of a compressed message, before and after decompression.
    len_max: usize,
    header: PartialHeader,
    state: State,
    /// The compressed message that has begun.
    message: Option<Box<Message>>,
}

/// Where in a frame the next byte is.
#[derive(Debug, Clone, Copy, Default)]
enum State {
    #[default]
    Header,
    /// In a payload that stays as it is.
    Unchanged { left: u64 },
    /// In a compressed payload.
    Compressed(Payload),
    /// After the last payload of a message. This many bytes of the tail are decompressed.
    Tail { done: usize },
}

/// The rest of a compressed payload.
#[derive(Debug, Clone, Copy)]
struct Payload {
    left: u64,
    /// The masking key, rotated so that its first byte applies to the next byte of the payload.
    mask: [u8; 4],
    is_last: bool,
}

#[derive(Debug)]
struct Message {
    decompress: Decompress,
    /// The opcode of the next frame.
    opcode: u8,
    /// Whether the decompressor may have more output without input.
    has_more: bool,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Bytes of the whole message so far, before and after decompression.
    read: usize,
    written: usize,
}

/// What a step did.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    /// Bytes of the input that are used up.
    pub(super) taken: usize,
    /// Bytes of memory that it uses beyond them.
    pub(super) memory: usize,
}

impl ClientFrames {
    /// Frames whose compressed messages have at most this many bytes.
    pub(super) fn new(len_max: usize) -> Self {
        Self {
            len_max,
            header: PartialHeader::default(),
            state: State::default(),
            message: None,
        }
    }

    /// Whether there is something to do without further input.
    pub(super) fn has_more(&self) -> bool {
        let message = self.message.as_ref();
        matches!(self.state, State::Tail { .. }) || message.is_some_and(|it| it.has_more)
    }

    /// Takes some of the input, and appends what it stands for.
    ///
    /// # Errors
    ///
    /// If the client's frames or its compressed data are not valid.
    pub(super) fn step(&mut self, input: &[u8], into: &mut Vec<u8>) -> Result<Step, MessageError> {
        match self.state {
            State::Header => {
                let (taken, header) = self.header.take(input);
                let memory = match header {
                    Some(header) => self.begin(header, into)?,
                    None => 0,
                };
                Ok(Step { taken, memory })
            }
            State::Unchanged { left } => {
                let taken = shorter(left, input.len());
                into.extend_from_slice(&input[..taken]);
                self.state = match left - taken as u64 {
                    0 => State::Header,
                    left => State::Unchanged { left },
                };
                Ok(Step { taken, memory: 0 })
            }
            State::Compressed(payload) => self.decompress(payload, input, into),
            State::Tail { done } => self.finish(done, into),
        }
    }

    /// Begins a frame. Returns the bytes of memory that it needs.
    fn begin(&mut self, header: FrameHeader, into: &mut Vec<u8>) -> Result<usize, MessageError> {
        let mut memory = 0;
        if header.begins_message() && self.message.is_some() {
            return Err(MessageError::Invalid(
                "a message begins before the one before it has ended",
            ));
        }
        // What is not valid for other reasons stays as it is, and is refused by the reader.
        let begins = header.begins_message() && header.reserved == COMPRESSED;
        if begins && header.mask.is_some() {
            self.message = Some(Box::new(Message::new(header.opcode)));
            memory = MEMORY;
        }
        let continues = begins || (header.opcode == CONTINUATION && header.reserved == 0);
        self.state = match (header.mask, &self.message) {
            (Some(mask), Some(_)) if continues => State::Compressed(Payload {
                left: header.len,
                mask,
                is_last: header.is_last,
            }),
            _ => {
                header.write(into);
                State::Unchanged { left: header.len }
            }
        };
        self.skip_empty();
        Ok(memory)
    }

    /// Goes on to the next frame if the payload has ended.
    fn skip_empty(&mut self) {
        self.state = match self.state {
            State::Unchanged { left: 0 } => State::Header,
            State::Compressed(Payload {
                left: 0, is_last, ..
            }) => {
                if self.message.as_ref().is_some_and(|it| it.has_more) {
                    return;
                }
                if is_last {
                    State::Tail { done: 0 }
                } else {
                    State::Header
                }
            }
            other => other,
        };
    }

    fn decompress(
        &mut self,
        payload: Payload,
        input: &[u8],
        into: &mut Vec<u8>,
    ) -> Result<Step, MessageError> {
        let message = self.message.as_mut().ok_or(NOT_BEGUN)?;
        let available = shorter(payload.left, input.len().min(INPUT_MAX));
        message.input.clear();
        let unmasked = input[..available].iter().zip(payload.mask.iter().cycle());
        message
            .input
            .extend(unmasked.map(|(byte, mask)| byte ^ mask));
        let taken = message.run(available)?;
        message.check(self.len_max)?;
        message.write(false, into);
        let memory = message.output.len();
        let mut mask = payload.mask;
        mask.rotate_left(taken % 4);
        self.state = State::Compressed(Payload {
            left: payload.left - taken as u64,
            mask,
            ..payload
        });
        self.skip_empty();
        Ok(Step { taken, memory })
    }

    fn finish(&mut self, done: usize, into: &mut Vec<u8>) -> Result<Step, MessageError> {
        let message = self.message.as_mut().ok_or(NOT_BEGUN)?;
        message.input.clear();
        message.input.extend_from_slice(&TAIL[done..]);
        let done = done + message.run(TAIL.len() - done)?;
        message.check(self.len_max)?;
        let is_last = done == TAIL.len() && !message.has_more;
        message.write(is_last, into);
        let memory = message.output.len();
        if is_last {
            self.message = None;
            self.state = State::Header;
        } else {
            self.state = State::Tail { done };
        }
        Ok(Step { taken: 0, memory })
    }
}

impl Message {
    fn new(opcode: u8) -> Self {
        Self {
            decompress: Decompress::new(false),
            opcode,
            has_more: false,
            input: Vec::with_capacity(INPUT_MAX),
            output: Vec::with_capacity(OUTPUT_MAX),
            read: 0,
            written: 0,
        }
    }

    /// Refuses a message that is too long. Compressed data can be long and contain nothing.
    fn check(&self, len_max: usize) -> Result<(), MessageError> {
        match self.read.max(self.written) > len_max {
            true => Err(MessageError::TooLarge(len_max)),
            false => Ok(()),
        }
    }

    /// Decompresses the input, which has `available` bytes, into the output. Returns how many bytes it used.
    fn run(&mut self, available: usize) -> Result<usize, MessageError> {
        self.output.clear();
        let mut taken = 0;
        loop {
            let (read, written) = (self.decompress.total_in(), self.decompress.total_out());
            let status = self.decompress.decompress_vec(
                &self.input[taken..available],
                &mut self.output,
                FlushDecompress::Sync,
            );
            let status = status.map_err(|_invalid| BAD_DATA)?;
            let read = self.decompress.total_in() - read;
            let written = self.decompress.total_out() - written;
            taken += usize::try_from(read).unwrap_or(available);
            let is_full = self.output.len() == self.output.capacity();
            self.has_more = is_full;
            if status == Status::StreamEnd {
                // A sender may end a stream within a message (RFC 7692, section 7.2.3.4). The next one follows.
                self.decompress.reset(false);
            } else if read == 0 && written == 0 {
                self.has_more = false;
                if taken < available {
                    return Err(BAD_DATA);
                }
            }
            if is_full || taken == available {
                break;
            }
        }
        self.read += taken;
        self.written += self.output.len();
        Ok(taken)
    }

    /// Appends a frame with the output, if there is any or the message ends.
    fn write(&mut self, is_last: bool, into: &mut Vec<u8>) {
        if self.output.is_empty() && !is_last {
            return;
        }
        let header = FrameHeader {
            is_last,
            reserved: 0,
            opcode: std::mem::replace(&mut self.opcode, CONTINUATION),
            mask: NO_MASK,
            len: self.output.len() as u64,
        };
        header.write(into);
        into.extend_from_slice(&self.output);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::deflate::ServerFrames;
    use super::super::extension::Deflate;
    use super::*;

    const MASK: [u8; 4] = [7, 0, 200, 9];

    const LEN_MAX: usize = 64 << 20;

    /// A frame of a client.
    fn frame(first_byte: u8, payload: &[u8]) -> Vec<u8> {
        let header = FrameHeader {
            is_last: first_byte & 0x80 != 0,
            reserved: first_byte & 0x70,
            opcode: first_byte & 0x0f,
            mask: Some(MASK),
            len: payload.len() as u64,
        };
        let mut bytes = Vec::new();
        header.write(&mut bytes);
        let masked = payload.iter().zip(MASK.iter().cycle());
        bytes.extend(masked.map(|(byte, mask)| byte ^ mask));
        bytes
    }

    /// What frames stand for that come in pieces of so many bytes.
    fn translated(frames: &[u8], piece: usize) -> Result<Vec<u8>, MessageError> {
        let (mut client, mut out) = (ClientFrames::new(LEN_MAX), Vec::new());
        for mut piece in frames.chunks(piece) {
            while !piece.is_empty() || client.has_more() {
                let step = client.step(piece, &mut out)?;
                piece = &piece[step.taken..];
            }
        }
        Ok(out)
    }

    /// The messages of frames that are not compressed, each with its opcode; control frames as they come.
    fn messages(mut frames: &[u8]) -> Vec<(u8, Vec<u8>)> {
        let (mut messages, mut open): (Vec<(u8, Vec<u8>)>, _) = (Vec::new(), None);
        while !frames.is_empty() {
            let (taken, header) = PartialHeader::default().take(frames);
            let header = header.unwrap();
            assert_eq!(header.reserved, 0, "{header:?}");
            let end = taken + usize::try_from(header.len).unwrap();
            let mask = header.mask.unwrap();
            let payload = frames[taken..end].iter().zip(mask.iter().cycle());
            let payload: Vec<u8> = payload.map(|(byte, mask)| byte ^ mask).collect();
            frames = &frames[end..];
            // Control frames come between those of a message.
            if header.opcode >= 8 {
                messages.push((header.opcode, payload));
                continue;
            }
            assert_eq!(header.begins_message(), open.is_none(), "{header:?}");
            let (_, bytes) = open.get_or_insert((header.opcode, Vec::new()));
            bytes.extend(payload);
            if header.is_last {
                messages.extend(open.take());
            }
        }
        assert_eq!(open, None);
        messages
    }

    #[track_caller]
    fn check(frames: &[Vec<u8>], expected: &[(u8, &[u8])]) {
        let frames = frames.concat();
        for piece in [1, 2, 7, usize::MAX] {
            let found = messages(&translated(&frames, piece).unwrap());
            let found: Vec<_> = found.iter().map(|(code, it)| (*code, &**it)).collect();
            assert_eq!(found, expected, "pieces of {piece}");
        }
    }

    #[test]
    fn the_examples_of_the_standard_are_read() {
        let hello = [0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00];
        check(&[frame(0xc1, &hello)], &[(1, b"Hello")]);
        // In two frames, with a ping between them.
        let two = [
            frame(0x41, &hello[..3]),
            frame(0x89, b"p"),
            frame(0x80, &hello[3..]),
        ];
        check(&two, &[(9, b"p"), (1, b"Hello")]);
        let stored = [
            0x00, 0x05, 0x00, 0xfa, 0xff, 0x48, 0x65, 0x6c, 0x6c, 0x6f, 0x00,
        ];
        check(&[frame(0xc1, &stored)], &[(1, b"Hello")]);
        let ended = [0xf3, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00, 0x00];
        check(&[frame(0xc1, &ended)], &[(1, b"Hello")]);
        let blocks = [
            0xf2, 0x48, 0x05, 0x00, 0x00, 0x00, 0xff, 0xff, 0xca, 0xc9, 0xc9, 0x07, 0x00,
        ];
        check(&[frame(0xc1, &blocks)], &[(1, b"Hello")]);
        check(&[frame(0xc2, &[0])], &[(2, b"")]);
    }

    #[test]
    fn messages_that_are_not_compressed_stay_as_they_are() {
        let frames = [
            frame(0x81, b"text"),
            frame(0x02, b"bin"),
            frame(0x80, b"ary"),
            frame(0xc1, &[0xf2, 0x48, 0xcd, 0xc9, 0xc9, 0x07, 0x00]),
            frame(0x88, b""),
        ];
        check(
            &frames,
            &[(1, b"text"), (2, b"binary"), (1, b"Hello"), (8, b"")],
        );
        let plain = [frames[0].clone(), frames[1].clone()].concat();
        assert_eq!(translated(&plain, 3).unwrap(), plain);
    }

    #[test]
    fn mistakes_are_errors_or_left_to_the_reader() {
        let error = |frames: &[Vec<u8>]| translated(&frames.concat(), 5).unwrap_err().to_string();
        let garbage = error(&[frame(0xc1, &[0xff; 20])]);
        assert!(
            garbage.contains("compressed data is not valid"),
            "{garbage}"
        );
        let again = error(&[frame(0x41, &[0xf2]), frame(0x81, b"x")]);
        assert!(
            again.contains("before the one before it has ended"),
            "{again}"
        );
        // Reserved bits without a meaning, and a continuation that says again that it is compressed.
        for frames in [
            vec![frame(0xe1, b"x")],
            vec![frame(0xc9, b"x")],
            vec![frame(0x41, &[0xf2]), frame(0xc0, &[0x48])],
        ] {
            let bytes = translated(&frames.concat(), 5).unwrap();
            assert!(bytes.ends_with(frames.last().unwrap()), "{bytes:?}");
        }
    }

    #[test]
    fn a_small_message_that_becomes_a_large_one_comes_in_pieces() {
        let zeros = vec![0; 10 << 20];
        let compressed = compressed(&zeros);
        assert!(compressed.len() < 20 << 10);
        let frames = frame(0xc2, &compressed);
        let (mut client, mut rest, mut total, mut steps) =
            (ClientFrames::new(LEN_MAX), &*frames, 0, 0);
        while !rest.is_empty() || client.has_more() {
            let mut out = Vec::new();
            let step = client.step(rest, &mut out).unwrap();
            rest = &rest[step.taken..];
            assert!(out.len() <= OUTPUT_MAX + 14, "{}", out.len());
            total += step.memory;
            steps += 1;
        }
        assert_eq!(total, zeros.len() + MEMORY);
        assert!(steps < 1000, "{steps}");
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_before_and_after_decompression() {
        let refused = |payload: &[u8], len_max: usize| {
            let frames = frame(0xc2, payload);
            let (mut client, mut out, mut rest) =
                (ClientFrames::new(len_max), Vec::new(), &*frames);
            while !rest.is_empty() || client.has_more() {
                match client.step(rest, &mut out) {
                    Ok(step) => rest = &rest[step.taken..],
                    Err(error) => return Some(error.to_string()),
                }
            }
            None
        };
        let zeros = compressed(&[0; 100_000]);
        assert_eq!(refused(&zeros, 100_000), None);
        let error = refused(&zeros, 99_999).unwrap();
        assert!(error.contains("more than 99999 bytes"), "{error}");
        // Empty blocks, which stand for nothing.
        let empty = [0, 0, 0, 0xff, 0xff].repeat(1000);
        assert_eq!(refused(&empty, 6000), None);
        assert!(refused(&empty, 4000).is_some());
    }

    fn compressed(bytes: &[u8]) -> Vec<u8> {
        let mut compress = flate2::Compress::new(flate2::Compression::best(), false);
        let mut out = Vec::with_capacity(bytes.len() + 100);
        let flush = flate2::FlushCompress::Sync;
        compress.compress_vec(bytes, &mut out, flush).unwrap();
        assert_eq!(out.split_off(out.len() - 4), TAIL);
        out
    }

    proptest! {
        #[test]
        fn what_the_server_compresses_can_be_read(
            bytes in prop::collection::vec(0..4_u8, 0..60_000),
            window_bits in 9..=15_u8,
            piece in 1..5000_usize,
        ) {
            let deflate = Deflate { server_bits: Some(window_bits) };
            let mut server = ServerFrames::new(deflate);
            let header = FrameHeader { is_last: true, reserved: 0, opcode: 2, mask: None, len: bytes.len() as u64 };
            let mut plain = Vec::new();
            header.write(&mut plain);
            plain.extend_from_slice(&bytes);
            let mut sent = Vec::new();
            for mut piece in plain.chunks(piece) {
                while !piece.is_empty() {
                    let taken = server.step(piece, &mut sent).unwrap();
                    piece = &piece[taken..];
                }
            }
            // The same frames, as a client sends them.
            let (mut frames, mut compressed) = (Vec::new(), Vec::new());
            let mut rest = &*sent;
            while !rest.is_empty() {
                let (taken, header) = PartialHeader::default().take(rest);
                let header = header.unwrap();
                let end = taken + usize::try_from(header.len).unwrap();
                frames.extend(frame(rest[0], &rest[taken..end]));
                if sent[0] & COMPRESSED != 0 {
                    compressed.extend_from_slice(&rest[taken..end]);
                }
                rest = &rest[end..];
            }
            // A window of the size that the client wants is enough.
            if !compressed.is_empty() {
                compressed.extend(TAIL);
                let mut out = Vec::with_capacity(bytes.len() + 1);
                let mut narrow = Decompress::new_with_window_bits(false, window_bits);
                narrow.decompress_vec(&compressed, &mut out, FlushDecompress::Sync).unwrap();
                prop_assert_eq!(&out, &bytes);
            }
            let found = messages(&translated(&frames, piece).unwrap());
            prop_assert_eq!(found, vec![(2, bytes)]);
        }

        #[test]
        fn any_bytes_end_in_an_error_or_in_frames(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let _frames = translated(&bytes, 3);
            let _message = translated(&frame(0xc1, &bytes), 64);
        }
    }
}
