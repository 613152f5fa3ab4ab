//! The vectors of a reply, and how close they are to those of another server.

use anyhow::{Context, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flow_proto::docarray::{DocumentProto, nd_array_proto};
use flow_proto::jina::DataRequestProto;
use flow_proto::jina::data_request_proto::DataContentProto;
use flow_proto::jina::data_request_proto::data_content_proto::Documents;
use prost::Message;
use serde_json::Value;

use crate::bench::servers::requests::Protocol;

/// The flag and the length that gRPC puts before a message.
const FRAME_HEAD_LEN: usize = 5;

pub(super) type Vector = Vec<f32>;

/// The vectors of a reply, in the order of its texts.
pub(super) fn of_reply(protocol: Protocol, reply: &[u8]) -> anyhow::Result<Vec<Vector>> {
    match protocol {
        Protocol::Grpc => of_message(reply),
        Protocol::Http => of_json(reply),
    }
}

fn of_message(reply: &[u8]) -> anyhow::Result<Vec<Vector>> {
    let message = reply.get(FRAME_HEAD_LEN..).context("the reply is empty")?;
    let reply = DataRequestProto::decode(message)?;
    let content = DataContentProto::decode(reply.data.context("the reply has no documents")?)?;
    let Some(Documents::Docs(documents)) = content.documents else {
        bail!("the reply has no array of documents");
    };
    documents.docs.iter().map(of_document).collect()
}

fn of_document(document: &DocumentProto) -> anyhow::Result<Vector> {
    let embedding = document
        .embedding
        .as_ref()
        .and_then(|it| it.content.as_ref());
    let Some(nd_array_proto::Content::Dense(numbers)) = embedding else {
        bail!("a document has no vector");
    };
    ensure!(numbers.dtype == "<f4", "a vector of `{}`", numbers.dtype);
    floats(&numbers.buffer)
}

fn of_json(reply: &[u8]) -> anyhow::Result<Vec<Vector>> {
    let reply: Value = serde_json::from_slice(reply)?;
    let data = reply["data"]
        .as_array()
        .context("the reply has no `data`")?;
    let vectors = data.iter().map(|one| {
        let text = one["embedding"].as_str();
        floats(&STANDARD.decode(text.context("a vector is not base64")?)?)
    });
    vectors.collect()
}

/// 32-bit floats in the order of bytes that both APIs have.
fn floats(bytes: &[u8]) -> anyhow::Result<Vector> {
    let (numbers, rest) = bytes.as_chunks();
    ensure!(rest.is_empty(), "a vector of {} bytes", bytes.len());
    Ok(numbers.iter().copied().map(f32::from_le_bytes).collect())
}

/// The lowest cosine between vectors of the same text.
pub(super) fn lowest_cosine(vectors: &[Vector], reference: &[Vector]) -> anyhow::Result<f64> {
    let (count, expected) = (vectors.len(), reference.len());
    ensure!(count == expected, "{count} vectors for {expected} texts");
    let mut lowest = f64::INFINITY;
    for (vector, other) in vectors.iter().zip(reference) {
        let (length, expected) = (vector.len(), other.len());
        ensure!(length == expected, "{length} dimensions, not {expected}");
        let cosine = cosine(vector, other);
        ensure!(cosine.is_finite(), "a vector is not finite, or zero");
        lowest = lowest.min(cosine);
    }
    Ok(lowest)
}

fn cosine(one: &[f32], other: &[f32]) -> f64 {
    let product = |one: &[f32], other: &[f32]| -> f64 {
        let pairs = one.iter().zip(other);
        pairs.map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
    };
    product(one, other) / (product(one, one) * product(other, other)).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_cosine_counts() {
        let reference = [vec![1.0, 0.0], vec![1.0, 1.0]];
        let lowest = lowest_cosine(&[vec![2.0, 0.0], vec![1.0, 0.0]], &reference);
        assert!((lowest.expect("a cosine") - 0.5_f64.sqrt()).abs() < 1e-9);
    }

    #[test]
    fn vectors_of_other_numbers_or_lengths_are_refused() {
        let reference = [vec![1.0, 0.0]];
        assert!(lowest_cosine(&[], &reference).is_err());
        assert!(lowest_cosine(&[vec![1.0]], &reference).is_err());
        assert!(lowest_cosine(&[vec![f32::NAN, 1.0]], &reference).is_err());
        assert!(lowest_cosine(&[vec![0.0, 0.0]], &reference).is_err());
    }

    #[test]
    fn base64_is_read() {
        // 1.0 and -2.0.
        let reply = br#"{"data": [{"embedding": "AACAPwAAAMA="}]}"#;
        let vectors = of_reply(Protocol::Http, reply).expect("vectors");
        assert_eq!(vectors, [[1.0, -2.0]]);
        assert!(of_reply(Protocol::Http, br#"{"data": [{"embedding": [1.0]}]}"#).is_err());
    }
}
