//! Encodes and decodes messages, as prost does, except for a request that is not a valid message.
//!
//! tonic ends a stream at the first message that cannot be decoded, and with it every other request on
//! the stream. An invalid [`Envelope`](flow_proto::Envelope) is one bad request: it is decoded as an envelope
//! whose header says what is wrong, and gets its own reply. So is one whose decoded form would take too much memory;
//! `message_limits.rs` has these limits.

use std::marker::PhantomData;

use bytes::Bytes;
use flow_proto::inference;
use flow_proto::jina::{self, HeaderProto, StatusProto, status_proto};
use prost::{DecodeError, Message};
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};

use super::message_limits::{self, MessageTooLarge};

/// A message with a rule for bytes that are not valid.
pub(crate) trait Decode: Message + Default {
    /// Checks what the message would take when it is decoded.
    fn check(_message: &[u8]) -> Result<(), MessageTooLarge> {
        Ok(())
    }

    /// The message that replaces bytes that cannot be decoded.
    ///
    /// # Errors
    ///
    /// If there is none; the call fails with this status.
    fn from_invalid(description: String) -> Result<Self, Status> {
        Err(Status::invalid_argument(description))
    }
}

/// Decodes a message, or makes the one that replaces bytes that are not valid.
pub(crate) fn decoded<T: Decode>(message: Bytes) -> Result<T, Status> {
    match T::check(&message) {
        Ok(()) => T::decode(message).or_else(|error| T::from_invalid(describe(&error))),
        Err(error) => T::from_invalid(error.to_string()),
    }
}

/// A request from its bytes. Bytes that are not valid become a request whose header says so, as in a gRPC call.
#[must_use]
pub fn envelope(message: Bytes) -> jina::DataRequestProto {
    decoded(message).unwrap_or_default()
}

fn describe(error: &DecodeError) -> String {
    format!("the message is not valid protobuf: {error}")
}

impl Decode for jina::DataRequestProto {
    fn check(message: &[u8]) -> Result<(), MessageTooLarge> {
        message_limits::check_envelope(message)
    }

    fn from_invalid(description: String) -> Result<Self, Status> {
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

impl Decode for jina::DataRequestListProto {
    fn check(message: &[u8]) -> Result<(), MessageTooLarge> {
        message_limits::check_list(message)
    }
}

impl Decode for jina::SingleDocumentRequestProto {
    fn check(message: &[u8]) -> Result<(), MessageTooLarge> {
        message_limits::check_envelope(message)
    }
}

impl Decode for () {}
impl Decode for jina::EndpointsProto {}
impl Decode for jina::StatusProto {}
impl Decode for jina::JinaInfoProto {}

impl Decode for inference::ModelInferRequest {
    fn check(message: &[u8]) -> Result<(), MessageTooLarge> {
        message_limits::check_infer(message)
    }
}

impl Decode for inference::ServerLiveRequest {}
impl Decode for inference::ServerLiveResponse {}
impl Decode for inference::ServerReadyRequest {}
impl Decode for inference::ServerReadyResponse {}
impl Decode for inference::ModelReadyRequest {}
impl Decode for inference::ModelReadyResponse {}
impl Decode for inference::ServerMetadataRequest {}
impl Decode for inference::ServerMetadataResponse {}
impl Decode for inference::ModelMetadataRequest {}
impl Decode for inference::ModelMetadataResponse {}
impl Decode for inference::ModelInferResponse {}
impl Decode for inference::ModelStreamInferResponse {}

/// The codec of all services.
#[derive(Debug)]
pub(crate) struct EnvelopeCodec<T, U>(PhantomData<(T, U)>);

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

/// Encodes messages.
#[derive(Debug)]
pub(crate) struct ProstEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for ProstEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        // Reserved once, because otherwise the buffer is doubled until the message fits.
        out.reserve(message.encoded_len());
        message
            .encode(out)
            .map_err(|error| Status::internal(error.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffer_settings()
    }
}

/// Decodes messages; the module's documentation says what follows invalid bytes.
#[derive(Debug)]
pub(crate) struct LenientDecoder<U>(PhantomData<U>);

impl<U: Decode> Decoder for LenientDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        use bytes::Buf;

        // A slice of the bytes that arrived, without a copy. It is consumed whole, valid or not.
        let message = from.copy_to_bytes(from.remaining());
        decoded(message).map(Some)
    }

    fn buffer_settings(&self) -> BufferSettings {
        buffer_settings()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_invalid_request_is_reported_with_the_reason() {
        let error = jina::DataRequestProto::decode(&b"\xff\xff"[..]).unwrap_err();
        let envelope = jina::DataRequestProto::from_invalid(describe(&error)).unwrap();
        let status = envelope.header.unwrap().status.unwrap();
        assert_eq!(status.code, 1);
        assert!(
            status
                .description
                .starts_with("the message is not valid protobuf: ")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn envelopes_survive_encoding(
            request_id in prop::option::of(".{0,8}"),
            data in prop::option::of(prop::collection::vec(any::<u8>(), 0..64)),
            executors in prop::collection::vec("[a-z]{1,8}", 0..4),
        ) {
            let route = |executor| jina::RouteProto { executor, ..Default::default() };
            let header = |request_id| HeaderProto { request_id, ..Default::default() };
            let envelope = jina::DataRequestProto {
                header: request_id.map(header),
                data: data.map(Into::into),
                routes: executors.into_iter().map(route).collect(),
                ..Default::default()
            };
            let decoded = jina::DataRequestProto::decode(envelope.encode_to_vec().as_slice());
            prop_assert_eq!(decoded.unwrap(), envelope);
        }

        #[test]
        fn any_bytes_are_an_envelope_or_a_bad_request(
            bytes in prop::collection::vec(any::<u8>(), 0..64),
        ) {
            if let Err(error) = jina::DataRequestProto::decode(bytes.as_slice()) {
                let envelope = jina::DataRequestProto::from_invalid(describe(&error)).unwrap();
                prop_assert_eq!(envelope.header.unwrap().status.unwrap().code, 1);
            }
        }
    }

    #[test]
    fn other_invalid_messages_fail_the_call() {
        let error = StatusProto::decode(&b"\xff"[..]).unwrap_err();
        let status = StatusProto::from_invalid(describe(&error)).unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
    }
}
