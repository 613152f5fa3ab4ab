//! How messages become bytes and back: prost, but for a request that is no valid message.
//!
//! tonic ends a stream at the first message that cannot be decoded, and with it every other request on
//! the stream. A bad [`Envelope`](crate::Envelope) is one bad request: it comes out as an envelope whose
//! header already says what is wrong, and gets its own reply.

use std::marker::PhantomData;

use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use crate::jina::{self, HeaderProto, StatusProto, status_proto};

/// A message that decides what becomes of bytes that are none.
pub trait Decode: Message + Default {
    /// What stands for the bad bytes.
    ///
    /// # Errors
    ///
    /// If nothing can stand for them: then the call fails.
    fn from_bad(error: &DecodeError) -> Result<Self, Status> {
        Err(Status::invalid_argument(describe(error)))
    }
}

fn describe(error: &DecodeError) -> String {
    format!("the message is not valid protobuf: {error}")
}

impl Decode for jina::DataRequestProto {
    fn from_bad(error: &DecodeError) -> Result<Self, Status> {
        let description = describe(error);
        let exception = status_proto::ExceptionProto {
            name: "BadRequest".to_owned(),
            args: vec![description.clone()],
            ..Default::default()
        };
        let code = status_proto::StatusCode::Error.into();
        let status = StatusProto {
            code,
            description,
            exception: Some(exception),
        };
        let header = HeaderProto {
            status: Some(status),
            ..HeaderProto::default()
        };
        Ok(Self {
            header: Some(header),
            ..Self::default()
        })
    }
}

impl Decode for () {}
impl Decode for jina::DataRequestListProto {}
impl Decode for jina::SingleDocumentRequestProto {}
impl Decode for jina::EndpointsProto {}
impl Decode for jina::StatusProto {}
impl Decode for jina::JinaInfoProto {}

/// The codec of every service in this crate.
#[derive(Debug)]
pub struct EnvelopeCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for EnvelopeCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for EnvelopeCodec<T, U>
where
    T: Message + Send + 'static,
    U: Decode + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = LenientDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        LenientDecoder(PhantomData)
    }
}

/// The initial capacity of a call's buffers, in bytes. They grow to the size of the message. tonic allocates 8 KiB,
/// which 10,000 small replies that arrive together multiply to 80 MB.
const BUFFER_LEN: usize = 1 << 10;

/// Messages that are ready are written together up to this many bytes; tonic's own default.
const YIELD_THRESHOLD: usize = 32 << 10;

fn buffer_settings() -> BufferSettings {
    BufferSettings::new(BUFFER_LEN, YIELD_THRESHOLD)
}

/// Writes messages.
#[derive(Debug)]
pub struct ProstEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for ProstEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // Once, for otherwise the buffer doubles until the message fits.
        out.reserve(message.encoded_len());
        message
            .encode(out)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffer_settings()
    }
}

/// Reads messages; see the module's description for those that are none.
#[derive(Debug)]
pub struct LenientDecoder<U>(PhantomData<U>);

impl<U: Decode> Decoder for LenientDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        use bytes::Buf;

        // A slice of what arrived, without a copy; and it is taken whole, valid or not.
        let message = from.copy_to_bytes(from.remaining());
        U::decode(message)
            .or_else(|error| U::from_bad(&error))
            .map(Some)
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffer_settings()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_request_says_what_is_wrong_with_it() {
        let error = crate::Envelope::decode(&b"\xff\xff"[..]).unwrap_err();
        let envelope = crate::Envelope::from_bad(&error).unwrap();
        let status = envelope.header.unwrap().status.unwrap();
        assert_eq!(status.code, 1);
        assert!(
            status
                .description
                .starts_with("the message is not valid protobuf: ")
        );
    }

    #[test]
    fn other_messages_fail_the_call() {
        let error = StatusProto::decode(&b"\xff"[..]).unwrap_err();
        let status = StatusProto::from_bad(&error).unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
    }
}
