//! Keeps the frames of a large message until the message is complete.
//!
//! A gRPC message begins with its length, and tonic reserves as many bytes when it has read it. Five bytes of a client would
//! reserve 512 MiB, and some hundred thousand of them the whole address space. So tonic gets a large message only when all of
//! it has arrived, frame by frame, each of which it copies and drops. Small messages, and the first bytes of a large one in
//! which its length is not complete, pass at once.

use std::collections::VecDeque;

use bytes::Bytes;
use http_body::Frame;

/// Messages with more bytes are kept until they are complete.
pub(super) const LARGE: usize = 4 << 20;

/// The frames that are kept, in the order in which they arrived.
#[derive(Debug, Default)]
pub(super) struct LargeMessage {
    frames: VecDeque<Frame<Bytes>>,
    /// The first of them, which belong to messages that are complete.
    complete: usize,
}

impl LargeMessage {
    /// Whether no frame is kept.
    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Keeps the data of a frame. `begun` bytes belong to a large message that has begun and is not complete, in this frame
    /// and in earlier ones.
    pub(super) fn push(&mut self, mut data: Bytes, begun: usize) {
        let has_begun_here = begun <= data.len();
        let rest = data.split_off(data.len() - begun.min(data.len()));
        if !data.is_empty() {
            self.frames.push_back(Frame::data(data));
        }
        if has_begun_here {
            self.complete = self.frames.len();
        }
        if !rest.is_empty() {
            self.frames.push_back(Frame::data(rest));
        }
    }

    /// Notes that the body has ended, with trailers or without.
    pub(super) fn end(&mut self, trailers: Option<Frame<Bytes>>) {
        self.frames.extend(trailers);
        self.complete = self.frames.len();
    }

    /// The next frame that is kept no longer.
    pub(super) fn pop(&mut self) -> Option<Frame<Bytes>> {
        self.complete = self.complete.checked_sub(1)?;
        self.frames.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn popped(message: &mut LargeMessage) -> Vec<Bytes> {
        let frames = std::iter::from_fn(|| message.pop());
        frames.map(|frame| frame.into_data().unwrap()).collect()
    }

    #[test]
    fn a_large_message_passes_when_it_is_complete() {
        let mut message = LargeMessage::default();
        message.push(Bytes::from_static(b"abc"), 3);
        message.push(Bytes::from_static(b"def"), 6);
        assert!(popped(&mut message).is_empty() && !message.is_empty());
        message.push(Bytes::from_static(b"ghi"), 0);
        assert_eq!(popped(&mut message), ["abc", "def", "ghi"]);
        assert!(message.is_empty());
    }

    #[test]
    fn what_is_before_a_large_message_passes_at_once() {
        let mut message = LargeMessage::default();
        message.push(Bytes::from_static(b"abcLA"), 2);
        assert_eq!(popped(&mut message), ["abc"]);
        message.push(Bytes::from_static(b"RGElar"), 3);
        assert_eq!(popped(&mut message), ["LA", "RGE"]);
        message.push(Bytes::from_static(b"ge"), 5);
        assert!(popped(&mut message).is_empty());
        message.end(None);
        assert_eq!(popped(&mut message), ["lar", "ge"]);
    }

    #[test]
    fn a_message_whose_length_came_before_is_kept_as_well() {
        let mut message = LargeMessage::default();
        message.push(Bytes::from_static(b"cd"), 4);
        assert!(popped(&mut message).is_empty());
        message.push(Bytes::from_static(b"ef"), 0);
        assert_eq!(popped(&mut message), ["cd", "ef"]);
    }
}
