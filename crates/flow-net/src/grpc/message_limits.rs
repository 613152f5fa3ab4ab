//! Limits on what decoding a message takes, checked on its bytes.
//!
//! Documents and parameters stay bytes when a message is decoded. Header, routes and the parts of a list become structs,
//! which take far more memory than their bytes: an empty route is two bytes on the wire and about 200 in memory.

use prost::encoding::{WireType, decode_key, decode_varint};

/// Fields of a request or a reply, and of a list.
const HEADER: u32 = 1;
const ROUTES: u32 = 3;
const REQUESTS: u32 = 1;

/// Bytes of header and routes together. A text of one byte in them takes 24 bytes and more when it is decoded. Failures
/// of stock executors contain the source lines of their stack, some kilobytes each.
const HEAD_LEN_MAX: usize = 1 << 20;

/// Routes of a message. Each process that a request passes adds one.
const ROUTES_MAX: usize = 1024;

/// Parts of a request that is a list: one for each branch of a join.
const PARTS_MAX: usize = 1024;

/// Fields of `ModelInferRequest` that become structs: parameters, inputs, outputs, raw contents.
const INFER_PARTS: [u32; 4] = [4, 5, 6, 7];

/// Its inputs and outputs.
const TENSORS: [u32; 2] = [5, 6];

/// The shape of an input, and its typed elements.
const SHAPE: u32 = 3;
const CONTENTS: u32 = 5;

/// The elements that are texts.
const BYTES_CONTENTS: u32 = 8;

/// Tensors and parameters of a request of the Open Inference Protocol, those of tensors included. Models here have one
/// tensor; each takes about 200 bytes.
const INFER_PARTS_MAX: usize = 1024;

/// Elements of the tensors of a request: four times as many as a request may have documents by default. A text takes 32 bytes in
/// addition to its content, a number up to eight bytes.
const ELEMENTS_MAX: usize = 1_000_000;

/// A message has more or larger parts than are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum MessageTooLarge {
    #[error("header and routes of the message have more than {HEAD_LEN_MAX} bytes")]
    Head,
    #[error("the message has more than {ROUTES_MAX} routes")]
    Routes,
    #[error("the message has more than {PARTS_MAX} parts")]
    Parts,
    #[error("the request has more than {INFER_PARTS_MAX} tensors and parameters")]
    Tensors,
    #[error("the tensors of the request have more than {ELEMENTS_MAX} elements")]
    Elements,
}

/// Checks a request or a reply.
pub(crate) fn check_envelope(message: &[u8]) -> Result<(), MessageTooLarge> {
    let (mut head_len, mut routes) = (0, 0);
    for (number, content) in contents(message) {
        match number {
            HEADER => head_len += content.len(),
            ROUTES => {
                head_len += content.len();
                routes += 1;
            }
            _ => {}
        }
        if routes > ROUTES_MAX {
            return Err(MessageTooLarge::Routes);
        }
    }
    match head_len {
        0..=HEAD_LEN_MAX => Ok(()),
        _ => Err(MessageTooLarge::Head),
    }
}

/// Checks a list of requests.
pub(crate) fn check_list(message: &[u8]) -> Result<(), MessageTooLarge> {
    let parts = contents(message).filter(|(number, _)| *number == REQUESTS);
    for (count, (_, part)) in parts.enumerate() {
        if count == PARTS_MAX {
            return Err(MessageTooLarge::Parts);
        }
        check_envelope(part)?;
    }
    Ok(())
}

/// Checks a request of the Open Inference Protocol.
pub(crate) fn check_infer(message: &[u8]) -> Result<(), MessageTooLarge> {
    let (mut parts, mut elements) = (0, 0);
    for (number, content) in contents(message) {
        parts += usize::from(INFER_PARTS.contains(&number));
        if TENSORS.contains(&number) {
            for (number, content) in contents(content) {
                parts += 1;
                elements += match number {
                    SHAPE => numbers(content),
                    CONTENTS => contents(content).map(elements_of).sum(),
                    _ => 0,
                };
            }
        }
        if parts > INFER_PARTS_MAX {
            return Err(MessageTooLarge::Tensors);
        }
        if elements > ELEMENTS_MAX {
            return Err(MessageTooLarge::Elements);
        }
    }
    Ok(())
}

/// The elements of a typed tensor in one of its fields.
fn elements_of((number, content): (u32, &[u8])) -> usize {
    match number {
        BYTES_CONTENTS => 1,
        _ => numbers(content),
    }
}

/// The most numbers that a field can have: packed, each takes at least a byte.
fn numbers(content: &[u8]) -> usize {
    content.len().max(1)
}

/// The number and the content of each field; a number has no content. Ends where the bytes are not valid, which prost reports.
fn contents(mut rest: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        while !rest.is_empty() {
            let (number, wire_type) = decode_key(&mut rest).ok()?;
            let (len, has_content) = match wire_type {
                WireType::LengthDelimited => (decode_varint(&mut rest).ok()?, true),
                WireType::Varint => {
                    decode_varint(&mut rest).ok()?;
                    (0, false)
                }
                WireType::SixtyFourBit => (8, false),
                WireType::ThirtyTwoBit => (4, false),
                // prost skips groups, and reads what follows. Fields in them count as the message's own.
                WireType::StartGroup | WireType::EndGroup => continue,
            };
            let (content, after) = rest.split_at_checked(usize::try_from(len).ok()?)?;
            rest = after;
            return Some((number, if has_content { content } else { &[] }));
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use flow_proto::inference::model_infer_request::InferInputTensor;
    use flow_proto::inference::{InferTensorContents, ModelInferRequest};
    use flow_proto::jina::{DataRequestListProto, DataRequestProto, HeaderProto, RouteProto};
    use prost::Message;

    use super::*;

    #[test]
    fn tensors_and_their_elements_are_limited() {
        let check = |tensors, elements| {
            let contents = InferTensorContents {
                bytes_contents: vec![bytes::Bytes::new(); elements],
                ..Default::default()
            };
            let mut inputs = vec![InferInputTensor::default(); tensors];
            inputs[0].contents = Some(contents);
            let request = ModelInferRequest {
                inputs,
                ..Default::default()
            };
            check_infer(&request.encode_to_vec())
        };
        assert_eq!(check(1, ELEMENTS_MAX), Ok(()));
        assert_eq!(check(1, ELEMENTS_MAX + 1), Err(MessageTooLarge::Elements));
        assert_eq!(check(INFER_PARTS_MAX - 1, 1), Ok(()));
        assert_eq!(check(INFER_PARTS_MAX, 1), Err(MessageTooLarge::Tensors));
    }

    #[test]
    fn numbers_in_tensors_are_limited_packed_or_not() {
        let check = |input: &[u8]| {
            let mut request = Vec::new();
            prost::encoding::bytes::encode(TENSORS[0], &input.to_vec(), &mut request);
            check_infer(&request)
        };
        let packed = |number, count| {
            let mut field = Vec::new();
            prost::encoding::bytes::encode(number, &vec![0; count], &mut field);
            field
        };
        const INT64_CONTENTS: u32 = 3;
        for number in [SHAPE, CONTENTS] {
            let field = |count| match number {
                SHAPE => packed(SHAPE, count),
                _ => {
                    let contents = packed(INT64_CONTENTS, count);
                    let mut field = Vec::new();
                    prost::encoding::bytes::encode(CONTENTS, &contents, &mut field);
                    field
                }
            };
            assert_eq!(check(&field(ELEMENTS_MAX)), Ok(()));
            assert_eq!(
                check(&field(ELEMENTS_MAX + 1)),
                Err(MessageTooLarge::Elements)
            );
        }
        let alone = b"\x18\x00".repeat(ELEMENTS_MAX + 1);
        let mut contents = Vec::new();
        prost::encoding::bytes::encode(CONTENTS, &alone, &mut contents);
        assert_eq!(check(&contents), Err(MessageTooLarge::Elements));
    }

    fn with_routes(count: usize) -> DataRequestProto {
        DataRequestProto {
            data: Some(vec![0; 2 << 20].into()),
            routes: vec![RouteProto::default(); count],
            ..Default::default()
        }
    }

    #[test]
    fn documents_are_not_limited_here_but_routes_are() {
        let check = |count| check_envelope(&with_routes(count).encode_to_vec());
        assert_eq!(check(ROUTES_MAX), Ok(()));
        assert_eq!(check(ROUTES_MAX + 1), Err(MessageTooLarge::Routes));
    }

    #[test]
    fn header_and_routes_have_a_length() {
        let message = |len| DataRequestProto {
            header: Some(HeaderProto {
                request_id: "x".repeat(len),
                ..HeaderProto::default()
            }),
            ..DataRequestProto::default()
        };
        let check = |len| check_envelope(&message(len).encode_to_vec());
        assert_eq!(check(HEAD_LEN_MAX - 10), Ok(()));
        assert_eq!(check(HEAD_LEN_MAX), Err(MessageTooLarge::Head));
    }

    #[test]
    fn a_list_has_a_number_of_parts_and_each_is_checked() {
        let list = |requests| DataRequestListProto { requests }.encode_to_vec();
        let empty = vec![DataRequestProto::default(); PARTS_MAX];
        assert_eq!(check_list(&list(empty.clone())), Ok(()));
        let more = [empty, vec![DataRequestProto::default()]].concat();
        assert_eq!(check_list(&list(more)), Err(MessageTooLarge::Parts));
        let routes = vec![with_routes(ROUTES_MAX + 1)];
        assert_eq!(check_list(&list(routes)), Err(MessageTooLarge::Routes));
    }

    #[test]
    fn fields_after_a_group_are_still_checked() {
        let group = b"\x4b\x4c";
        let message = [&group[..], &with_routes(ROUTES_MAX + 1).encode_to_vec()].concat();
        assert!(DataRequestProto::decode(&message[..]).is_ok());
        assert_eq!(check_envelope(&message), Err(MessageTooLarge::Routes));
    }

    #[test]
    fn invalid_bytes_are_left_to_prost() {
        for bytes in [&b"\xff\xff"[..], b"\x0a\x20xx", b"\x0b", b"\x09x"] {
            assert_eq!(check_envelope(bytes), Ok(()));
        }
    }
}
